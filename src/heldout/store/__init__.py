"""Run folders: everything a claim rests on, written so that a kill loses nothing."""

from heldout.store.dropped import (
    FAILED,
    MAY_PASS,
    OUT_OF_MEMORY,
    WORKER_DIED,
    Dropped,
    dropped_table,
)
from heldout.store.lock import write_atomic, write_json
from heldout.store.run import Run
from heldout.store.schema import SCHEMAS, empty_table, make_table, read_table, write_table
from heldout.store.stage import ShardResult, Stage

__all__ = [
    "FAILED",
    "MAY_PASS",
    "OUT_OF_MEMORY",
    "SCHEMAS",
    "WORKER_DIED",
    "Dropped",
    "Run",
    "ShardResult",
    "Stage",
    "dropped_table",
    "empty_table",
    "make_table",
    "read_table",
    "write_atomic",
    "write_json",
    "write_table",
]
