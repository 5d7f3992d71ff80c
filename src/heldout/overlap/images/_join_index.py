"""JoinIndex: the queries of an exact similarity join; corpus blocks stream past it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.images._join import (
    BELOW_EVERYTHING,
    NORM_TOLERANCE,
    UNIT_ROUNDOFF,
    Candidates,
    Hits,
    Needed,
    not_unit,
    quick_similarity,
    rounding,
    unit_queries,
)
from heldout.overlap.images._scratch import Scratch

# An upper bound of every similarity from a few leading axes, as one thin matrix product.
#
# With P an orthonormal projection, q·x = Pq·Px + q'·x' and, by Cauchy–Schwarz, q'·x' ≤ |q'||x'|, where
# the primes are what P leaves over. Appending |q'| and |x'| as one more coordinate makes the bound an
# inner product again; appending -bar and 1 makes "may reach the bar" the sign of the result. Whoever
# passes may be asked once more with more axes, pair by pair: that costs little, but spares most of them
# the whole product.


# Costs per pair in units of one dimension of a matrix product, estimated from timings on one ARM
# core (Neoverse N1, OpenBLAS); the choice only affects speed, never results.
_LOOK = 10.0  # write one bound, compare it and move on
_REFINE, _AXIS = 1200.0, 15.0  # gather one pair that passed and bound it again; for each axis more
_FINISH = 9000.0  # gather one pair that passed again and finish it
_CHOICES = (14, 22, 30, 38, 46, 62, 78, 94, 126, 158, 190, 254)
_SAMPLE_QUERIES, _SAMPLE_ROWS = 256, 512
_LONGEST = (1 + NORM_TOLERANCE) ** 2  # |q||x| of any usable pair


class Levels(NamedTuple):
    """How many axes bound every pair, and how many (as many or more) bound those that pass."""

    axes: int
    more: int


PLAIN = Levels(0, 0)  # no bound: the whole product


@dataclass(frozen=True)
class Projection:
    """Leading axes of one set of queries and a sample of the corpus, best first."""

    basis: NDArray[np.float32]  # (axes, d)
    queries: NDArray[np.float32]  # (n, axes): coordinates of the queries
    left_over: NDArray[
        np.float32
    ]  # (n, axes + 1): length outside the first p axes, never too small

    @classmethod
    def fit(
        cls,
        queries: NDArray[np.float32],
        sample: NDArray[np.float32],
        most: int = _CHOICES[-1],
    ) -> Projection:
        """Axes along which queries and corpus rows differ most, at most ``most`` of them."""
        moments = np.zeros((queries.shape[1], queries.shape[1]))
        centres = []
        for side in (_spread(queries, 4 * most), _spread(sample, 4 * most)):
            centre = side.mean(axis=0)
            moments += (side - centre).T @ (side - centre) / len(side)
            centres.append(centre)
        moments += np.outer(centres[0] - centres[1], centres[0] - centres[1])
        axes = min(most, queries.shape[1])
        basis = _leading_axes(moments, axes).T
        coordinates = queries.astype(np.float64) @ basis.T  # exact enough to be called so
        outside = 1.0 + 1e-6 - np.cumsum(coordinates**2, axis=1)  # float32 queries: length 1 ± 1e-7
        left_over = np.ones((len(queries), axes + 1), np.float32)
        left_over[:, 1:] = np.sqrt(np.maximum(outside, 1e-6)) * (1 + 1e-6)
        return cls(
            np.ascontiguousarray(basis, np.float32), coordinates.astype(np.float32), left_over
        )

    def sides_of_queries(
        self, levels: Levels, bars: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(n, axes + 2) and (n, more - axes + 2): the first factors of the bound and of its refinement.

        The refinement takes the left-overs' product back, and adds the next axes and what they leave.
        """
        axes, more = levels
        lowered = (bars - self.margin(axes)).astype(np.float32)
        first, last = self.left_over[:, axes], self.left_over[:, more]
        ours = np.column_stack([self.queries[:, :axes], first, -lowered])
        return ours, np.column_stack([self.queries[:, axes:more], -first, last])

    def sides_of_rows(
        self, levels: Levels, rows: NDArray[np.float32], squares: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(m, axes + 2) and (m, more - axes + 2): the second factors.

        ``squares`` are the squared lengths of ``rows``.
        """
        axes, more = levels
        inside = rows @ self.basis[:more].T
        ones = np.ones(len(rows), np.float32)
        first = self._outside(axes, squares, inside)
        theirs = np.column_stack([inside[:, :axes], first, ones])
        if more == axes:
            return theirs, theirs[:, :0]
        last = self._outside(more, squares, inside)
        return theirs, np.column_stack([inside[:, axes:], first, last])

    def _outside(
        self, axes: int, squares: NDArray[np.float32], inside: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Lengths outside the first ``axes``, never too small."""
        outside = squares - np.einsum("ij,ij->i", inside[:, :axes], inside[:, :axes])
        length: NDArray[np.float32] = np.sqrt(
            np.maximum(outside, 0) + np.float32(self._slack(axes))
        )
        return length

    def margin(self, axes: int) -> float:
        """How much the computed bound may fall short of the true one: a worst case, not a guess."""
        product = 4 * rounding(axes + 2)  # coordinates, left-overs and bar are each at most ~1
        return 1.05 * self._drift(axes) + product + 16 * UNIT_ROUNDOFF

    def _drift(self, axes: int) -> float:
        """Largest error of a row's computed coordinates, as a vector; of the basis' rounding too."""
        width = self.basis.shape[1]
        return float(np.sqrt(axes)) * (rounding(width) + UNIT_ROUNDOFF) * 1.02

    def _slack(self, axes: int) -> float:
        """Largest error of a squared left-over length."""
        width = self.basis.shape[1]
        return 1.1 * (rounding(width) + rounding(axes) + 2 * self._drift(axes))

    def choose(self, sample: NDArray[np.float32], bars: NDArray[np.float64]) -> Levels:
        """What costs least on this sample of rows; PLAIN when the whole product does."""
        width, count = self.basis.shape[1], len(self.queries)
        some = slice(None, None, max(1, count // _SAMPLE_QUERIES))
        sample = _spread(sample, _SAMPLE_ROWS)
        squares = np.einsum("ij,ij->i", sample, sample)
        rows = sample @ self.basis.T
        products = np.zeros((len(self.queries[some]), len(sample)), np.float32)
        passed: dict[
            int, float
        ] = {}  # by number of axes, the share of pairs that may reach the bar
        done = 0
        for axes in (choice for choice in _CHOICES if choice <= len(self.basis)):
            products += self.queries[some, done:axes] @ rows[:, done:axes].T
            done = axes
            outside = self._outside(axes, squares, rows)
            reach = products + np.outer(self.left_over[some, axes], outside)
            bar = (bars[some] - self.margin(axes)).astype(np.float32)
            passed[axes] = np.count_nonzero(reach >= bar[:, None]) / reach.size
        costs = {PLAIN: width + _LOOK}
        for axes, more in ((axes, more) for axes in passed for more in passed if more >= axes):
            again = (_REFINE + _AXIS * (more - axes)) * passed[axes] if more > axes else 0.0
            fixed = axes + 2 + _LOOK + more * width / count
            costs[Levels(axes, more)] = fixed + again + _FINISH * passed[more]
        return min(costs, key=lambda levels: costs[levels])


def _leading_axes(moments: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """(d, count): leading eigenvectors, nearly. Any orthonormal axes give true bounds; these tight ones."""
    if 3 * count >= len(moments):
        return np.asarray(np.linalg.eigh(moments)[1][:, ::-1][:, :count])
    axes = np.random.default_rng(0).standard_normal((len(moments), count))
    # Subspace iteration: a fraction of the time of all eigenvectors. Two steps between orthogonalisations
    # square the eigenvalues' ratio, which double precision bears.
    axes = np.linalg.qr(moments @ (moments @ axes))[0]
    turn = np.linalg.eigh(axes.T @ moments @ axes)[1][:, ::-1]
    return np.asarray(axes @ turn)


def _spread(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    return rows[:: max(1, len(rows) // count)]


def plain_margin(width: int) -> float:
    """How far a float32 inner product (with a bar appended) may be from the exact one."""
    return rounding(width + 1) * (_LONGEST + 1) + 4 * UNIT_ROUNDOFF


_ROWS, _QUERIES = 2048, 1024  # one tile of scores: 8 MB
_WORTH_PLANNING = 2e9  # multiplications below which a plain product is done before a plan is made
_TILES_TO_PLAN_AT = frozenset(4**power for power in range(1, 16))  # bars rise, shards differ
_MOST_AXES, _MOST_FOR_THRESHOLD = 254, 94
_GROUPS = 16  # groups of rows per neighbour wanted, when a first bar is looked for


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
        self._measure = axes is None
        self._fixed = axes or 0
        self.levels = PLAIN
        self._tiles = 0
        self._scratch = Scratch()

    def with_k(self, k: int) -> JoinIndex:
        """The same queries, not a copy of them, with ``k`` neighbours each."""
        other = copy.copy(self)
        other.k, other._scratch = k, Scratch()
        other._projection, other.levels, other._tiles = None, PLAIN, 0
        return other

    def scan(
        self,
        block: NDArray[Any],
        start: int = 0,
        floor: NDArray[np.float64] | None = None,
        needed: Needed | None = None,
    ) -> Hits:
        """Hits among the rows of ``block``, whose first row is row ``start`` of the corpus.

        ``floor`` (see ``floor_of``) tells what earlier blocks already guarantee; it saves work. So does
        ``needed``, which says of pairs whose similarity is known but for rounding whether the caller
        wants the exact one; the others are no hits.
        """
        self._expect_width(block)
        if len(block) == 0 or len(self.queries) == 0:
            return Hits.empty()
        if block.dtype not in (np.float16, np.float32):
            block = block.astype(np.float32)
        candidates = self._candidates(floor)
        # Every tile is spread over the block, and so a fair sample of it: the first ones tell
        # what to expect of the others, however the corpus is sorted.
        tiles = -(-len(block) // _ROWS)
        plan = self._projection is not None or self._worth_planning(len(block))
        unusable = []
        for first in range(tiles):
            part = block[first::tiles]
            rows, squares, bad = _load(part, self._scratch.take("rows", part.shape, np.float32))
            unusable.append(np.flatnonzero(bad) * tiles + first + start)
            self._tile(rows, squares, bad, candidates, first, tiles, plan)
        hits = candidates.settle(self.queries, block, start, needed)
        every = np.sort(np.concatenate(unusable))
        return Hits(hits.query, hits.position, hits.similarity, every)

    def prepare(self, sample: NDArray[Any], rows: int) -> NDArray[np.float64] | None:
        """Plan for a corpus of ``rows`` rows, of which ``sample`` are some; gives a first floor."""
        self._expect_width(sample)
        usable, _, bad = _load(sample, np.empty(sample.shape, np.float32))
        usable = usable[~bad]
        candidates = self._candidates(None)
        if len(usable) and len(self.queries) and self._worth_planning(rows):
            if self.k is not None:
                for some in self._parts():
                    self._first_bars(self.queries[some] @ usable.T, candidates, some)
            self._plan(usable, candidates.bars)
        return None if self.k is None else candidates.bars

    def floor_of(self, hits: Hits) -> NDArray[np.float64] | None:
        """Per query, the similarity below which a row can no longer be among the ``k`` nearest."""
        if self.k is None:
            return None
        last = np.flatnonzero(np.diff(hits.query, append=-1))
        first = np.r_[0, last[:-1] + 1] if len(last) else last
        floor = np.full(len(self.queries), BELOW_EVERYTHING)
        full = last - first + 1 >= self.k
        floor[hits.query[first[full]]] = hits.similarity[first[full] + self.k - 1]
        return floor

    def _expect_width(self, block: NDArray[Any]) -> None:
        if block.ndim != 2 or block.shape[1] != self.queries.shape[1]:
            raise InputError(
                f"the corpus has embeddings of shape {block.shape}, the queries have "
                f"{self.queries.shape[1]} dimensions; both must come from the same encoder"
            )

    def _candidates(self, floor: NDArray[np.float64] | None) -> Candidates:
        bars = np.full(len(self.queries), BELOW_EVERYTHING)
        if self.k is None:
            bars = np.full(len(self.queries), self.threshold, np.float64)
        elif floor is not None:
            bars = floor if self.threshold is None else np.minimum(floor, self.threshold)
        margin = plain_margin(self.queries.shape[1])
        return Candidates(bars, k=self.k, threshold=self.threshold, margin=margin)

    def _parts(self) -> Iterator[slice]:
        """The queries, at most ``_QUERIES`` at a time and all about as many."""
        count = len(self.queries)
        size = -(-count // -(-count // _QUERIES))
        for first in range(0, count, size):
            yield slice(first, min(first + size, count))

    def _tile(
        self,
        rows: NDArray[np.float32],
        squares: NDArray[np.float32],
        bad: NDArray[np.bool_],
        candidates: Candidates,
        first: int,
        stride: int,
        plan: bool,
    ) -> None:
        """All queries against a few thousand rows: row i is row ``first + i * stride`` of the block."""
        blind = bool((candidates.bars <= BELOW_EVERYTHING).any())
        if plan and not blind and not bad.all():
            self._tiles += 1
            now = self._tiles in _TILES_TO_PLAN_AT and (self.k is not None or self._tiles > 16)
            if self._projection is None or now:
                self._plan(rows[~bad] if bad.any() else rows, candidates.bars)
        projection = None if blind or self.levels == PLAIN else self._projection
        if projection is not None:
            ours, ours_again = projection.sides_of_queries(self.levels, candidates.bars)
            theirs, theirs_again = projection.sides_of_rows(self.levels, rows, squares)
        else:
            ours, theirs = self.queries, rows
        for some in self._parts():
            part = ours[some]
            scores = self._scratch.take("scores", (len(part), len(rows)), np.float32)
            passed = self._scratch.take("passed", scores.shape, np.bool_)
            np.matmul(part, theirs.T, out=scores)
            if bad.any():
                scores[:, bad] = -np.inf
            if projection is not None:
                places = np.flatnonzero(np.greater_equal(scores, 0, out=passed))
                query, row = np.divmod(places, len(rows))
                query += some.start
                if self.levels.more > self.levels.axes:
                    bound = quick_similarity(ours_again, theirs_again, query, row)
                    bound += scores.reshape(-1)[places]
                    kept = bound >= -projection.margin(self.levels.more)
                    query, row = query[kept], row[kept]
                quick = quick_similarity(self.queries, rows, query, row)
                kept = quick >= candidates.lowered[query]
                query, row, quick = query[kept], row[kept], quick[kept]
            else:
                if blind:
                    self._first_bars(scores, candidates, some)
                bars = candidates.lowered[some, None]
                places = np.flatnonzero(np.greater_equal(scores, bars, out=passed))
                quick = scores.reshape(-1)[places]
                query, row = np.divmod(places, len(rows))
                query += some.start
            candidates.add(query, first + row * stride, quick)

    def _first_bars(self, scores: NDArray[np.float32], candidates: Candidates, some: slice) -> None:
        """Bars from the best score of each of many groups of rows: k groups are k different rows."""
        assert self.k is not None
        size = max(1, scores.shape[1] // (_GROUPS * self.k))
        groups = scores.shape[1] // size
        if groups < self.k:
            return
        best = scores[:, : groups * size].reshape(len(scores), groups, size).max(axis=2)
        best.partition(groups - self.k, axis=1)
        reached = np.full(len(self.queries), BELOW_EVERYTHING, np.float32)
        reached[some] = best[:, groups - self.k]
        candidates.raise_bars(reached)

    def _worth_planning(self, rows: int) -> bool:
        return not self._measure or float(self.queries.size) * rows >= _WORTH_PLANNING

    def _plan(self, sample: NDArray[np.float32], bars: NDArray[np.float64]) -> None:
        if len(sample) < 2 or not (self._measure or self._fixed):
            return
        if self._projection is None:
            # A threshold is high or it is useless: few axes are enough.
            most = _MOST_AXES if self.k is not None else _MOST_FOR_THRESHOLD
            self._projection = Projection.fit(self.queries, sample, most)
        if self._measure:
            self.levels = self._projection.choose(sample, bars)
        else:
            available = len(self._projection.basis)
            axes = min(self._fixed, available)
            self.levels = Levels(axes, min(2 * axes, available))


def _load(
    block: NDArray[Any], rows: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """The block as float32 in ``rows``, squared lengths, and which are unusable (those become zeros)."""
    np.copyto(rows, block, casting="same_kind")
    squares = np.einsum("ij,ij->i", rows, rows)
    bad = not_unit(squares)
    if bad.any():
        rows[bad] = 0
        squares[bad] = 0
    return rows, squares, bad
