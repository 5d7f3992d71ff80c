"""Cards of a synthesis: items that the verifier accepted and rejected, in turns, for experts to rate."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from heldout.image import FileOnDisk
from heldout.review.card import Card
from heldout.review.pictures import Picture, same_bytes
from heldout.store import Run
from heldout.synth import (
    BY_KEY,
    LETTERS,
    Category,
    Draft,
    FigureImage,
    PaperFigure,
    SynthStage,
    finished,
    read_rows,
)

MOST = 6  # pictures of one item that are shown
_SAID = {True: "fine", False: "a fault", None: "nothing"}


def is_synthesized(run: Run) -> bool:
    return finished(run, SynthStage.VERIFY)


def synthesis_cards(run: Run) -> list[Card]:
    """Accepted and rejected items in turns, each in an order by chance that depends on their ids alone: the
    first twenty are a sample of both."""
    verdicts = {row["id"]: row for row in read_rows(run, SynthStage.VERIFY)}
    figures = map(PaperFigure.of_row, read_rows(run, SynthStage.SELECT))
    by_id = {figure.id: figure for figure in figures}
    sides: dict[bool, list[Card]] = {True: [], False: []}
    for draft in map(Draft.of_row, read_rows(run, SynthStage.GENERATE)):
        verdict = verdicts.get(draft.id)
        if verdict is not None:
            made = _card(run, draft, by_id[draft.figure], verdict)
            sides[verdict["accepted"]].append(made)
    for cards in sides.values():
        cards.sort(key=lambda card: hashlib.sha256(card.subject.encode()).digest())
    return list(_in_turns(sides[True], sides[False]))


def _in_turns(accepted: list[Card], rejected: list[Card]) -> Iterator[Card]:
    for pair in itertools.zip_longest(accepted, rejected):
        yield from (card for card in pair if card is not None)


def _card(run: Run, draft: Draft, figure: PaperFigure, verdict: Mapping[str, Any]) -> Card:
    lines = [_line(line) for line in verdict["rubric"]]
    failed = [
        line["title"] for line in lines if line["category"] == "essential" and not line["met"]
    ]
    metadata = {"caption": figure.caption, "source": figure.attribution or figure.article}
    if figure.references:
        metadata["mentions"] = " … ".join(figure.references)[:1500]
    return Card(
        subject=draft.id,
        cluster=figure.article,
        told={
            "id": draft.id,
            "question": draft.question,
            "options": list(draft.options),
            "answer": draft.options[LETTERS.index(draft.answer)],
            "metadata": metadata,
        },
        hint={
            "accepted": verdict["accepted"],
            "failed": failed,
            "reason": verdict["reason"],
            "rubric": lines,
        },
        pictures={
            f"image {place}": _picture(run, image)
            for place, image in enumerate(figure.images[:MOST], 1)
        },
    )


def _line(line: Mapping[str, Any]) -> dict[str, Any]:
    """A criterion as the page shows it, with what code and verifier say."""
    criterion = BY_KEY[line["criterion"]]
    penalty = criterion.category is Category.PENALTY
    said = {
        who: None if line[who] is None else line[who] is not penalty for who in ("code", "verifier")
    }
    fine = line["met"] is not penalty
    notes = ""
    if said["code"] is not None and said["code"] is not said["verifier"]:
        notes = f"disputed: code says {_SAID[said['code']]}, the verifier {_SAID[said['verifier']]}"
    return {
        "title": criterion.title,
        "category": str(criterion.category),
        "weight": criterion.weight,
        "score": criterion.weight if line["met"] else 0,
        "met": fine,
        "code": said["code"],
        "verifier": said["verifier"],
        "notes": "; ".join(part for part in (line["note"], notes) if part),
    }


def _picture(run: Run, image: FigureImage) -> Picture:
    place = FileOnDisk(str(run.path / image.path))
    return Picture(image.sha256[:12], lambda: [place], same_bytes(image.sha256))
