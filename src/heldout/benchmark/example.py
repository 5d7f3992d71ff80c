"""Example: one item of a benchmark, as the benchmark's authors released it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.image import ImageRef


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


def canonical_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as text that is the same whether it came from JSON, CSV or Parquet."""
    return {
        key: text
        for key in sorted(metadata)
        if (text := canonical_value(metadata[key])) is not None
    }


def canonical_value(value: Any) -> str | None:
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return str(value)
