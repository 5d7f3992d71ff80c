"""The lists beside a clean split: what was removed, what is doubtful, what things are called now."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from heldout.cure.policy import Decision
from heldout.store import Dropped, replacing, write_table

_DECIDED = [
    ("benchmark_id", pa.string()),
    ("position", pa.int64()),  # in the benchmark as it was read, from 0; null: it never was an item
    ("reason", pa.string()),
    ("because_of", pa.string()),
    ("corpus", pa.string()),
    ("corpus_id", pa.string()),
    ("method", pa.string()),
    ("similarity", pa.float64()),
    ("relation", pa.string()),
    ("modality", pa.string()),
    ("label_relation", pa.string()),
    ("matches", pa.int64()),
    ("evidence", pa.string()),
]
_KEPT = [("benchmark_id", pa.string()), ("written_id", pa.string()), ("position", pa.int64())]
_WEIGHTS = [
    ("benchmark_id", pa.string()),
    ("weight", pa.float64()),
    ("cluster", pa.string()),
    ("reason", pa.string()),
]
_MOVED = [
    ("benchmark_id", pa.string()),
    ("written_id", pa.string()),
    ("from", pa.string()),
    ("to", pa.string()),
]
_GATE = [
    ("corpus", pa.string()),
    ("corpus_id", pa.string()),
    ("reason", pa.string()),
    ("benchmark", pa.string()),
    ("benchmark_id", pa.string()),
    ("method", pa.string()),
    ("similarity", pa.float64()),
    ("relation", pa.string()),
    ("modality", pa.string()),
    ("evidence", pa.string()),
]
_COLUMNS = {
    "removed": _DECIDED,
    "doubtful": _DECIDED,
    "kept": _KEPT,
    "weights": _WEIGHTS,
    "moved": _MOVED,
    "training_rows": _GATE,
    "training_doubtful": _GATE,
}


def write_list(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """``name``.parquet for programs and ``name``.csv for people, with the same rows."""
    schema = pa.schema(_COLUMNS[name], metadata={"heldout.table": f"{name}/1"})
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    write_table(folder / f"{name}.parquet", table)
    with (
        replacing(folder / f"{name}.csv") as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        writer.writerows([row[column] for column in schema.names] for row in table.to_pylist())


def decided_rows(
    decisions: Sequence[Decision], action: str, dropped: Sequence[Dropped] = ()
) -> Iterable[dict[str, Any]]:
    """Rows of 'removed' or 'doubtful'. ``dropped`` rows of the file were never items."""
    for position, decision in enumerate(decisions):
        if decision.action != action:
            continue
        match = decision.leak.row if decision.leak is not None else {}
        yield {
            "benchmark_id": decision.benchmark_id,
            "position": position,
            "reason": decision.reason,
            "because_of": decision.because_of or None,
            **{
                name: match.get(name)
                for name in (
                    "corpus",
                    "corpus_id",
                    "method",
                    "similarity",
                    "relation",
                    "modality",
                    "label_relation",
                    "evidence",
                )
            },
            "matches": decision.matches,
        }
    for row in dropped:
        reason = f"could not be read: {row.reason}"
        yield {"benchmark_id": row.id, "reason": reason, "matches": 0, "evidence": row.detail}
