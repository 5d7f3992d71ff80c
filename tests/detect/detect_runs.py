"""Run folders with planted scores, for the tests of everything that reads one."""

from __future__ import annotations

from pathlib import Path

from heldout.detect import ScoreTables
from heldout.store import SCHEMAS, Run


def write_run(folder: Path, tables: ScoreTables) -> Run:
    run = Run.create(folder, command=["test"])
    run.update("inputs", {"benchmark": {"name": tables.benchmark, "fingerprint": "cafe"}})
    frames = {
        "items": tables.items, "scores": tables.scores,
        "order_joint": tables.order_joint, "order_neighbour": tables.order_neighbour,
    }  # fmt: skip
    for name, frame in frames.items():
        if frame is not None:
            table = frame.select(SCHEMAS[name].names).to_arrow()
            run.write_table(name, table.cast(SCHEMAS[name]))
    return run
