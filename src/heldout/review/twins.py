"""Cards of twins: the original, what was kept of it, the new picture, and both answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.parquet as pq

from heldout.errors import InputError
from heldout.image import FileOnDisk, Location
from heldout.review.card import Card
from heldout.review.pictures import Picture
from heldout.store import Run

SIDES = {"original": "original", "edges": "edges", "picture": "twin"}
NEEDED = ("benchmark_id", "picture", "new_answer")


def twin_cards(run: Run) -> list[Card]:
    path = run.table_path("twins")
    if not path.exists():
        raise InputError(f"{run.path} has no twins to judge: it has no tables/{path.name}")
    rows = pq.read_table(path).to_pylist()
    if rows and (missing := [name for name in NEEDED if name not in rows[0]]):
        raise InputError(f"{path} has no column {', '.join(missing)}: make the twins again")
    return [_card(run, row) for row in rows]


def _card(run: Run, row: Mapping[str, Any]) -> Card:
    identifier = str(row["benchmark_id"])
    pictures = {
        side: _picture(run, str(row[column])) for column, side in SIDES.items() if row.get(column)
    }
    told = ("image_name", "question", "old_answer", "new_answer", "caption", "renderer")
    return Card(
        subject=identifier,
        cluster=str(row.get("image_name") or identifier),
        told={
            "id": identifier,
            **{name: str(row.get(name) or "") for name in told},
            "options": options_of(row.get("options")),
        },
        hint={
            "verifier": str(row.get("verifier") or ""),
            "reason": str(row.get("verifier_reason") or ""),
        },
        pictures=pictures,
    )


def options_of(value: Any) -> list[str]:
    """A list, or a list as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return [value] if value else []
    if isinstance(value, dict):
        return [f"{key}. {text}" for key, text in value.items()]
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _picture(run: Run, name: str) -> Picture:
    def places() -> Iterable[Location]:
        root = run.path.resolve()
        file = (root / name).resolve()
        # A table may come from anybody: nothing outside the run folder is shown.
        if not file.is_relative_to(root):
            raise InputError("the table names a file outside the run folder")
        return [FileOnDisk(str(file))]

    return Picture(name, places, lambda data, image: True)
