"""Hits: the pairs a join keeps, as arrays, in one order whatever way they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError


def _none() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Hits:
    """Pairs sorted by query, then from the most similar down, then by position.

    ``unusable`` lists corpus rows that were left out because they are not unit vectors (a failed
    image is often stored as zeros or NaN): the caller reports them.
    """

    query: NDArray[np.int32]
    position: NDArray[np.int64]  # row of the whole corpus, not of one shard
    similarity: NDArray[np.float64]
    unusable: NDArray[np.int64] = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def empty(cls) -> Hits:
        return cls(np.empty(0, np.int32), _none(), np.empty(0, np.float64))


def select(parts: Iterable[Hits], k: int | None, threshold: float | None) -> Hits:
    """The union of ``parts``, in order: per query the ``k`` best and whatever reaches ``threshold``."""
    pieces = list(parts) or [Hits.empty()]
    query = np.concatenate([part.query for part in pieces])
    position = np.concatenate([part.position for part in pieces])
    similarity = np.concatenate([part.similarity for part in pieces])
    order = np.lexsort((position, -similarity, query))
    query, position, similarity = query[order], position[order], similarity[order]
    kept = np.zeros(len(query), bool)
    if k is not None:
        first = np.flatnonzero(np.r_[True, query[1:] != query[:-1]]) if len(query) else _none()
        lengths = np.diff(np.append(first, len(query)))
        kept |= np.arange(len(query)) - np.repeat(first, lengths) < k
    if threshold is not None:
        kept |= similarity >= threshold
    unusable = np.unique(np.concatenate([part.unusable for part in pieces]))
    return Hits(query[kept], position[kept], similarity[kept], unusable)


def merge(hits: Hits, other: Hits, k: int | None, threshold: float | None) -> Hits:
    """What one scan of both corpora would have kept; associative and commutative."""
    return select((hits, other), k, threshold)


# The one way a reported similarity is computed, and how far a fast product may be from it.


UNIT_ROUNDOFF = 2.0**-24  # of float32
NORM_TOLERANCE = 0.01  # a row stored in half precision is not exactly of length one
_NUMBERS = 2**18  # finished at a time: what they need stays in a core's cache


def rounding(terms: int, roundoff: float = UNIT_ROUNDOFF) -> float:
    """γ: the largest relative error of a sum of ``terms`` products, in any order, fused or not."""
    return terms * roundoff / (1.0 - terms * roundoff)


def fold(products: Any) -> Any:
    """Row sums by halving, in place: additions happen in the same order on every backend.

    Works on NumPy arrays and torch tensors alike. Products of float16, bfloat16 or float32 numbers
    are exact in float64, so the result is the same to the last bit wherever it is computed.
    """
    width = products.shape[1]
    while width > 1:
        half = (width + 1) // 2
        products[:, : width - half] += products[:, half:width]
        width = half
    return products[:, 0]


def exact_similarity(
    queries: NDArray[np.float32],
    rows: NDArray[Any],
    query: NDArray[np.intp],
    row: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Inner products of the given pairs as they are reported."""
    similarity = np.empty(len(query), np.float64)
    # Written into the same memory again and again: fresh pages cost more than the arithmetic.
    most = max(1, _NUMBERS // queries.shape[1])
    products, other = np.empty((2, min(most, len(query)), queries.shape[1]), np.float64)
    for first in range(0, len(query), most):
        pairs = slice(first, first + most)
        count = len(query[pairs])
        products[:count] = queries[query[pairs]]
        other[:count] = rows[row[pairs]]
        products[:count] *= other[:count]
        similarity[pairs] = fold(products[:count])
    return similarity


def quick_similarity(
    queries: NDArray[np.float32],
    rows: NDArray[np.float32],
    query: NDArray[np.intp],
    row: NDArray[np.intp],
) -> NDArray[np.float32]:
    """The same in float32: off by at most ``rounding(d)`` times both lengths."""
    similarity = np.empty(len(query), np.float32)
    most = max(1, _NUMBERS // queries.shape[1])
    ours, theirs = np.empty((2, min(most, len(query)), queries.shape[1]), np.float32)
    for first in range(0, len(query), most):
        pairs = slice(first, first + most)
        count = len(query[pairs])
        # "clip" only skips a check, and with it a second buffer: the places are all inside.
        queries.take(query[pairs], axis=0, out=ours[:count], mode="clip")
        rows.take(row[pairs], axis=0, out=theirs[:count], mode="clip")
        np.einsum("ij,ij->i", ours[:count], theirs[:count], out=similarity[pairs])
    return similarity


def unit_queries(queries: NDArray[Any]) -> NDArray[np.float32]:
    """Queries scaled to length one, as float32."""
    wide = np.asarray(queries, np.float64)
    if wide.ndim != 2 or wide.shape[1] == 0:
        raise InputError(f"embeddings are a table of rows, these have the shape {wide.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise InputError(
            f"{len(bad)} of {len(wide)} query embeddings are zero or not finite, first row {bad[0]}; "
            "leave these images out or embed them again"
        )
    return np.ascontiguousarray((wide / lengths[:, None]).astype(np.float32))


def not_unit(squares: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows, by their squared lengths, are not unit vectors (NaN is not)."""
    low, high = (1 - NORM_TOLERANCE) ** 2, (1 + NORM_TOLERANCE) ** 2
    return np.asarray(~((squares >= low) & (squares <= high)))


# Candidates: pairs that may be kept, by a quick similarity, until a scan ends and they are settled.


BELOW_EVERYTHING = -2.0

#: Query, row and quick similarity of pairs, and how far that may be off → which of them are needed.
Needed = Callable[
    [NDArray[np.intp], NDArray[np.intp], NDArray[np.float32], float], NDArray[np.bool_]
]


class Candidates:
    """Every pair of one block that can still be a hit.

    ``bars`` says, per query, below which exact similarity no row is kept. A quick similarity is off
    by at most ``margin``, so k rows that quickly reach s exactly reach s - margin: the bars rise
    with what was found, and only the pairs that are left at the end are computed exactly.
    """

    def __init__(
        self,
        bars: NDArray[np.float64],
        *,
        k: int | None,
        threshold: float | None,
        margin: float,
    ) -> None:
        self.bars = bars
        self._k, self._threshold, self._margin = k, threshold, margin
        self._query, self._row = np.empty(0, np.intp), np.empty(0, np.intp)
        self._quick = np.empty(0, np.float32)
        self._new: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]] = []
        self._waiting = 0

    @property
    def lowered(self) -> NDArray[np.float32]:
        """Per query, the quick similarity below which a pair need not be added."""
        # One float32 step of a number near 1 below, so that rounding never lifts it.
        return (self.bars - self._margin - 1e-7).astype(np.float32)

    def raise_bars(self, reached: NDArray[np.floating[Any]]) -> None:
        """``reached``: per query, a quick similarity that at least k rows reach."""
        bars = reached.astype(np.float64) - self._margin
        if self._threshold is not None:
            bars = np.minimum(bars, self._threshold)
        self.bars = np.maximum(self.bars, bars)

    def add(
        self, query: NDArray[np.intp], row: NDArray[np.intp], quick: NDArray[np.float32]
    ) -> None:
        self._new.append((query, row, quick))
        self._waiting += len(query)
        # Narrowing sorts what is there: worth it once a good part of it is new.
        if self._k is not None and self._waiting > max(1024, len(self.bars) * self._k // 4):
            self._narrow(self._k)

    def _gather(self) -> None:
        query, row, quick = zip(*[(self._query, self._row, self._quick), *self._new], strict=True)
        self._query, self._row = np.concatenate(query), np.concatenate(row)
        self._quick = np.concatenate(quick)
        self._new, self._waiting = [], 0

    def _narrow(self, k: int) -> None:
        self._gather()
        order = np.lexsort((-self._quick, self._query))
        query, quick = self._query[order], self._quick[order]
        first = np.flatnonzero(np.r_[True, query[1:] != query[:-1]])
        full = first[np.diff(np.append(first, len(query))) >= k]
        reached = np.full(len(self.bars), BELOW_EVERYTHING, np.float32)
        reached[query[full]] = quick[full + k - 1]
        self.raise_bars(reached)
        kept = order[quick >= self.lowered[query]]
        self._query, self._row, self._quick = (
            self._query[kept],
            self._row[kept],
            self._quick[kept],
        )

    def settle(
        self,
        queries: NDArray[np.float32],
        block: NDArray[Any],
        start: int,
        needed: Needed | None = None,
    ) -> Hits:
        """The hits among the candidates; row 0 of ``block`` is row ``start`` of the corpus."""
        self._gather()
        if self._k is not None and len(self._query):
            self._narrow(self._k)
        if needed is not None:
            wanted = needed(self._query, self._row, self._quick, self._margin)
            self._query, self._row = self._query[wanted], self._row[wanted]
        similarity = exact_similarity(queries, block, self._query, self._row)
        kept = similarity >= self.bars[self._query]
        query, row = self._query[kept].astype(np.int32), self._row[kept] + np.int64(start)
        return select([Hits(query, row, similarity[kept])], self._k, self._threshold)
