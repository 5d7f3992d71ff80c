"""axe-core finds nothing to complain of at the desk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accessibility import PACKAGE, violations

pytestmark = pytest.mark.skipif(PACKAGE is None, reason="no axe-playwright-python")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1200, "light"), (1200, "dark")])
def test_the_desk_has_no_violation(
    run: Path, serving: Callable[..., str], browser: Any, width: int, scheme: str
) -> None:
    assert violations(browser, serving(run), "body[data-shown]", scheme, width) == []


def test_texts_at_the_desk_have_no_violation(
    texts_run: Path, serving: Callable[..., str], browser: Any
) -> None:
    assert violations(browser, serving(texts_run), "body[data-shown]", "light") == []
