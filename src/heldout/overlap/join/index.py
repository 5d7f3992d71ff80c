"""JoinIndex: the queries of an exact similarity join; corpus blocks stream past it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.join.hits import Hits, select
from heldout.overlap.join.projection import Projection, plain_margin
from heldout.overlap.join.similarity import (
    exact_similarity,
    not_unit,
    quick_similarity,
    unit_queries,
)

_ROWS, _QUERIES = 2048, 1024  # one tile of scores: 8 MB
_SAMPLE = 1024  # corpus rows looked at before choosing axes
_WORTH_PLANNING = 2e9  # multiplications below which a plain product is done before a plan is made
_BELOW_EVERYTHING = -2.0


class JoinIndex:
    """Keeps for every query its ``k`` nearest rows and every row at or above ``threshold``.

    ``scan`` may be called in any process on any part of the corpus: ``merge`` of the parts gives
    the same bits as one scan of everything. Similarity is the inner product with the stored row.
    """

    def __init__(
        self,
        queries: NDArray[Any],
        *,
        k: int | None = None,
        threshold: float | None = None,
        axes: int | None = None,
    ) -> None:
        """``axes`` to prune with: 0 for none, None to measure what is fastest. Never changes hits."""
        if k is None and threshold is None:
            raise InputError("a join needs k, a threshold, or both")
        if k is not None and k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        self.queries = unit_queries(queries)
        self.k, self.threshold = k, threshold
        self._projection: Projection | None = None
        self.axes = axes or 0
        self._measure = axes is None
        self._scans = 0

    def scan(
        self, block: NDArray[Any], start: int = 0, floor: NDArray[np.float64] | None = None
    ) -> Hits:
        """Hits among the rows of ``block``, whose first row is row ``start`` of the corpus.

        ``floor`` (see ``floor_of``) tells what earlier blocks already guarantee; it saves work.
        """
        if block.ndim != 2 or block.shape[1] != self.queries.shape[1]:
            raise InputError(
                f"the corpus has embeddings of shape {block.shape}, the queries have "
                f"{self.queries.shape[1]} dimensions; both must come from the same encoder"
            )
        if len(block) == 0 or len(self.queries) == 0:
            return Hits.empty()
        sample, _, bad = _load(block[:: max(1, len(block) // (2 * _SAMPLE))])
        sample = sample[~bad]
        # A first bar costs a selection over the rows it is taken from: few rows for a small block.
        witnesses = min(len(sample), max(256, len(block) // 32))
        bars = self._bars(sample[:: max(1, len(sample) // witnesses)], floor)
        self._plan(sample[:: max(1, len(sample) // _SAMPLE)], bars, len(block))
        parts, waiting = [Hits.empty()], 0
        for first in range(0, len(block), _ROWS):
            rows, squares, bad = _load(block[first : first + _ROWS])
            found = self._tile_row(rows, squares, bad, bars, start + first)
            parts.append(found)
            waiting += len(found)
            if self.k is not None and waiting > len(self.queries) * self.k // 4:
                parts, waiting = [select(parts, self.k, self.threshold)], 0
                bars = np.maximum(bars, self._bar_of(parts[0]))
        return select(parts, self.k, self.threshold)

    def floor_of(self, hits: Hits) -> NDArray[np.float64] | None:
        """Per query, the similarity below which a row can no longer be among the ``k`` nearest."""
        if self.k is None:
            return None
        last = np.flatnonzero(np.diff(hits.query, append=-1))
        first = np.r_[0, last[:-1] + 1] if len(last) else last
        floor = np.full(len(self.queries), _BELOW_EVERYTHING)
        full = last - first + 1 >= self.k
        floor[hits.query[first[full]]] = hits.similarity[first[full] + self.k - 1]
        return floor

    def _bar_of(self, hits: Hits) -> NDArray[np.float64]:
        floor = self.floor_of(hits)
        assert floor is not None
        return floor if self.threshold is None else np.minimum(floor, self.threshold)

    def _bars(
        self, sample: NDArray[np.float32], floor: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Per query, a similarity no kept row can be below."""
        count = len(self.queries)
        if self.k is None:
            return np.full(count, self.threshold, np.float64)
        bars = np.full(count, _BELOW_EVERYTHING)
        if floor is not None and (floor > _BELOW_EVERYTHING).all():
            bars = floor.copy()
        elif len(sample) >= self.k:
            for first in range(0, count, _QUERIES):
                scores = self.queries[first : first + _QUERIES] @ sample.T
                scores.partition(len(sample) - self.k, axis=1)
                bars[first : first + _QUERIES] = scores[:, len(sample) - self.k]
            bars -= plain_margin(sample.shape[1])
        return bars if self.threshold is None else np.minimum(bars, self.threshold)

    def _plan(self, sample: NDArray[np.float32], bars: NDArray[np.float64], rows: int) -> None:
        """Choose the axes anew after 1, 2, 4, 8 … blocks: shards differ, and floors rise."""
        if len(sample) < 2 or not (self._measure or self.axes):
            return
        if self._measure and float(self.queries.size) * rows < _WORTH_PLANNING:
            return
        if self._projection is None:
            self._projection = Projection.fit(self.queries, sample)
        self._scans += 1
        if self._measure and not self._scans & (self._scans - 1):
            self.axes = self._projection.choose(sample, bars)

    def _tile_row(
        self,
        rows: NDArray[np.float32],
        squares: NDArray[np.float32],
        bad: NDArray[np.bool_],
        bars: NDArray[np.float64],
        start: int,
    ) -> Hits:
        """All queries against a few thousand rows."""
        width = self.queries.shape[1]
        projection = self._projection if self.axes else None
        if projection is not None:
            queries = projection.side_of_queries(self.axes, bars)
            other = projection.side_of_rows(self.axes, rows, squares)
        else:
            lowered = (bars - plain_margin(width)).astype(np.float32)
            queries = np.column_stack([self.queries, -lowered])
            other = np.column_stack([rows, np.ones(len(rows), np.float32)])
        unusable = np.flatnonzero(bad) + start
        parts = [Hits(*_NO_PAIRS, unusable)]
        for first in range(0, len(queries), _QUERIES):
            scores = queries[first : first + _QUERIES] @ other.T
            query, row = np.divmod(np.flatnonzero(scores >= 0), len(rows))
            query += first
            if len(unusable):
                usable = ~bad[row]
                query, row = query[usable], row[usable]
            if projection is not None:
                likely = quick_similarity(self.queries, rows, query, row)
                kept = likely >= bars[query] - plain_margin(width)
                query, row = query[kept], row[kept]
            similarity = exact_similarity(self.queries, rows, query, row)
            kept = similarity >= bars[query]
            query, row, similarity = query[kept], row[kept], similarity[kept]
            parts.append(Hits(query.astype(np.int32), row + start, similarity))
        return select(parts, self.k, self.threshold)


_NO_PAIRS = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))


def _load(
    block: NDArray[Any],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Rows as float32, their squared lengths, and which are unusable (those become zeros)."""
    rows = np.ascontiguousarray(block, np.float32)
    squares = np.einsum("ij,ij->i", rows, rows)
    bad = not_unit(squares)
    if bad.any():
        rows = np.where(bad[:, None], np.float32(0), rows)
        squares[bad] = 0
    return rows, squares, bad
