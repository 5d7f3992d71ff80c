"""Run folders: everything a claim rests on, written so that a killed process loses nothing."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.store._names import file_name, is_path
    from heldout.store.files import (
        compared_with_record,
        exclusive,
        inside,
        is_run,
        opened,
        read_document,
        remove,
        replacing,
        sha256,
        write_atomic,
        write_json,
    )
    from heldout.store.invocation import PYTHON, invocation, python_command
    from heldout.store.judgements import (
        ITEM,
        MATCH,
        TEXT,
        TWIN,
        Following,
        Judgement,
        append,
        current,
        log_path,
    )
    from heldout.store.partitions import Partitions
    from heldout.store.run import (
        Run,
        new_folder,
        no_new_runs,
        open_run,
        without_credentials,
    )
    from heldout.store.schema import (
        SCHEMAS,
        empty_table,
        make_table,
        opened_table,
        read_table,
        write_table,
    )
    from heldout.store.sorting import sorted_frames
    from heldout.store.stage import (
        FAILED,
        MAY_PASS,
        OUT_OF_MEMORY,
        UNREAD,
        WORKER_DIED,
        Dropped,
        ShardResult,
        Stage,
        adopt_shards,
        dropped_table,
        saved_shards,
    )

__all__ = [
    "FAILED",
    "ITEM",
    "MATCH",
    "MAY_PASS",
    "OUT_OF_MEMORY",
    "PYTHON",
    "SCHEMAS",
    "TEXT",
    "TWIN",
    "UNREAD",
    "WORKER_DIED",
    "Dropped",
    "Following",
    "Judgement",
    "Partitions",
    "Run",
    "ShardResult",
    "Stage",
    "adopt_shards",
    "append",
    "compared_with_record",
    "current",
    "dropped_table",
    "empty_table",
    "exclusive",
    "file_name",
    "inside",
    "invocation",
    "is_path",
    "is_run",
    "log_path",
    "make_table",
    "new_folder",
    "no_new_runs",
    "open_run",
    "opened",
    "opened_table",
    "python_command",
    "read_document",
    "read_table",
    "remove",
    "replacing",
    "saved_shards",
    "sha256",
    "sorted_frames",
    "without_credentials",
    "write_atomic",
    "write_json",
    "write_table",
]

__getattr__ = load_on_first_use(__name__, __file__)
