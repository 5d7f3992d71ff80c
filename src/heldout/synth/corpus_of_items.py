"""The items of a synthesis as a corpus on disk, so that ``overlap`` searches them like any training set."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.corpus import CorpusItem, Shard
from heldout.image import FileOnDisk, ImageRef
from heldout.store import Dropped, Run, write_atomic
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.ledger import BATCH, read_rows
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
            draft.id,
            draft.figure,
            draft.question,
            tuple(row["options"]),
            row["answer"],
            row["archetype"],
            draft.generator,
            draft.raw,
            draft.extra,
        )
        yield BalancedItem(
            final,
            figure,
            row["rank"],
            row["archetype"],
            row["modality"],
            row["anatomy"],
            flags[draft.id],
        )


@dataclass(slots=True)
class ItemCorpus:
    """The items of a run as a corpus: one shard per file of ``synth/items``. Items have their own ids; the
    second and further images of an item add ``#1``, ``#2``, …"""

    run: str
    name: str = NAME
    source: str = "synth/items"
    reader: str = "synthesized items"

    def shards(self) -> Iterator[Shard]:
        for index, path in enumerate(sorted((Path(self.run) / self.source).glob("*.jsonl"))):
            with path.open("rb") as file:
                key = hashlib.file_digest(file, "sha256").hexdigest()
            yield Shard(index, path.name, key, path.name)

    def count_shards(self) -> int | None:
        return sum(1 for _ in (Path(self.run) / self.source).glob("*.jsonl"))

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        with (Path(self.run) / self.source / shard.payload).open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                question, answer = record["question"], record["answer"]
                for number, path in enumerate(record["images"]):
                    yield CorpusItem(
                        id=record["id"] + (f"#{number}" if number else ""),
                        image=ImageRef(Path(path).stem, FileOnDisk(str(Path(self.run) / path))),
                        text=f"{question}\n{answer}",
                        question=question,
                        answer=answer,
                        metadata={"article": record["article"], "options": record["options"]},
                    )


def write_corpus(run: Run) -> ItemCorpus:
    """``synth/items``: one line per item, a few hundred lines a file, images by their path in the run."""
    corpus = ItemCorpus(str(run.path))
    target, items = run.path / corpus.source, balanced_items(run)
    shutil.rmtree(target, ignore_errors=True)
    for number in itertools.count():
        batch = list(itertools.islice(items, BATCH))
        if not batch:
            break
        lines = "".join(json.dumps(_line(item), ensure_ascii=False) + "\n" for item in batch)
        write_atomic(target / f"{number:05d}.jsonl", lines)
    return corpus


def _line(item: BalancedItem) -> dict[str, Any]:
    draft = item.draft
    return {
        "id": draft.id,
        "images": [image.path for image in item.figure.images],
        "question": draft.question,
        "options": list(draft.options),
        "answer": draft.options[LETTERS.index(draft.answer)],
        "article": item.figure.article,
    }
