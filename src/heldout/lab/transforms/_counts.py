"""ROC of a similarity over all (query, collection) pairs, from two histograms of fixed grain.

Similarities are compared at a grain of 10^-5, pairs of one grain are ties and count half: exact
whatever the block size, in memory that does not grow with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from heldout.lab.transforms.queries import RowBlock, TransformedQueries
from heldout.stats import Interval, binomial_interval

MICRO = (
    1_000_000  # similarities are rounded to this first, so that rounding errors cannot split ties
)
GRAIN = 100_000
BINS = 2 * GRAIN + 1
RESOLVED = 5  # pairs that have to lie above a threshold before a rate is read from them

Counts = NDArray[np.int64]


def micro(similarities: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.rint(np.clip(similarities, -1.0, 1.0) * MICRO).astype(np.int32)


def bins_of(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Bin of each rounded similarity; floor, so that a pair below a threshold never reaches it."""
    return values // np.int32(MICRO // GRAIN) + np.int32(GRAIN)


def bin_of_threshold(threshold: float) -> int:
    """The lowest bin whose pairs are all at or above ``threshold``."""
    return int(np.ceil(round(threshold * MICRO) / (MICRO // GRAIN))) + GRAIN


def threshold_of_bin(index: int) -> float:
    return round((index - GRAIN) / GRAIN, 5)


@dataclass(frozen=True)
class SimilarityCurve:
    """Positives (a query and its own picture) and negatives, counted by bin of similarity."""

    positives: Counts
    negatives: Counts

    def __add__(self, other: SimilarityCurve) -> SimilarityCurve:
        return SimilarityCurve(self.positives + other.positives, self.negatives + other.negatives)

    def rates(self, threshold_bin: int) -> tuple[float, float]:
        """TPR and FPR of calling every pair at or above the bin a copy."""
        return (
            _share(self.positives[threshold_bin:].sum(), self.positives.sum()),
            _share(self.negatives[threshold_bin:].sum(), self.negatives.sum()),
        )

    def threshold_at(self, false_positive_rate: float) -> int | None:
        """The lowest bin with at most that FPR, or None where there are too few pairs to say."""
        total = int(self.negatives.sum())
        if total * false_positive_rate < RESOLVED:
            return None
        above = np.cumsum(self.negatives[::-1])[::-1]
        return int(np.searchsorted(-above, -int(total * false_positive_rate), side="left"))

    def auc(self) -> float:
        """The chance that a copy is more similar than a non-copy; a tie counts half."""
        total = int(self.positives.sum()) * int(self.negatives.sum())
        if total == 0:
            return float("nan")
        placed = placements(self.negatives)
        return float(self.positives @ placed) / float(self.positives.sum())

    def points(self, count: int = 120) -> list[tuple[float, float, float]]:
        """(threshold, FPR, TPR) along the curve, dense where few pairs are above the threshold."""
        false = np.cumsum(self.negatives[::-1])[::-1]
        true = np.cumsum(self.positives[::-1])[::-1]
        grid = np.unique(
            np.concatenate(
                [
                    np.geomspace(1, max(2, int(false[0])), count // 2),
                    np.linspace(0, false[0], count // 2),
                ]
            ).astype(np.int64)
        )
        bins = np.unique(np.searchsorted(-false, -grid, side="left"))
        bins = bins[bins < BINS]
        return [
            (
                threshold_of_bin(int(index)),
                _share(false[index], false[0]),
                _share(true[index], true[0]),
            )
            for index in bins[::-1]
        ]


def placements(histogram: Counts) -> NDArray[np.float64]:
    """For every bin the share of the histogram's pairs below it, plus half of those in it."""
    total = max(1, int(histogram.sum()))
    return (np.cumsum(histogram) - histogram / 2.0) / total


def auc_interval(
    auc: float,
    positive: NDArray[np.float64],
    positives: NDArray[np.float64],
    negative: NDArray[np.float64],
    negatives: NDArray[np.float64],
    level: float = 0.95,
) -> Interval:
    """Obuchowski's clustered AUC variance on the logit scale; one entry of each array per cluster.

    ``positive`` and ``negative`` are the sums of placement values of a cluster's pairs and
    ``positives`` and ``negatives`` how many there are. Everything about one query is one cluster.
    """
    used = positives > 0
    clusters = int(used.sum())
    if not 0.0 < auc < 1.0 or clusters < 2:
        # Nothing overlaps, so nothing varies: what could still be missed is a share of the clusters.
        whole = binomial_interval(clusters if auc >= 1.0 else 0, clusters, level)
        return whole._replace(method="clopper-pearson over clusters")
    influence = (positive - positives * auc) / positives.sum()
    influence += (negative - negatives * auc) / negatives.sum()
    error = np.sqrt(clusters / (clusters - 1) * float(influence @ influence)) / (auc * (1.0 - auc))
    spread = -special.ndtri((1.0 - level) / 2.0) * error
    low, high = (float(special.expit(special.logit(auc) + sign * spread)) for sign in (-1, 1))
    return Interval(low, high, level, "obuchowski by query")


def _share(part: np.int64, whole: np.int64) -> float:
    return float(part / whole) if whole else float("nan")


# One pass over the collection: what every query, under every transform, is similar to.


_OWN = np.int32(-2_000_000)  # below every similarity: a query's own picture is not among the others
_AT_ONCE = 4_000_000  # similarities held in memory
_PLACES = np.int64(1 << 40)  # more than a collection has pictures


@dataclass
class SimilarityCounts:
    """Arrays over queries × transforms, unless said otherwise; entries not ``made`` hold nothing.

    A pool is a set of transforms whose pairs are counted together, as the seed's ``trans``.
    """

    made: NDArray[np.bool_]
    pools: list[list[int]]  # columns of every pool
    own: NDArray[np.int32]  # similarity of query and copy, in millionths
    above: NDArray[np.int64]  # other pictures more similar than the copy
    level: NDArray[np.int64]  # other pictures exactly as similar
    nearest: NDArray[np.int64]  # … × depth: keys of the most similar others, best first
    negatives: Counts  # transforms × bins
    placed: Counts  # queries × pools: copies above each negative pair, twice, summed; ties once
    false: NDArray[np.int64]  # … × thresholds: negative pairs at or above each

    def curve(self, columns: Sequence[int]) -> SimilarityCurve:
        chosen = np.zeros_like(self.made)
        chosen[:, list(columns)] = True
        return SimilarityCurve(
            np.bincount(bins_of(self.own[chosen & self.made]), minlength=BINS),
            self.negatives[list(columns)].sum(axis=0),
        )

    def among(self, shortlist: int) -> NDArray[np.bool_]:
        """Where the copy is among the ``shortlist`` most similar pictures.

        Ties go against the query: as many others at its level may be listed before its own.
        """
        return self.made & (self.above + self.level < shortlist)

    def others(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Positions and similarities of the most similar others; position -1 where there is none."""
        similarity, place = np.divmod(self.nearest, _PLACES)
        return (
            np.where(self.nearest < 0, -1, _PLACES - 1 - place),
            np.where(self.nearest < 0, np.nan, similarity / 1e6 - 1.0),
        )


def tally(
    queries: TransformedQueries,
    blocks: Iterable[RowBlock],
    pools: list[list[int]],
    thresholds: Mapping[str, float],
    depth: int,
    groups: NDArray[np.intp] | None = None,
) -> SimilarityCounts:
    """Compare all queries with ``blocks`` of the collection in one pass.

    With ``groups`` (one number per picture, -1 for none) only others of a query's own group are
    listed as its nearest.
    """
    count, columns = queries.made.shape
    counts = SimilarityCounts(
        queries.made,
        pools,
        micro(queries.own),
        above=np.zeros((count, columns), np.int64),
        level=np.zeros((count, columns), np.int64),
        nearest=np.full((count, columns, depth), -1, np.int64),
        negatives=np.zeros((columns, BINS), np.int64),
        placed=np.zeros((count, len(pools)), np.int64),
        false=np.zeros((count, columns, len(thresholds)), np.int64),
    )
    limits = [bin_of_threshold(value) for value in thresholds.values()]
    compare = _Compare(counts, queries, limits, groups)
    one_row = queries.rows.shape[1] == 1  # copies are transformed: all columns see the same others
    for block in blocks:
        floats = block.rows.astype(np.float64)  # float64 sums do not depend on how work was blocked
        step = max(1, _AT_ONCE // (queries.rows.shape[2] * len(block.rows)))
        for first in range(0, count, step):
            some = np.arange(first, min(count, first + step))
            shared = compare.similar(0, some, block, floats) if one_row else None
            for column in range(columns):
                present = some[queries.made[some, column]]
                if not len(present):
                    continue
                values = (
                    compare.similar(column, present, block, floats)
                    if shared is None
                    else shared[present - first]
                )
                compare.add(column, present, block.start, values)
    return counts


class _Compare:
    """Adds the pairs of some queries and a block of the collection to a tally."""

    def __init__(
        self,
        counts: SimilarityCounts,
        queries: TransformedQueries,
        limits: list[int],
        groups: NDArray[np.intp] | None,
    ) -> None:
        self.counts, self.queries, self.limits, self.groups = counts, queries, limits, groups
        self.positions = np.asarray(queries.positions)
        # Twice the number of a pool's copies above each bin, ties once: whole numbers, so that the
        # sum is the same in any order. Copies have to be known before the pass for this.
        self.tables = [np.append(_above(counts.curve(pool).positives), 0) for pool in counts.pools]

    def similar(
        self, column: int, some: NDArray[np.int64], block: RowBlock, wide: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """Queries × pictures of the block: the most similar view and part, in millionths."""
        rows = self.queries.rows[some, column].astype(np.float64)
        products = rows.reshape(-1, rows.shape[2]) @ wide.T
        best = products.reshape(len(some), rows.shape[1], -1).max(axis=1)
        return micro(np.maximum.reduceat(best, block.firsts, axis=1))

    def add(
        self, column: int, present: NDArray[np.int64], start: int, similar: NDArray[np.int32]
    ) -> None:
        counts = self.counts
        values = similar.copy()
        places = self.positions[present] - start
        mine = np.flatnonzero((places >= 0) & (places < values.shape[1]))
        own = (mine, places[mine])
        values[own] = _OWN
        counts.above[present, column] += (values > counts.own[present, column, None]).sum(axis=1)
        counts.level[present, column] += (values == counts.own[present, column, None]).sum(axis=1)
        listed = self._of_one_group(present, start, values)
        counts.nearest[present, column] = _nearest(counts.nearest[present, column], listed, start)
        bins = bins_of(values)
        for index, limit in enumerate(self.limits):
            counts.false[present, column, index] += (bins >= limit).sum(axis=1)
        bins[own] = BINS  # one past the end: looked up as nothing, counted and cut off
        counts.negatives[column] += np.bincount(bins.ravel(), minlength=BINS + 1)[:BINS]
        for pool, (members, table) in enumerate(zip(counts.pools, self.tables, strict=True)):
            if column in members:
                counts.placed[present, pool] += table[bins].sum(axis=1)

    def _of_one_group(
        self, present: NDArray[np.int64], start: int, values: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        if self.groups is None:
            return values
        ours = self.groups[self.positions[present], None]
        theirs = self.groups[None, start : start + values.shape[1]]
        return np.where((ours == theirs) & (ours >= 0), values, _OWN)


def _above(histogram: Counts) -> Counts:
    return 2 * (int(histogram.sum()) - np.cumsum(histogram)) + histogram


def _nearest(known: NDArray[np.int64], values: NDArray[np.int32], start: int) -> NDArray[np.int64]:
    """The best keys of both. A key orders by similarity, then by place in the collection."""
    depth = known.shape[1]
    if depth == 0:
        return known
    place = _PLACES - 1 - (start + np.arange(values.shape[1], dtype=np.int64))
    keys = (values.astype(np.int64) + 1_000_000) * _PLACES + place
    both = np.concatenate([known, np.where(values == _OWN, -1, keys)], axis=1)
    best: NDArray[np.int64] = -np.sort(np.partition(-both, depth - 1, axis=1)[:, :depth], axis=1)
    return best
