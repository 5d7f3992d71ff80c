"""What to do about an item, by the rung it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heldout.evidence import Rung, leaks
from heldout.store import Run

_TOLD = {
    Rung.COPY: "same image or transformed copy, no answer",
    Rung.FULL: "same image or transformed copy, with answer",
}
#: from the highest rung down; the others prove too little to act on, and ``heldout sanitize`` lists them
ACTIONS = {
    Rung.FULL: "remove",
    Rung.COPY: "down-weight, or report with and without",
    Rung.TEXT: "remove",
    Rung.UNDECIDED: "have people judge it",
    Rung.UNCOMPARED: "make its pictures readable, and compare them",
    Rung.BESIDE_ANOTHER: "keep; read whether it can be answered without its picture",
    Rung.SOURCE_OVERLAP: "keep; one source with the corpus",
}


def rung_told(rung: str) -> str:
    """A rung as people read it: a name that sounds like equal files says what else stands on it."""
    return _TOLD.get(Rung(rung), rung)


def actions(run: Run) -> Iterator[dict[str, Any]]:
    """What to do about each item, as one row per item and corpus, in the order of the items."""
    position = {row["benchmark_id"]: row["position"] for row in run.read_table("items").to_pylist()}
    rows = [row for row in leaks(run).to_dicts() if row["rung"] in ACTIONS]
    for row in sorted(rows, key=lambda row: (position.get(row["benchmark_id"], -1), row["corpus"])):
        yield {
            "benchmark_id": row["benchmark_id"],
            "action": ACTIONS[Rung(row["rung"])],
            "evidence": row["rung"],
            "corpus": row["corpus"],
            "corpus_id": row["corpus_id"],
        }
