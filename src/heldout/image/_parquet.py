"""Batches of a Parquet file that are bounded by what they hold when decoded.

A cell of a megabyte that a million rows share is a file of a kilobyte, and nothing in the file says what it unfolds to.
Columns that share bytes are therefore read as dictionaries, and measured before cells are copied out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from heldout.image.problem import MAX_BYTES
from heldout.remote import ranges

_BATCH_BYTES = 4 << 20
_CELL = 64  # bytes that any value takes as an object of Python
_DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_PREFIXES = "DELTA_BYTE_ARRAY"  # each cell is stored as what differs from the one before


class BoundedParquet(pq.ParquetFile):  # type: ignore[misc]
    """A file that is read page by page: by default whole column chunks would be loaded ahead."""

    def __init__(
        self, path: str | Path, metadata: Any = None, shared: Collection[str] = ()
    ) -> None:
        super().__init__(
            ranges(path),
            metadata=metadata,
            read_dictionary=list(shared) or None,
            buffer_size=1 << 20,
            pre_buffer=False,
        )
        self._path = path

    def batches(self, group: int, columns: list[str], rows: int) -> Iterator[Any]:
        """Record batches of a row group: at most so many ``rows``, and a few megabytes or a single row.

        Args:
            group: The number of the row group.
            columns: Names of columns, or dotted paths of their leaves.
            rows: The most rows of a batch.

        Raises:
            ValueError: A row, or a column that cannot be read in parts, holds more than a picture may.
        """
        facts = self.metadata.row_group(group)
        count = min(rows, _BATCH_BYTES * facts.num_rows // max(facts.total_byte_size, 1))
        count = min(count, _BATCH_BYTES // self._widest(group, columns))
        with self._apart(group, columns) as apart:
            for batch in apart.iter_batches(
                max(1, count), row_groups=[group], columns=columns, use_threads=False
            ):
                for piece in _pieces(batch):
                    yield _unshared(piece)

    def whole(self, group: int, column: str) -> Any:
        """A column of a row group; where cells share bytes, a dictionary is in memory and not the cells."""
        size = self._widest(group, [column]) * self.metadata.row_group(group).num_rows
        if size > MAX_BYTES:
            raise ValueError(f"'{column}' may take {size:,} bytes; write it without {_PREFIXES}")
        with self._apart(group, [column]) as apart:
            return apart.read_row_group(group, columns=[column], use_threads=False).column(column)

    def _apart(self, group: int, columns: Collection[str]) -> BoundedParquet:
        """The file opened once more: cells of the group that share bytes come as dictionaries."""
        shared = [
            chunk.path_in_schema
            for chunk, _ in self._chunks(group, columns)
            if chunk.physical_type == "BYTE_ARRAY"
            and _DICTIONARIES & set(chunk.encodings)
            and chunk.total_uncompressed_size * chunk.num_values > _BATCH_BYTES
        ]
        return BoundedParquet(self._path, self.metadata, shared)

    def _widest(self, group: int, columns: Collection[str]) -> int:
        """Bytes of a row at most in columns whose cells may share bytes and are not read apart; at least 1."""
        width = 1
        for chunk, length in self._chunks(group, columns):
            if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                width += length
            elif _PREFIXES in chunk.encodings:  # a cell holds no more than the whole chunk
                width += chunk.total_uncompressed_size
        return width

    def _chunks(self, group: int, columns: Collection[str]) -> Iterator[tuple[Any, int]]:
        """The leaves of the columns in a row group, with the bytes of a cell where they are fixed."""
        names, facts = set(columns), self.metadata.row_group(group)
        for leaf in range(facts.num_columns):
            chunk = facts.column(leaf)
            path = chunk.path_in_schema
            above = (path[:place] for place, sign in enumerate(path) if sign == ".")
            if path in names or any(name in names for name in above):
                yield chunk, self.schema.column(leaf).length


def _pieces(batch: Any) -> Iterator[Any]:
    size = sum(_decoded(column) for column in batch.columns)
    if size <= _BATCH_BYTES:
        yield batch
    elif batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif size > MAX_BYTES:
        raise ValueError(f"a row of {size:,} bytes, the limit is {MAX_BYTES:,}")
    else:
        yield batch


def _decoded(array: Any) -> int:
    """Bytes that the cells take as values of Python."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary)
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + _CELL * len(array)
    if pa.types.is_struct(kind):
        return _CELL * len(array) + sum(map(_decoded, array.flatten()))
    if pa.types.is_nested(kind) and hasattr(array, "flatten"):
        return _CELL * len(array) + _decoded(array.flatten())
    return int(array.nbytes) + _CELL * len(array)


def _unshared(batch: Any) -> Any:
    fields = [field.with_type(_plain(field.type)) for field in batch.schema]
    plain = pa.schema(fields, batch.schema.metadata)
    if plain.equals(batch.schema):
        return batch
    # Taken first: a cast of part of a list's cells copies out all of them.
    return batch.take(pa.array(range(batch.num_rows))).cast(plain)


def _plain(kind: Any) -> Any:
    """The type without dictionaries."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind.fields])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind
