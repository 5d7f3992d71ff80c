"""ROC of a similarity over all (query, collection) pairs, from two histograms of fixed grain.

Similarities are compared at a grain of 10^-5, pairs of one grain are ties and count half: exact
whatever the block size, in memory that does not grow with the number of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

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
class Curve:
    """Positives (a query and its own picture) and negatives, counted by bin of similarity."""

    positives: Counts
    negatives: Counts

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.positives + other.positives, self.negatives + other.negatives)

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
        chosen = np.unique(np.searchsorted(-false, -grid, side="left"))
        chosen = chosen[chosen < BINS]
        return [
            (
                threshold_of_bin(int(index)),
                _share(false[index], false[0]),
                _share(true[index], true[0]),
            )
            for index in chosen[::-1]
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
