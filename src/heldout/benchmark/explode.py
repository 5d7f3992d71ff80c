"""Rows that hold their answer in another shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heldout.benchmark.readers import Row
from heldout.store import Dropped


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
