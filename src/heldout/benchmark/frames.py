"""Data that lies in memory: data frames and datasets, kept as Parquet files so that every worker can read them.

The file lies in ``$HELDOUT_CACHE/frames`` under the digest of its content: the same data is the same file, and a run on
it can be continued.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.errors import InputError
from heldout.remote import cache_folder
from heldout.store import replacing

NAME = "frame"


def is_frame(source: object) -> bool:
    """Is this a data frame of pandas or Polars, an Arrow table, or a dataset of ``datasets``?"""
    return _library(source) in ("pandas", "polars", "pyarrow", "datasets")


def kept(source: Any) -> Path:
    """The Parquet file that holds what lies in memory."""
    try:
        table = _table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"a column of the data frame cannot be kept: {error}. Expected texts, numbers, lists, and pictures as "
            f"bytes or paths"
        ) from error
    if not table.num_rows:
        raise InputError("the data frame has no row: expected one row per item")
    hasher = hashlib.sha256(str(table.schema).encode())
    for batch in table.to_batches(max_chunksize=1 << 12):
        sink = _Hashing(hasher)
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema) as out:
            out.write_batch(batch)
    place = cache_folder() / "frames" / hasher.hexdigest()[:16] / f"{NAME}.parquet"
    if not place.exists():
        with replacing(place) as temporary:
            pq.write_table(table, temporary, row_group_size=1 << 13)
    return place


def _library(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _table(source: Any) -> pa.Table:
    library = _library(source)
    if library == "pandas":
        return pa.Table.from_pandas(source, preserve_index=False)
    if library == "polars":
        return (source.collect() if hasattr(source, "collect") else source).to_arrow()
    if library == "datasets":
        if "Iterable" in type(source).__name__:
            raise InputError(
                "an IterableDataset is a stream: write it to files and give their folder, or load it whole"
            )
        if not hasattr(source, "features"):
            splits = ", ".join(source)
            raise InputError(f"a DatasetDict holds several splits ({splits}): give one of them")
        whole = source.with_format("arrow")[:]
        # What its columns are (pictures, classes) is said in the schema.
        return whole.replace_schema_metadata(source.features.arrow_schema.metadata)
    if not isinstance(source, pa.Table):
        raise InputError(f"expected a table, got {type(source).__name__}")
    return source


class _Hashing:
    """A file that only hashes what is written."""

    closed = False

    def __init__(self, hasher: Any) -> None:
        self.hasher = hasher

    def write(self, data: Any) -> int:
        self.hasher.update(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...
