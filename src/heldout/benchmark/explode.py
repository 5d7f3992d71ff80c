"""Rows that hold more than one question with its answer, or hold it otherwise: taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from heldout.benchmark.readers import Row
from heldout.store import Dropped

_LETTER = r"\(?([A-J])\s*(?::\s*|[.)]\s+)"
_LINE_LETTER = re.compile(r"^\s*" + _LETTER, re.MULTILINE)
_INLINE_LETTER = re.compile(r"(?:^|(?<=[\s,;:.]))" + _LETTER)
_OPTIONS = re.compile(r"\b(?:options?|choices)\s*:\s*", re.IGNORECASE)


def listed_options(rows: Iterator[Row | Dropped]) -> Iterator[Row | Dropped]:
    """Benchmarks that write the options into the question: it stays, options are added."""
    for row in rows:
        if isinstance(row, Row) and "options" not in row.values and "A" not in row.values:
            options = options_in(row.values.get("question"))
            yield Row(row.number, {**row.values, "options": options})
        else:
            yield row


def joined_labels(rows: Iterator[Row | Dropped]) -> Iterator[Row | Dropped]:
    """Open Images: the labels people confirmed, as one answer."""
    for row in rows:
        labels = row.values.get("labels") if isinstance(row, Row) else None
        if isinstance(row, Row) and isinstance(labels, list):
            names = [label for label in map(_confirmed, labels) if label]
            yield Row(row.number, {**row.values, "answer": ", ".join(names) or None})
        else:
            yield row


def _confirmed(label: Any) -> str | None:
    if isinstance(label, dict):
        confidence = label.get("confidence")
        denied = isinstance(confidence, int | float) and confidence <= 0
        return None if denied else str(label.get("label") or "") or None
    return str(label) if label else None


def options_in(question: Any) -> list[str]:
    """'… Options: A: a cat, B: a dog' or one option a line → ['a cat', 'a dog']; else nothing."""
    if not isinstance(question, str):
        return []
    start = max((match.end() for match in _OPTIONS.finditer(question)), default=0)
    candidates = [(_INLINE_LETTER, question[start:])] if start else []
    for pattern, text in [*candidates, (_LINE_LETTER, question)]:
        options = _run(pattern, text)
        if options:
            return options
    return []


def _run(pattern: re.Pattern[str], text: str) -> list[str]:
    """Texts between the letters A, B, C, …, which must come in that order, at least two."""
    marks: list[re.Match[str]] = []
    for match in pattern.finditer(text):
        if match[1] == "ABCDEFGHIJ"[min(len(marks), 9)]:
            marks.append(match)
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    options = [
        text[mark.end() : end].strip().split("\n")[0].rstrip(" ,;")
        for mark, end in zip(marks, ends, strict=False)
    ]
    return options if len(options) >= 2 and all(options) else []
