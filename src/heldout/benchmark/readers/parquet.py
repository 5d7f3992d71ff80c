"""Parquet, Hugging Face's or any other: read in batches, image bytes only when looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark.readers.arrow import ColumnKinds, plain_values
from heldout.benchmark.readers.base import FileRow, head
from heldout.errors import InputError
from heldout.image import ImageRef, ParquetCell
from heldout.store import Dropped

_BATCH = 1024
_BATCH_WITH_BYTES = 16  # where a column of bytes has to be read to see which cells are empty
_POINTER = b"version https://git-lfs"


class ParquetReader:
    name = "parquet"
    suffixes = (".parquet", ".pq")

    def recognises(self, path: Path) -> bool:
        return head(path, 32).startswith((b"PAR1", _POINTER))

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        with _open(path) as file:
            layout = _Layout.of(file)
            number = 0
            for group in range(file.num_row_groups):
                end = number + file.metadata.row_group(group).num_rows
                try:
                    for row in _group_rows(file, path, layout, group, number):
                        number += 1
                        yield row
                except (
                    OSError,
                    ValueError,
                    pa.ArrowException,
                ) as error:  # one damaged page does not end the file
                    where = f"{path.name} rows {number + 1} to {end}"
                    yield Dropped("read", where, "unreadable row group", str(error))
                number = end


def _open(path: Path) -> pq.ParquetFile:
    if head(path, 32).startswith(_POINTER):
        raise InputError(
            f"{path} is a Git LFS pointer, not the data: run 'git lfs pull' in its repository"
        )
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{path} is not a readable Parquet file ({error}): it may be cut, download it again"
        ) from error


@dataclass(frozen=True)
class _Layout:
    """Which leaves of the file to read: everything but the bytes of images."""

    kinds: ColumnKinds
    columns: tuple[str, ...]  # in the order of the file
    leaves: dict[str, tuple[int, ...]]  # leaf numbers per column
    paths: tuple[str, ...]  # dotted path of every leaf

    @classmethod
    def of(cls, file: pq.ParquetFile) -> _Layout:
        schema = file.schema_arrow
        paths = tuple(file.schema.column(i).path for i in range(len(file.schema)))
        leaves: dict[str, list[int]] = {name: [] for name in schema.names}
        for index, path in enumerate(paths):
            # A column's name may itself hold a dot: the longest name that fits is the column.
            fitting = [n for n in schema.names if path == n or path.startswith(f"{n}.")]
            if fitting:
                leaves[max(fitting, key=len)].append(index)
        found = {name: tuple(indices) for name, indices in leaves.items()}
        return cls(ColumnKinds.of(schema), tuple(schema.names), found, paths)

    def bytes_leaf(self, column: str) -> int:
        """The leaf that holds the images themselves."""
        leaves = self.leaves[column]
        return next((i for i in leaves if self.paths[i].endswith(".bytes")), leaves[0])


def _group_rows(
    file: pq.ParquetFile, path: Path, layout: _Layout, group: int, before: int
) -> Iterator[FileRow | Dropped]:
    metadata = file.metadata.row_group(group)
    wanted = [
        layout.paths[leaf]
        for column in layout.columns
        if column not in layout.kinds.images
        for leaf in layout.leaves[column]
    ]
    unread: dict[str, bool] = {}  # image columns of which no leaf is read → whether bytes are there
    by_name: set[str] = set()  # image columns without any bytes: only the paths count
    heavy = False
    for column in layout.kinds.images:
        bytes_leaf = layout.bytes_leaf(column)
        statistics = metadata.column(bytes_leaf).statistics
        nulls = (
            statistics.null_count if statistics is not None and statistics.has_null_count else None
        )
        light = [layout.paths[i] for i in layout.leaves[column] if i != bytes_leaf]
        if light:
            wanted += light
            if nulls is not None and nulls == metadata.column(bytes_leaf).num_values:
                by_name.add(column)
        elif not _is_list(file.schema_arrow.field(column).type) and nulls in (0, metadata.num_rows):
            unread[column] = nulls == 0
        else:
            wanted.append(layout.paths[bytes_leaf])
            heavy = True
    offset = 0
    for batch in _batches(file, group, wanted, metadata.num_rows, heavy):
        for values in plain_values(batch):
            number = before + offset + 1
            if isinstance(values, str):
                yield Dropped("read", f"{path.name} row {number}", "not UTF-8", values)
            else:
                shown = layout.kinds.named(values)
                for column in layout.kinds.images:
                    cell = unread.get(column, shown.get(column))
                    where = ParquetCell(str(path), group, offset, column)
                    shown[column] = _picture(
                        cell, where, f"{path.name} row {number}", column in by_name
                    )
                yield FileRow(number, {name: shown.get(name) for name in layout.columns})
            offset += 1


def _batches(
    file: pq.ParquetFile, group: int, leaves: list[str], rows: int, heavy: bool
) -> Iterator[Any]:
    if not leaves:  # nothing but images: the rows are there all the same
        empty = pa.table({"": pa.nulls(rows)})
        yield empty.select([])
        return
    size = _BATCH_WITH_BYTES if heavy else _BATCH
    yield from file.iter_batches(size, row_groups=[group], columns=leaves, use_threads=False)


def _picture(cell: Any, where: ParquetCell, name: str, by_name: bool) -> Any:
    """The reference for one cell; ``cell`` is what was read of it, without bytes where possible."""
    if isinstance(cell, list):
        return [
            _picture(
                part,
                ParquetCell(where.path, where.row_group, where.row, where.column, i),
                name,
                by_name,
            )
            for i, part in enumerate(cell)
        ]
    if cell is None or cell is False:
        return None
    label = cell.get("path") if isinstance(cell, dict) else None
    label = label if isinstance(label, str) else None
    return label if by_name else ImageRef(label or name, where)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))
