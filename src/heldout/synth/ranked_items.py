"""Items in the order of their ranks, a part at a time: sorted on disk, as not all may fit in memory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.store import Run
from heldout.synth.corpus_of_items import BalancedItem, balanced_items
from heldout.synth.draft import Draft, PaperFigure
from heldout.synth.ledger import read_rows
from heldout.synth.settings import SynthStage


@dataclass(frozen=True)
class JudgedItem:
    """An item with its final options, and what code and verifier said of it."""

    item: BalancedItem
    verdict: Mapping[str, Any]


def by_rank(
    run: Run, ranks: Mapping[str, int], scratch: Path, size: int
) -> Iterator[list[JudgedItem]]:
    """Items with a rank in lists of ``size``. One pass over the tables puts every item into the file of
    its list; each list is then read and sorted by itself."""
    waiting: dict[int, list[str]] = defaultdict(list)

    def flush() -> None:
        for number, lines in waiting.items():
            with (scratch / f"{number}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(lines)
        waiting.clear()

    verdicts = read_rows(run, SynthStage.VERIFY)  # in the order of the items
    for place, item in enumerate(balanced_items(run), 1):
        rank = ranks.get(item.draft.id)
        if rank is not None:
            verdict = next(row for row in verdicts if row["id"] == item.draft.id)
            waiting[rank // size].append(json.dumps(_told(item, rank, verdict)) + "\n")
        if not place % size:
            flush()
    flush()
    for number in range(-(-len(ranks) // size)):
        path = scratch / f"{number}.jsonl"
        with path.open(encoding="utf-8") as lines:
            told = sorted((json.loads(line) for line in lines), key=lambda one: one["rank"])
        path.unlink()
        yield [_read(one) for one in told]


def _told(item: BalancedItem, rank: int, verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **vars(item),
        "draft": item.draft.as_row(),
        "figure": item.figure.as_row(),
        "rank": rank,
        "verdict": verdict,
    }


def _read(told: dict[str, Any]) -> JudgedItem:
    verdict = told.pop("verdict")
    draft, figure = Draft.of_row(told.pop("draft")), PaperFigure.of_row(told.pop("figure"))
    return JudgedItem(BalancedItem(draft=draft, figure=figure, **told), verdict)
