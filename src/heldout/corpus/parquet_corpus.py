"""Parquet files with images and texts, and embeddings as LAION ships them.

A shard is a few row groups of one file, so that a large file is read by many workers. Batches are
sized by the file's own row size: the memory of a reader does not depend on the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.corpus._columns import CorpusColumns, decode_words, find_columns
from heldout.corpus._listing import digest, file_key
from heldout.corpus.corpus import CorpusItem, Shard
from heldout.errors import InputError
from heldout.image import BoundedParquet, readable
from heldout.remote import entries, located, open_rows, ranges
from heldout.store import Dropped

# Rows of a Parquet file in bounded memory, whatever its row groups are like.


_BATCH_ROWS = 1024
#: errors of reading a damaged file
FAILURES = (OSError, ValueError, MemoryError, NotImplementedError, pa.ArrowException)


def open_parquet(path: str | Path) -> Any:
    """The file, read page by page."""
    return BoundedParquet(path)


def rows(file: Any, groups: list[int], columns: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of some row groups, a few megabytes in memory at a time."""
    for group in groups:  # one at a time: together their pages would be held together
        for batch in file.batches(group, columns, _BATCH_ROWS):
            cells = [_cells(column) for column in batch.columns]
            for values in zip(*cells, strict=True):
                yield dict(zip(batch.schema.names, values, strict=True))


def row_group_spans(path: Path, target: int) -> Iterator[tuple[list[int], int]]:
    """(row groups, rows before them); one empty span for a file that has none or cannot be read."""
    try:
        metadata = pq.read_metadata(ranges(path))
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


def read_columns(schema: pa.Schema, columns: CorpusColumns, wanted: Mapping[str, str]) -> list[str]:
    """The columns worth reading: those with a meaning, and plain values as metadata."""
    named = {*columns.id, *columns.image, *columns.question, *columns.answer, *columns.text}
    named |= {*columns.talk, *columns.options, *wanted}
    return [c.name for c in schema if c.name in named or _is_plain(c.type)]


def _is_plain(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
    )


# Embeddings as LAION ships them: img_emb/img_emb_0000.npy + metadata/metadata_0000.parquet.
#
# The n-th item of a shard belongs to the n-th row of its matrix, always. Where that cannot be true
# (the two files disagree) the whole shard is refused, because every row of it would be misattributed.


_NUMBER = re.compile(r"(\d+)$")
_PLACES = ("img_emb", "image_embeddings", "")
_METADATA_PLACES = ("metadata", "")


@dataclass(slots=True)
class LaionEmbeddings:
    """One shard per .npy file; item ids are ``<file>/<row>``, counted from 0 as the matrix is."""

    root: str
    name: str
    source: str
    mapping: tuple[tuple[str, str], ...] = ()
    reader: str = "embeddings"

    def shards(self) -> Iterator[Shard]:
        for index, path in enumerate(matrices(located(self.root))):
            log = _metadata_of(path, located(self.root))
            key = digest(file_key(path), file_key(log) if log else "none")
            yield Shard(index, readable(path.name), key, (str(path), str(log) if log else None))

    def count_shards(self) -> int | None:
        return len(matrices(located(self.root)))

    def embeddings(self, shard: Shard) -> NDArray[np.generic]:
        path = located(shard.payload[0])
        try:
            matrix: NDArray[np.generic] = open_rows(path)
        except (OSError, ValueError, EOFError, SyntaxError) as error:
            raise InputError(f"{path}: not a readable .npy matrix ({error})") from error
        if matrix.ndim != 2 or matrix.dtype.kind != "f":
            raise InputError(
                f"{path}: expected a matrix of floats or int8, one row per image; "
                f"found {matrix.dtype} of shape {matrix.shape}"
            )
        expected = self._metadata_rows(shard)
        if expected is not None and expected != len(matrix):
            raise InputError(
                f"{path} has {len(matrix):,} rows but {shard.payload[1]} has {expected:,}: "
                f"they do not belong together, and no row can be attributed"
            )
        return matrix

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        try:
            count = len(self.embeddings(shard))
        except InputError as error:
            yield Dropped("corpus", shard.id, "unusable embeddings", str(error), scope="many")
            return
        done = 0
        problem = None
        try:
            for item in self._described(shard):
                yield item
                done += 1
        except FAILURES as error:
            problem = f"{shard.payload[1]} after row {done:,}: {error}; later items have no text"
        for row in range(done, count):  # a row without a description is still a row
            yield CorpusItem(f"{shard.id}/{row}")
        if problem:
            yield Dropped("corpus", shard.id, "unreadable Parquet file", problem, scope="words")

    def _described(self, shard: Shard) -> Iterator[CorpusItem]:
        log = shard.payload[1]
        if log is None:
            return
        with open_parquet(log) as file:
            columns = find_columns(tuple(file.schema_arrow.names), self.mapping, log)
            groups = list(range(file.metadata.num_row_groups))
            wanted = read_columns(file.schema_arrow, columns, {})
            for number, row in enumerate(rows(file, groups, wanted)):
                words = columns.words(row)
                metadata = {key: value for key, value in row.items() if value is not None}
                item = f"{shard.id}/{number}"
                yield CorpusItem(
                    item, None, words.text, words.question, words.answer, metadata, words.also
                )

    def _metadata_rows(self, shard: Shard) -> int | None:
        log = shard.payload[1]
        if log is None:
            return None
        try:
            return int(pq.read_metadata(ranges(log)).num_rows)
        except FAILURES as error:
            raise InputError(f"{log}: not a readable Parquet file ({error})") from error


def matrices(root: Path) -> list[Path]:
    """The image embeddings below ``root`` in the order of their numbers."""
    if root.is_file():
        return [root]
    for place in _PLACES:
        if not (root / place).is_dir():
            continue
        named = (p for p in entries(root / place) if p.name.endswith(".npy"))
        paths = [p for p in named if not p.name.startswith("text_emb")]
        if paths:
            return sorted(paths, key=lambda path: (_number(path), path.name))
    return []


def _number(path: Path) -> int:
    match = _NUMBER.search(path.stem)
    return int(match[1]) if match else -1


def _metadata_of(matrix: Path, root: Path) -> Path | None:
    """The Parquet file of the same number (or, without numbers, of the same name)."""
    bases = dict.fromkeys(
        (root if root.is_dir() else root.parent, matrix.parent, matrix.parent.parent)
    )
    number = _NUMBER.search(matrix.stem)
    for base in bases:
        for place in _METADATA_PLACES:
            folder = base / place
            names = [f"metadata_{number[1]}.parquet"] if number else []
            for name in [
                *names,
                f"{matrix.stem}.parquet",
                "metadata.parquet" if not number else "",
            ]:
                if name and (folder / name).is_file():
                    return folder / name
    return None
