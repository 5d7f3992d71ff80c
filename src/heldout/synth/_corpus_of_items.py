"""The items of a synthesis as a corpus on disk, so that ``overlap`` searches them like any training set."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from heldout.corpus import CorpusItem, Shard
from heldout.image import FileOnDisk, ImageRef
from heldout.store import Dropped, Run, inside, opened, remove, sha256, write_atomic
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
            yield Shard(index, path.name, sha256(path), path.name)

    def count_shards(self) -> int | None:
        return sum(1 for _ in (Path(self.run) / self.source).glob("*.jsonl"))

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        with opened(Path(self.run) / self.source / shard.payload, "r", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                question, answer = record["question"], record["answer"]
                for number, path in enumerate(record["images"]):
                    yield CorpusItem(
                        id=record["id"] + (f"#{number}" if number else ""),
                        image=ImageRef(
                            Path(path).stem, FileOnDisk(str(inside(Path(self.run), path)))
                        ),
                        text=f"{question}\n{answer}",
                        question=question,
                        answer=answer,
                        metadata={"article": record["article"], "options": record["options"]},
                    )


def write_corpus(run: Run) -> ItemCorpus:
    """``synth/items``: one line per item, a few hundred lines a file, images by their path in the run."""
    corpus = ItemCorpus(str(run.path))
    target, items = run.path / corpus.source, balanced_items(run)
    remove(target)
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


# Published items as lines for trainers: TRL, verl and LLaVA.


INSTRUCTION = (
    "Think about the question step by step inside <think> and </think>. Then give the letter of "
    "the right option inside <answer> and </answer>."
)
ANSWER_ALONE = "Give the letter of the right option inside <answer> and </answer>."


def asked(item: BalancedItem, instruction: str = INSTRUCTION) -> str:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    return f"{item.draft.question}\n{shown}\n\n{instruction}"


def image_paths(item: BalancedItem) -> list[str]:
    """From the dataset's folder."""
    return [f"images/{Path(image.path).name}" for image in item.figure.images]


@dataclass(frozen=True)
class LineStyle:
    """``name``: of the dataset; ``lists``: images of an item are a list, also where there is one alone, so
    that a column has one type."""

    name: str
    lists: bool


def _trl(item: BalancedItem, row: Mapping[str, Any], style: LineStyle) -> dict[str, Any]:
    images = [{"type": "image"} for _ in item.figure.images]
    line: dict[str, Any] = {
        "prompt": [{"role": "user", "content": [*images, {"type": "text", "text": asked(item)}]}],
        "images": image_paths(item),
        "solution": row["answer_label"],  # what the prompt asks for
    }
    if row["reasoning"]:
        reply = f"<think>{row['reasoning']}</think><answer>{row['answer_label']}</answer>"
        line["completion"] = [{"role": "assistant", "content": [{"type": "text", "text": reply}]}]
    return line


def _verl(item: BalancedItem, row: Mapping[str, Any], style: LineStyle) -> dict[str, Any]:
    marks = "<image>" * len(item.figure.images)
    return {
        "data_source": style.name,
        "prompt": [{"role": "user", "content": f"{marks}{asked(item)}"}],
        "images": [{"image": path} for path in image_paths(item)],
        "ability": "visual question answering",
        "reward_model": {"style": "rule", "ground_truth": row["answer_label"]},
        "extra_info": {
            "index": row["dataset_index"],
            "answer": row["answer"],
            "options": list(item.draft.options),
        },
    }


def _llava(item: BalancedItem, row: Mapping[str, Any], style: LineStyle) -> dict[str, Any]:
    paths = image_paths(item)
    marks = "<image>\n" * len(paths)
    # A model trained on replies that do not follow a request learns to ignore it.
    reply, instruction = f"<answer>{row['answer_label']}</answer>", ANSWER_ALONE
    if row["reasoning"]:
        reply, instruction = f"<think>{row['reasoning']}</think>{reply}", INSTRUCTION
    return {
        "id": item.draft.id,
        "image": paths if style.lists else paths[0],
        "conversations": [
            {"from": "human", "value": f"{marks}{asked(item, instruction)}"},
            {"from": "gpt", "value": reply},
        ],
    }


LINES: Mapping[str, Callable[[BalancedItem, Mapping[str, Any], LineStyle], dict[str, Any]]] = {
    "trl.jsonl": _trl,
    "verl.jsonl": _verl,
    "llava.jsonl": _llava,
}


def write_lines(
    files: Mapping[str, TextIO], item: BalancedItem, row: Mapping[str, Any], style: LineStyle
) -> None:
    for file, make in LINES.items():
        files[file].write(json.dumps(make(item, row, style), ensure_ascii=False) + "\n")
