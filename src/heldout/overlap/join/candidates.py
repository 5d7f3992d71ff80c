"""Candidates: pairs that may be kept, by a quick similarity, until a scan ends and they are settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.join.hits import Hits, select
from heldout.overlap.join.similarity import exact_similarity

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
