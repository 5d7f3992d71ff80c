"""The answer in a page's title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heldout.report._answer import headline
from heldout.store import Run


@pytest.mark.parametrize(("shared", "status"), [(False, "clean"), (True, "qualified")])
def test_a_source_that_both_sides_name_is_no_plain_yes(
    tmp_path: Path, shared: bool, status: str
) -> None:
    claims = [{"id": "text/web", "status": "clean", "controls": []}]
    if shared:
        claims.append({"id": "source/web", "status": "qualified", "controls": []})
    cell: dict[str, Any] = {"corpus": "web", "model": None, "status": "clean", "claims": claims}
    run = Run.create(tmp_path / "run", command=["heldout", "overlap"])
    assert headline([cell], [run])[1] == status
