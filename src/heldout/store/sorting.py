"""Sort tables that exceed memory."""

from __future__ import annotations

import itertools
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl

_HELD = 1 << 27  # bytes in memory
_BATCH = 2048  # rows that are read at a time
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_KEY = "sorting key"


def sorted_frames(frames: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """All rows of ``frames``, sorted by the texts in the columns ``by``, in pieces; rows that agree in them come in one
    piece, in the order in which they came."""
    import polars as pl

    key = pl.concat_str(by, separator="\0", ignore_nulls=True).alias(_KEY)
    with tempfile.TemporaryDirectory(prefix="heldout-") as folder:
        chunks: list[_Chunk] = []
        waiting: list[pl.DataFrame] = []
        size = 0
        for frame in frames:
            if frame.is_empty():
                continue
            waiting.append(frame.with_columns(key))
            size += int(frame.estimated_size())
            if size > _HELD:
                path = Path(folder) / f"{len(chunks)}.arrow"
                chunks.append(
                    _Chunk.write(path, pl.concat(waiting).sort(_KEY, maintain_order=True))
                )
                waiting, size = [], 0
        last = pl.concat(waiting).sort(_KEY, maintain_order=True) if waiting else None
        waiting = []
        if not chunks:
            if last is not None:
                yield last.drop(_KEY)
            return
        if last is not None:
            chunks.append(_Chunk.write(Path(folder) / f"{len(chunks)}.arrow", last))
            last = None
        firsts = sorted(first for chunk in chunks for first in chunk.firsts)
        step = max(1, len(firsts) // len(chunks))
        bounds: list[str | None] = [None, *dict.fromkeys(firsts[step::step]), None]
        for low, high in itertools.pairwise(bounds):
            pieces = [piece for chunk in chunks if (piece := chunk.between(low, high)) is not None]
            if pieces:
                yield pl.concat(pieces).sort(_KEY, maintain_order=True).drop(_KEY)


class _Chunk:
    """A sorted table in a file, of which any range can be read."""

    def __init__(self, path: Path, firsts: list[str]) -> None:
        self.path, self.firsts = path, firsts  # the key of the first row of each batch

    @classmethod
    def write(cls, path: Path, frame: pl.DataFrame) -> _Chunk:
        table = frame.rechunk().to_arrow().combine_chunks()
        with pa.ipc.new_file(str(path), table.schema, options=_COMPRESSED) as writer:
            writer.write_table(table, max_chunksize=_BATCH)
        return cls(path, frame[_KEY].gather_every(_BATCH).to_list())

    def between(self, low: str | None, high: str | None) -> pl.DataFrame | None:
        """Rows with ``low`` ≤ key < ``high``."""
        import polars as pl

        begin = 0 if low is None else max(0, bisect_left(self.firsts, low) - 1)
        end = len(self.firsts) if high is None else bisect_right(self.firsts, high)
        if begin >= end:
            return None
        with pa.OSFile(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            table = pa.Table.from_batches([reader.get_batch(place) for place in range(begin, end)])
        frame = pl.DataFrame(table)
        above = pl.lit(True) if low is None else pl.col(_KEY) >= low
        below = pl.lit(True) if high is None else pl.col(_KEY) < high
        kept = frame.filter(above & below)
        return None if kept.is_empty() else kept
