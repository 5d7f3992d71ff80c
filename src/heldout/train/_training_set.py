"""A training set: rows with images, question, options, answer and, where there is one, a trace."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import Example, parse_source, read_benchmark
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.store import Dropped
from heldout.train.reward import LETTERS, Solution

STAGE = "training set"
_SYNTH = Path("synth") / "dataset" / "data"
_TAGS = ("<think", "</think", "<answer", "</answer")
_WRAPPED = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)
_TRACES = ("reasoning", "reasoning_trace", "trace", "thinking", "think", "rationale", "cot")


@dataclass(frozen=True)
class TrainingItem:
    id: str
    images: tuple[ImageRef, ...]
    question: str
    options: tuple[str, ...]
    answer: str  # the text of the right option, or of an open answer
    solution: Solution
    reasoning: str = ""


@dataclass(frozen=True)
class TrainingSet:
    """The rows that can be trained on, and those that cannot with their reasons."""

    name: str
    source: str
    items: tuple[TrainingItem, ...]
    dropped: tuple[Dropped, ...]

    @property
    def fingerprint(self) -> str:
        """Changes with the words of a row, the names of its images, and the order."""
        hasher = hashlib.sha256(b"heldout-training-set-1\n")
        for item in self.items:
            parts = (
                item.id,
                item.question,
                *item.options,
                item.answer,
                item.reasoning,
                *(ref.name for ref in item.images),
            )
            hasher.update("\0".join(parts).encode("utf-8", "replace") + b"\n")
        return hasher.hexdigest()

    def without(self, removed: Mapping[str, str]) -> TrainingSet:
        """The rows that are not in ``removed``, which says why each has to go."""
        kept = tuple(item for item in self.items if item.id not in removed)
        gone = tuple(
            Dropped("gate", item.id, "removed by the gate", removed[item.id])
            for item in self.items
            if item.id in removed
        )
        return TrainingSet(self.name, self.source, kept, (*self.dropped, *gone))


def read_training_set(source: str, *, limit: int | None = None) -> TrainingSet:
    """Read ``source``, which may also be the run folder of a synthesis."""
    place = parse_source(source)
    published = place.path / _SYNTH
    if (place.path / "manifest.json").is_file() and place.path.is_dir():
        if not published.is_dir():
            raise InputError(
                f"{source} is a run folder without a published dataset (synth/dataset/data): run its "
                f"synthesis up to the stage 'publish', or name a table of training rows"
            )
        read = read_benchmark(str(published), name=place.path.name)
    else:
        read = read_benchmark(source)
    items: list[TrainingItem] = []
    dropped = list(read.dropped)
    for item in map(_item, read.examples):
        if isinstance(item, TrainingItem):
            items.append(item)
        else:
            dropped.append(item)
    if not items:
        why = f" The first was dropped because: {dropped[0].detail}" if dropped else ""
        raise InputError(
            f"{source}: no row can be trained on; expected a question, an answer and, for multiple choice, "
            f"options.{why}"
        )
    return TrainingSet(read.name, source, tuple(items[:limit]), tuple(dropped))


def _item(example: Example) -> TrainingItem | Dropped:
    question, answer = (example.question or "").strip(), (example.answer or "").strip()
    if not question or not answer:
        lacking = "question" if not question else "answer"
        return Dropped(STAGE, example.id, f"no {lacking}", f"{example.origin}: {lacking} is empty")
    letter = ""
    if example.options:
        place = example.answer_index
        if place is None or not 0 <= place < min(len(example.options), len(LETTERS)):
            message = f"{example.origin}: the answer {answer!r} is none of the options"
            return Dropped(STAGE, example.id, "answer is no option", message)
        letter, answer = LETTERS[place], example.options[place].strip()
    return TrainingItem(
        example.id,
        example.images,
        question,
        example.options,
        answer,
        Solution(answer, letter, example.options),
        _trace(example.metadata),
    )


def _trace(metadata: Mapping[str, Any]) -> str:
    """The reasoning of a row, taken out of its tags. None for a trace with further tags in it, which would end
    early."""
    known = {str(name).lower(): value for name, value in metadata.items()}
    for name in _TRACES:
        value = known.get(name)
        if isinstance(value, str) and value.strip():
            wrapped = _WRAPPED.match(value)
            text = (wrapped[1] if wrapped else value).strip()
            return "" if any(tag in text.lower() for tag in _TAGS) else text
    return ""


def unusual(items: tuple[TrainingItem, ...]) -> Iterator[str]:
    """Warnings about the rows before training on them."""
    letters = {item.solution.letter for item in items if item.options}
    if len(items) >= 20 and len(letters) == 1:
        yield f"the right option is {letters.pop()} in every row: a model learns the letter, not the task"
