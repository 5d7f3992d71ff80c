"""The answer in a page's title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heldout.evidence import Rung
from heldout.report._answer import headline
from heldout.report._cell_words import in_words
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


def _words(rules: dict[str, str], shared: int = 0) -> str:
    claims = [
        {"id": f"{rule.partition('/')[0]}/web", "rule": rule, "status": status, "controls": []}
        for rule, status in rules.items()
    ]
    status = "qualified" if "qualified" in rules.values() else "clean"
    cell: dict[str, Any] = {"corpus": "web", "model": None, "status": status, "claims": claims}
    evidence = {Rung.SOURCE_OVERLAP: shared} if shared else {}
    return in_words({**cell, "leak_rate": {"leaked": 0}, "evidence": evidence})


@pytest.mark.parametrize("words", ["clean", "qualified"])
def test_a_shared_source_stands_beside_nothing_found(words: str) -> None:
    rules = {"words/rewordings-unsearched": words}
    alone = _words(rules)
    assert _words(rules | {"sources/source-named": "qualified"}, 10).startswith(f"{alone}; 10 ")
    assert alone.startswith(_words({"words/nothing": "clean"}))
