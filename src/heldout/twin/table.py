"""The table of twins, joined from what the stages wrote; the review page reads it, and so do people."""

from __future__ import annotations

from typing import Any

from heldout.store import Run, make_table
from heldout.twin.ledger import FILTER, RENDER, TABLE, finished, read_stage

_DRAWN = (
    "image_name",
    "question",
    "options",
    "old_answer",
    "new_answer",
    "caption",
    "original",
    "edges",
    "picture",
    "renderer",
)
_JUDGED = ("verifier", "verifier_reason", "people", "kept")


def write_twins(run: Run) -> None:
    judged: dict[str, dict[str, Any]] = {}
    if finished(run, FILTER):
        judged = {row["id"]: row for row in read_stage(run, FILTER)}
    rows = []
    for row in read_stage(run, RENDER):
        known = judged.get(row["id"], {})
        rows.append(
            {
                "benchmark_id": row["id"],
                **{name: row[name] for name in _DRAWN},
                **{name: known.get(name) for name in _JUDGED},
            }
        )
    table = make_table(TABLE, rows)
    if run.table_path(TABLE).exists() and run.read_table(TABLE).equals(table):
        return
    run.write_table(TABLE, table)
