"""Intervals for rates: exact for independent units, by cluster where units share an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats takes a second to import, and every command would pay


class Interval(NamedTuple):
    low: float
    high: float
    level: float
    method: str


def binomial_interval(successes: int, n: int, level: float = 0.95) -> Interval:
    """Clopper–Pearson: never covers less than ``level``, at 0 and n of n too."""
    if n <= 0:
        return Interval(0.0, 1.0, level, "clopper-pearson")
    tail = (1.0 - level) / 2.0
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(special.betainccinv(successes + 1, n - successes, tail))
    return Interval(low, high, level, "clopper-pearson")


def cluster_rate_interval(
    hits: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    draws: int = 4000,
    seed: int = 0,
) -> Interval:
    """Interval of the mean of ``hits`` when items of one cluster rise and fall together.

    Percentile bootstrap over whole clusters. Where every cluster agrees (no hit at all, or nothing
    but hits) a bootstrap has nothing to vary; there the exact interval over clusters is given.
    """
    values = np.asarray(hits, dtype=np.float64)
    _, members = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.bincount(members, weights=values)
    sizes = np.bincount(members).astype(np.float64)
    count = len(sums)
    if count == 0 or values.min() == values.max():
        all_hit = count > 0 and values.max() > 0
        exact = binomial_interval(count if all_hit else 0, count, level)
        return exact._replace(method="clopper-pearson over clusters")
    rng = np.random.default_rng(seed)
    # Multinomial weights instead of resampled indices: the same bootstrap as matrix work.
    weights = rng.multinomial(count, np.full(count, 1.0 / count), size=draws)
    rates = (weights @ sums) / (weights @ sizes)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(rates, [tail, 1.0 - tail])
    return Interval(float(low), float(high), level, "cluster bootstrap")


class MeanTest(NamedTuple):
    z: float
    p: float  # two-sided


def cluster_mean_test(deviations: ArrayLike, clusters: Sequence[str]) -> MeanTest:
    """Is the mean of ``deviations`` zero, when items of one cluster rise and fall together?

    Student's t over cluster sums (between-cluster variance), so twenty questions about one image
    count as one observation, not twenty.
    """
    values = np.asarray(deviations, dtype=np.float64)
    _, members = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.bincount(members, weights=values)
    count = len(sums)
    spread = float(np.sqrt((sums**2).sum()))
    if count < 2 or spread == 0.0:
        return MeanTest(0.0, 1.0)
    z = float(sums.sum() / spread)
    return MeanTest(z, float(2 * special.stdtr(count - 1, -abs(z))))
