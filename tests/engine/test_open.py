"""open_engine: names people type."""

from __future__ import annotations

import pytest

from heldout.engine import LocalEngine, open_engine
from heldout.errors import InputError


def test_local_is_an_engine_of_this_machine() -> None:
    with open_engine("local", 3) as engine:
        assert isinstance(engine, LocalEngine)
        assert engine.workers == 3


@pytest.mark.parametrize("name", ["spark", "", "ray:", "LOCAL", "rayon"])
def test_an_unknown_engine_is_answered_with_the_choices(name: str) -> None:
    with pytest.raises(InputError) as caught:
        open_engine(name, None)
    for choice in ("local", "ray:auto", "ray:host:port", "ray://host:port"):
        assert choice in str(caught.value)
