"""Rows of a Parquet file in bounded memory, whatever its row groups are like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.corpus.columns import decode_words

_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 1024
#: what reading a damaged file raises
FAILURES = (OSError, ValueError, MemoryError, NotImplementedError, pa.ArrowException)


def open_parquet(path: str | Path) -> Any:
    """The file, read page by page: by default whole column chunks would be loaded ahead."""
    return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


def rows(file: Any, groups: list[int], columns: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of some row groups, a few megabytes in memory at a time."""
    for group in groups:  # one at a time: together their pages would be held together
        facts = file.metadata.row_group(group)
        size = max(facts.total_byte_size, 1)
        count = max(1, min(_BATCH_ROWS, _BATCH_BYTES * facts.num_rows // size))
        for batch in file.iter_batches(
            count, row_groups=[group], columns=columns, use_threads=False
        ):
            cells = [_cells(column) for column in batch.columns]
            for values in zip(*cells, strict=True):
                yield dict(zip(batch.schema.names, values, strict=True))


def row_group_spans(path: Path, target: int) -> Iterator[tuple[list[int], int]]:
    """(row groups, rows before them); one empty span for a file that has none or cannot be read."""
    try:
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        sizes = [(group.total_byte_size, group.num_rows) for group in groups]
    except FAILURES:
        sizes = []
    span: list[int] = []
    held, before, first = 0, 0, 0
    for index, (size, count) in enumerate(sizes):
        if span and held + size > target:
            yield span, first
            span, held, first = [], 0, before
        span.append(index)
        held += size
        before += count
    yield span, first


def _cells(column: Any) -> list[Any]:
    """Python values of a column; text that is not UTF-8 is decoded as what it probably is."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        raw = column.cast(binary).to_pylist()
        return [None if cell is None else decode_words(cell) for cell in raw]
    try:
        values: list[Any] = column.to_pylist()
        return values
    except (UnicodeDecodeError, OverflowError, ValueError):  # one bad cell: find it
        return [_cell(scalar) for scalar in column]


def _cell(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):
        return None
