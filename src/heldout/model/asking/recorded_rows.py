"""Recorded predictions as rows of answers: what was shown, what was said, what the file says of it."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import FileRow, canonical_text
from heldout.errors import InputError
from heldout.model.prediction_files import Columns, as_text, as_truth, open_predictions
from heldout.store import Dropped

_LETTER = re.compile(r"[A-Z]")
_FAILED = "Failed to obtain answer"  # what VLMEvalKit writes where a request brought no reply


@dataclass(frozen=True)
class RecordedRow:
    """``position``: where lmms-eval says the item stands in its dataset, None elsewhere. ``own_grade``:
    how right the file calls the reply, 1 for right; None where it does not say."""

    where: str
    id: str | None
    reply: str | None
    model: str | None
    variant: str | None
    draw: int
    options: tuple[str, ...]
    gold: str | None
    question: str | None
    #: what was asked, with the words around the question
    prompt: str | None = None
    position: int | None = None
    own_grade: float | None = None
    #: which of several benchmarks the row is about, where one file holds answers to several
    benchmark: str | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None


@dataclass(frozen=True)
class RecordedFile:
    """``graded_by``: the column with the file's own grades, None where it has none."""

    rows: list[RecordedRow]
    columns: Columns
    graded_by: str | None
    dropped: list[Dropped] = field(default_factory=list)


def read_recorded_rows(
    path: Path, mapping: Mapping[str, str], known: Collection[str] = ()
) -> RecordedFile:
    """``known``: the benchmark's ids, which tell a column of ids from a column of row numbers."""
    rows, columns, dropped = open_predictions(path, mapping, known)
    own = columns.of("correct") or columns.of("score")
    made = [_flat(path, row, columns, own) for row in rows]
    return RecordedFile(made, columns, own, dropped)


def _flat(path: Path, row: FileRow, columns: Columns, own: str | None) -> RecordedRow:
    values = row.values
    where = f"{path.name} row {row.number}"
    draw = canonical_text(columns.cell(values, "draw")) or "0"
    if not draw.isdecimal():
        raise InputError(f"{where}: 'draw' is {draw!r:.40}; expected 0, 1, 2 …")
    place = canonical_text(columns.cell(values, "position")) or ""
    texts = {
        name: canonical_text(columns.cell(values, name))
        for name in ("id", "model", "variant", "answer", "question", "prompt")
    }
    reply = as_text(columns.cell(values, "prediction"))
    if reply is None and columns.holds(values, "prediction"):
        reply = ""  # null in JSON, an empty cell elsewhere: asked, and nothing was said
    elif reply is not None and reply.startswith(_FAILED):
        reply = None
    return RecordedRow(
        where,
        texts["id"],
        reply,
        texts["model"],
        texts["variant"],
        int(draw),
        _options(values, columns.cell(values, "options")),
        texts["answer"],
        texts["question"],
        texts["prompt"],
        int(place) if place.isdecimal() else None,
        own_grade(values.get(own)) if own is not None else None,
        canonical_text(columns.cell(values, "benchmark")),
        *_tokens(values, columns),
    )


def _tokens(values: Mapping[str, Any], columns: Columns) -> tuple[int | None, int | None]:
    counts = [columns.cell(values, name) for name in ("prompt_tokens", "reply_tokens")]
    read, written = (
        int(count) if isinstance(count, int | float) and 0 <= count < 2**40 else None
        for count in counts
    )
    return read, written


def own_grade(cell: Any) -> float | None:
    """A file's grade as a number, 1 for right; None where there is none that can be read."""
    truth = as_truth(cell)
    if truth is not None:
        return float(truth)
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _options(values: Mapping[str, Any], listed: Any) -> tuple[str, ...]:
    if isinstance(listed, str):
        for parse in (json.loads, ast.literal_eval):
            try:
                listed = parse(listed)
                break
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    if isinstance(listed, list | tuple):
        return tuple(text for one in listed if (text := canonical_text(one)))
    columns = sorted(name for name in values if isinstance(name, str) and _LETTER.fullmatch(name))
    texts = [canonical_text(values[name]) for name in columns]
    return tuple(text for text in texts if text and text.lower() != "nan")
