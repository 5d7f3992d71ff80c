"""Stream matrices on disk past a join index: memory is bounded, whatever the corpus measures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.engine import Engine
from heldout.errors import InputError
from heldout.overlap.images._join import Hits, select
from heldout.overlap.images._scratch import Scratch
from heldout.remote import open_rows

MEMORY = 4 * 2**20  # what a worker reads at a time; more makes nothing faster
_SMALLEST = 2**20
_scratch = Scratch()
_SAMPLE, _RUN = 2048, 64  # rows looked at before a corpus is scanned, and how many of them together


class Index(Protocol):
    """What a join needs of an index; JoinIndex, GpuJoinIndex and HammingIndex are such."""

    k: int | None
    threshold: float | None

    def scan(
        self, block: NDArray[Any], start: int = 0, floor: NDArray[np.float64] | None = None
    ) -> Hits: ...

    def floor_of(self, hits: Hits) -> NDArray[np.float64] | None: ...

    def prepare(self, sample: NDArray[Any], rows: int) -> NDArray[np.float64] | None:
        """Look at some rows of a corpus of ``rows`` before it is scanned: plan, and a first floor."""
        ...


IndexT = TypeVar("IndexT", bound=Index)


@dataclass(frozen=True, slots=True)
class MatrixRange:
    """A range of rows of one ``.npy`` matrix: small, picklable, read where it is scanned."""

    path: Path
    first: int
    stop: int
    start: int  # the corpus row of row ``first``
    floor: NDArray[np.float64] | None = None


def row_ranges(paths: Sequence[Path], memory: int, *, growing: bool) -> Iterator[MatrixRange]:
    """The rows of all matrices in order, at most ``memory`` bytes at a time.

    With ``growing`` the first ranges are small: where the bars rise, what those find spares the later
    ones work, wherever they run. A fixed threshold learns nothing from them.
    """
    start, count = 0, 0
    for path in paths:
        matrix = _open(path)
        first = 0
        while first < len(matrix):
            size = min(memory, _SMALLEST * 2 ** min(count // 4, 40)) if growing else memory
            stop = min(first + max(1, size // max(1, matrix.strides[0])), len(matrix))
            yield MatrixRange(path, first, stop, start + first)
            first, count = stop, count + 1
        start += len(matrix)


def scan_rows(index: Index, rows: MatrixRange) -> Hits:
    """One range of rows against all queries. Pure: the same wherever it runs."""
    matrix = _open(rows.path)
    shape = (rows.stop - rows.first, matrix.shape[1])
    block = _read(matrix, rows.first, rows.stop, _scratch.take("block", shape, matrix.dtype))
    return index.scan(block, rows.start, rows.floor)


def prepare_rows(index: IndexT, paths: Sequence[Path]) -> tuple[IndexT, NDArray[np.float64] | None]:
    """The index with a plan for the corpus, and a first floor."""
    sample, rows = sample_rows(paths)
    return index, (None if sample is None else index.prepare(sample, rows))


def sample_rows(paths: Sequence[Path]) -> tuple[NDArray[Any] | None, int]:
    """A few rows from all over the corpus, in runs (a disk likes neighbours), and about how many it has.

    Of many files only some are opened; what is learned here changes the speed of a join, not its hits.
    """
    some = paths[:: max(1, len(paths) * _RUN // _SAMPLE)]
    runs: list[NDArray[Any]] = []
    total = 0
    for path in some:
        matrix = _open(path)
        total += len(matrix)
        count = -(-_SAMPLE // (_RUN * len(some)))
        for first in np.unique(np.linspace(0, max(0, len(matrix) - _RUN), count).astype(int)):
            stop = min(int(first) + _RUN, len(matrix))
            room = np.empty((stop - int(first), matrix.shape[1]), matrix.dtype)
            runs.append(_read(matrix, int(first), stop, room))
    # Matrices of different width are refused, with a sentence, where they are scanned.
    same = [run for run in runs if run.shape[1] == runs[0].shape[1]]
    return (np.concatenate(same) if same else None), total * len(paths) // max(1, len(some))


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
    if memory < _SMALLEST:
        raise InputError(f"a join needs at least {_SMALLEST} bytes of memory, not {memory}")
    index, known = _prepare(index, paths, engine)
    collected = _Found(index)
    ranges = row_ranges(paths, memory, growing=index.k is not None)

    def tasks() -> Iterator[MatrixRange]:
        # Drawn lazily, so that a later range knows what the finished ones guarantee.
        for rows in ranges:
            floor = index.floor_of(collected.hits)
            if floor is not None and known is not None:
                floor = np.maximum(floor, known)
            yield MatrixRange(rows.path, rows.first, rows.stop, rows.start, floor)

    if engine is None:
        for rows in tasks():
            collected.add(scan_rows(index, rows))
            step(rows.stop - rows.first)
        return collected.all()
    for outcome in engine.map(functools.partial(scan_rows, index), tasks()):
        if outcome.value is None:
            raise InputError(f"{outcome.task.path}: {outcome.error}")
        collected.add(outcome.value)
        step(outcome.task.stop - outcome.task.first)
    return collected.all()


def _prepare(
    index: Index, paths: Sequence[Path], engine: Engine | None
) -> tuple[Index, NDArray[np.float64] | None]:
    if engine is None:
        return prepare_rows(index, paths)
    # A worker plans with the one thread it has: threads of the linear algebra that wait for each
    # other by spinning lose seconds where other programs want the cores, too.
    (outcome,) = engine.map(functools.partial(prepare_rows, index), [paths])
    if outcome.value is None:
        raise InputError(f"the corpus could not be looked at: {outcome.error}")
    return outcome.value


class _Found:
    """Hits so far. New ones wait until they are many: every merge sorts all there are."""

    def __init__(self, index: Index) -> None:
        self._k, self._threshold = index.k, index.threshold
        self.hits = Hits.empty()  # without those that wait
        self._new: list[Hits] = []

    def add(self, hits: Hits) -> None:
        self._new.append(hits)
        if sum(map(len, self._new)) > len(self.hits) // 4:
            self.all()

    def all(self) -> Hits:
        self.hits = select((self.hits, *self._new), self._k, self._threshold)
        self._new = []
        return self.hits


def _read(matrix: NDArray[Any], first: int, stop: int, rows: NDArray[Any]) -> NDArray[Any]:
    """``rows`` with those of a mapped matrix, from its file: faults of a mapping come page by page."""
    if not (isinstance(matrix, np.memmap) and matrix.flags.c_contiguous):
        np.copyto(rows, matrix[first:stop])
        return rows
    view, done = rows.reshape(-1).view(np.uint8).data, 0
    with Path(str(matrix.filename)).open("rb", buffering=0) as file:
        file.seek(matrix.offset + first * matrix.strides[0])
        while done < rows.nbytes:
            count = file.readinto(view[done:])
            if not count:
                raise InputError(
                    f"{matrix.filename}: the file ends before its last row; copy it again"
                )
            done += count
    return rows


def _open(path: Path) -> NDArray[Any]:
    try:
        matrix: NDArray[Any] = open_rows(path)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: not a readable .npy matrix ({error})") from error
    if matrix.ndim != 2:
        raise InputError(f"{path}: expected one embedding per row, found shape {matrix.shape}")
    return matrix
