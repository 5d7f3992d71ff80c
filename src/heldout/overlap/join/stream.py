"""Stream matrices on disk past a join index: memory is bounded, whatever the corpus measures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heldout.engine.engine import Engine
from heldout.errors import InputError
from heldout.overlap.join.hits import Hits, select

MEMORY = 256 * 2**20
_SMALLEST = 2**20


class Index(Protocol):
    """What a join needs of an index; JoinIndex, TorchJoinIndex and HammingIndex are such."""

    k: int | None
    threshold: float | None

    def scan(
        self, block: NDArray[Any], start: int = 0, floor: NDArray[np.float64] | None = None
    ) -> Hits: ...

    def floor_of(self, hits: Hits) -> NDArray[np.float64] | None: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of rows of one ``.npy`` matrix: small, picklable, read where it is scanned."""

    path: Path
    first: int
    stop: int
    start: int  # the corpus row of row ``first``
    floor: NDArray[np.float64] | None = None


def row_ranges(paths: Sequence[Path], memory: int) -> Iterator[Rows]:
    """The rows of all matrices in order, at most ``memory`` bytes at a time."""
    if memory < _SMALLEST:
        raise InputError(f"a join needs at least {_SMALLEST} bytes of memory, not {memory}")
    start = 0
    for path in paths:
        matrix = _open(path)
        step = max(1, memory // max(1, matrix.strides[0]))
        for first in range(0, len(matrix), step):
            stop = min(first + step, len(matrix))
            yield Rows(path, first, stop, start + first)
        start += len(matrix)


def scan_rows(index: Index, rows: Rows) -> Hits:
    """One range of rows against all queries. Pure: the same wherever it runs."""
    # Opened anew for every range: the pages of the last one are given back with its mapping.
    return index.scan(_open(rows.path)[rows.first : rows.stop], rows.start, rows.floor)


def join(
    index: Index,
    paths: Sequence[Path],
    *,
    engine: Engine | None = None,
    memory: int = MEMORY,
    step: Callable[[int], object] = lambda rows: None,
) -> Hits:
    """All hits in the matrices ``paths``, whose rows are numbered through in that order.

    ``memory`` bounds what is read at a time per worker; ``step`` hears how many rows are done.
    """
    found = Hits.empty()

    def tasks() -> Iterator[Rows]:
        # Drawn lazily, so that a later range knows what the finished ones guarantee.
        for rows in row_ranges(paths, memory):
            yield Rows(rows.path, rows.first, rows.stop, rows.start, index.floor_of(found))

    if engine is None:
        for rows in tasks():
            found = select((found, scan_rows(index, rows)), index.k, index.threshold)
            step(rows.stop - rows.first)
        return found
    for outcome in engine.map(functools.partial(scan_rows, index), tasks()):
        if outcome.value is None:
            raise InputError(f"{outcome.task.path}: {outcome.error}")
        found = select((found, outcome.value), index.k, index.threshold)
        step(outcome.task.stop - outcome.task.first)
    return found


def _open(path: Path) -> NDArray[Any]:
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable .npy matrix ({error})") from error
    if matrix.ndim != 2:
        raise InputError(f"{path}: expected one embedding per row, found shape {matrix.shape}")
    return matrix
