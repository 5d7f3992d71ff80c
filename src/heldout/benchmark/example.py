"""Example: one item of a benchmark, as the benchmark's authors released it."""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.image import ImageRef

# The metadata key of a question as it was released, where options or hints were taken out of it.
RELEASED = "released_question"

_WHOLE = re.compile(r"-?\d+\.0+")


@dataclass(frozen=True, slots=True)
class Example:
    id: str
    images: tuple[ImageRef, ...] = ()
    question: str | None = None
    options: tuple[str, ...] = ()
    answer: str | None = None  # the answer's text; for multiple choice the text of the right option
    answer_index: int | None = None  # position of the right option, None when there is none
    cluster: str | None = None  # the patient, slide or study, where the benchmark names one
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""  # where a person finds it: "official_test.json row 12"
    key: str | None = None  # the answer as the file writes it: a letter, a position, or its text


def canonical_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as text that is the same whether it came from JSON, CSV or Parquet."""
    return {
        key: text for key in sorted(metadata) if (text := canonical_text(metadata[key])) is not None
    }


def canonical_value(value: Any) -> str | None:
    """A cell as text, None where it is empty; a whole number is written without a point."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | tuple | dict):
        return json.dumps(_without_none(value), sort_keys=True, ensure_ascii=False, default=str)
    return str(value)


def canonical_text(value: Any) -> str | None:
    """``canonical_value``, seeing through what a text format had to write as text."""
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return value.partition(".")[0]
        if value[:1] in "[{" and value[-1:] in "]}":
            for parse in (json.loads, ast.literal_eval):
                try:
                    return canonical_value(parse(value))
                except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                    continue
    return canonical_value(value)


def _without_none(value: Any) -> Any:
    """Parquet fills every key of a struct; a key without a value is a key that is not there."""
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Text compared as people read it: case, spacing and closing punctuation make no difference.


_SAME = str.maketrans(
    {"−": "-", "‐": "-", "‑": "-", "–": "-", "’": "'", "‘": "'", "“": '"', "”": '"'}
)
_CLOSING = " .?!。？！"


def normal(text: str | None) -> str:
    """Two texts with the same ``normal`` are one. Compatibility folding is for full-width letters

    alone: NFKC of everything would make 10² into 102.
    """
    if not text:
        return ""
    composed = unicodedata.normalize("NFC", text).translate(_SAME)
    if not composed.isascii():
        composed = "".join(
            unicodedata.normalize("NFKC", c) if unicodedata.east_asian_width(c) in "FH" else c
            for c in composed
        )
    folded = " ".join(composed.casefold().split())
    return folded.rstrip(_CLOSING) or folded  # "?" stays a question mark
