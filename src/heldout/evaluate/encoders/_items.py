"""The items of a benchmark that an encoder can be evaluated on: a picture, its class, its captions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, Example, canonical_value, picture_key
from heldout.errors import InputError
from heldout.evaluate.encoders.settings import EncoderSettings
from heldout.store import Dropped

CAPTION_COLUMNS = ("caption", "captions", "sentences", "sentence", "raw", "alt_text", "text")
ANSWER = "answer"
STAGE = "impact"
_SENTENCE = 4  # words from which on an answer may be a caption


@dataclass(frozen=True)
class Asked:
    """One item whose picture can be encoded."""

    id: str
    picture: str  # its key
    label: str | None
    captions: tuple[str, ...]


@dataclass
class AskedItems:
    items: list[Asked] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    label_column: str | None = None  # None where items have no class
    caption_column: str | None = None


def asked_items(benchmark: Benchmark, settings: EncoderSettings) -> AskedItems:
    """Items with exactly one picture; the others are dropped with their reason."""
    items = AskedItems(
        label_column=_label_column(benchmark, settings.label),
        caption_column=_caption_column(benchmark, settings.caption),
    )
    for example in benchmark:
        problem = _unusable(benchmark, example)
        if problem:
            items.dropped.append(Dropped(STAGE, example.id, *problem))
            continue
        label = None if items.label_column is None else _text(example, items.label_column)
        captions = () if items.caption_column is None else _captions(example, items.caption_column)
        key = picture_key(benchmark, example.images[0])
        items.items.append(Asked(example.id, key, label, captions))
    if not items.items:
        reasons = ", ".join(sorted({dropped.reason for dropped in items.dropped}))
        raise InputError(f"{benchmark.name}: no item has one readable picture ({reasons})")
    return items


def read_class_names(path: Path) -> dict[str, str]:
    """Label → the words prompts use for it, from JSON, CSV, TSV, or lines that are both."""
    if not path.is_file():
        raise InputError(f"class_names {path}: there is no such file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable text file ({error})") from error
    if path.suffix == ".json":
        return _from_json(path, text)
    mark = {".tsv": "\t", ".csv": ","}.get(path.suffix, "\t" if "\t" in text else None)
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        label, _, name = (
            part.strip() for part in (line.partition(mark) if mark else (line, "", ""))
        )
        if number == 1 and (label.lower(), name.lower()) in {("label", "name"), ("class", "name")}:
            continue
        if names.setdefault(label, name or label) != (name or label):
            raise InputError(f"{path} line {number}: class '{label}' has two names")
    if len(names) < 2:
        raise InputError(f"{path}: expected two classes or more, one per line; found {len(names)}")
    return names


def _from_json(path: Path, text: str) -> dict[str, str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from error
    if isinstance(content, list) and all(isinstance(entry, str) for entry in content):
        return {entry: entry for entry in content}
    if isinstance(content, dict) and all(isinstance(entry, str) for entry in content.values()):
        return {str(label): name for label, name in content.items()}
    raise InputError(f"{path}: expected a JSON object of label: name, or a list of names")


def _unusable(benchmark: Benchmark, example: Example) -> tuple[str, str] | None:
    if len(example.images) != 1:
        return (
            ("no picture", "an encoder needs one")
            if not example.images
            else ("several pictures", f"it has {len(example.images)}: which one is classified?")
        )
    key = picture_key(benchmark, example.images[0])
    if not key or ":" in key:
        return "image not readable", f"{example.images[0].name}: missing, undecodable or flat"
    return None


def _label_column(benchmark: Benchmark, setting: str | None) -> str | None:
    if setting is not None:
        return _present(benchmark, setting, "label")
    answers = [example.answer for example in benchmark if example.answer]
    asks = any(example.question for example in benchmark)
    # Classes are few words that repeat; captions are sentences that differ.
    words = sum(len(answer.split()) for answer in answers)
    if (
        asks
        or not answers
        or len(set(answers)) == len(answers)
        or words >= _SENTENCE * len(answers)
    ):
        return None
    return ANSWER


def _caption_column(benchmark: Benchmark, setting: str | None) -> str | None:
    if setting is not None:
        return _present(benchmark, setting, "caption")
    names = {name.lower(): name for example in benchmark for name in example.metadata}
    for name in CAPTION_COLUMNS:
        if name in names:
            return names[name]
    answers = [example.answer for example in benchmark if example.answer]
    sentences = sum(len(answer.split()) >= _SENTENCE for answer in answers)
    asks = any(example.question for example in benchmark)
    return ANSWER if answers and not asks and sentences > len(answers) / 2 else None


def _present(benchmark: Benchmark, column: str, setting: str) -> str:
    names = {name for example in benchmark for name in example.metadata}
    if column == ANSWER and any(example.answer for example in benchmark):
        return column
    if column not in names:
        known = ", ".join(sorted(names | {ANSWER}))
        raise InputError(
            f"{setting} '{column}': {benchmark.name} has no such column; it has: {known}"
        )
    return column


def _text(example: Example, column: str) -> str | None:
    value = example.answer if column == ANSWER else example.metadata.get(column)
    text = canonical_value(value)
    return text.strip() or None if text else None


def _captions(example: Example, column: str) -> tuple[str, ...]:
    value: Any = example.metadata.get(column, example.answer if column == ANSWER else None)
    return tuple(dict.fromkeys(text for caption in _several(value) if (text := caption.strip())))


def _several(value: Any) -> Iterator[str]:
    """A sentence, a list of them, or such a list as JSON text."""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            yield str(value)
            return
    if isinstance(value, Mapping):
        yield from _several(value.get("raw"))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _several(part)
    elif value is not None and (text := canonical_value(value)):
        yield text
