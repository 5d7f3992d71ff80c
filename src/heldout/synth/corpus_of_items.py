"""The items of a synthesis as a corpus on disk, so that ``overlap`` searches them like any training set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heldout.corpus import Corpus, open_corpus
from heldout.store import Run
from heldout.store.atomic import replacing
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.ledger import folder, read_rows
from heldout.synth.settings import SynthStage

NAME = "synthesized items"


@dataclass(frozen=True)
class BalancedItem:
    """An item with its final options, its figure and its labels."""

    draft: Draft
    figure: PaperFigure
    rank: int
    archetype: str
    modality: str
    anatomy: str
    flagged: bool


def balanced_items(run: Run) -> Iterator[BalancedItem]:
    """Items in the order of their figures, with the options and labels that ``balance`` gave them."""
    balanced = {row["id"]: row for row in read_rows(run, SynthStage.BALANCE)}
    flags = {row["id"]: row["flagged"] for row in read_rows(run, SynthStage.SHORTCUT)}
    figures = map(PaperFigure.of_row, read_rows(run, SynthStage.SELECT))
    figure = next(figures, None)
    for draft in map(Draft.of_row, read_rows(run, SynthStage.GENERATE)):
        row = balanced.get(draft.id)
        if row is None:
            continue
        while figure is not None and figure.id != draft.figure:
            figure = next(figures, None)
        assert figure is not None
        final = Draft(
            draft.id, draft.figure, draft.question, tuple(row["options"]), row["answer"],
            row["archetype"], draft.generator, draft.raw, draft.extra,
        )  # fmt: skip
        yield BalancedItem(
            final,
            figure,
            row["rank"],
            row["archetype"],
            row["modality"],
            row["anatomy"],
            flags[draft.id],
        )


def write_corpus(run: Run) -> Corpus:
    """``synth/items.jsonl``: one line per item, images by their path in the run folder."""
    path = folder(run) / "items.jsonl"
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for item in balanced_items(run):
            draft = item.draft
            line = {
                "id": draft.id,
                "images": [_relative(image.path) for image in item.figure.images],
                "question": draft.question,
                "options": list(draft.options),
                "answer": draft.options[LETTERS.index(draft.answer)],
                "article": item.figure.article,
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return open_corpus(str(path), name=NAME)


def _relative(path: str) -> str:
    """From ``synth/``, where the table lies."""
    return str(Path(path).relative_to("synth"))
