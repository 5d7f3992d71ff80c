"""Intervals for rates: exact for independent units, by cluster where units share an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # scipy.stats takes a second to import, and every command would pay

_ENOUGH = 12  # clusters with a hit, and with a miss, from which on their variance is trusted,
_EVEN = 40  # unless a few large clusters dominate: this many effective clusters are needed too


class Interval(NamedTuple):
    low: float
    high: float
    level: float
    method: str


def binomial_interval(successes: float, n: float, level: float = 0.95) -> Interval:
    """Clopper–Pearson: never covers less than ``level``, at 0 and n of n too.

    An effective number of observations need not be whole.
    """
    if n <= 0:
        return Interval(0.0, 1.0, level, "clopper-pearson")
    return _beta_interval(float(successes), float(n), level)


def cluster_rate_interval(
    hits: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    enough: int = _ENOUGH,
    even: float = _EVEN,
) -> Interval:
    """Interval of the mean of ``hits`` when items of one cluster rise and fall together.

    Clopper–Pearson with an effective number of observations (Korn and Graubard 1998): as many as
    would give the variance seen between clusters, never more than there are items. Where too few
    clusters carry a hit (or a miss) to estimate that variance, items of a cluster are taken to be
    one observation each (Kish's effective number of clusters), which errs on the wide side.
    ``enough``: clusters with a hit, and with a miss, that are not too few; ``even``: effective
    clusters that are needed besides.
    """
    values = np.asarray(hits, dtype=np.float64)
    sums, sizes = _by_cluster(values, clusters)
    count, n = len(sums), len(values)
    if count == 0:
        return Interval(0.0, 1.0, level, "clopper-pearson over clusters")
    rate = float(sums.sum() / n)
    effective = float(n**2 / (sizes**2).sum())
    method = "clopper-pearson over effective clusters"
    mixed = min(int((sums > 0).sum()), int((sums < sizes).sum()))
    if mixed >= enough and effective >= even:
        spread = float(((sums - rate * sizes) ** 2).sum()) * count / (count - 1) / n**2
        seen = rate * (1.0 - rate) / spread if spread > 0 else float(n)
        tail = (1.0 - level) / 2.0
        if n > 1 and count > 1:
            # Few clusters estimate their own variance badly: widen by the ratio of t quantiles.
            ratio = special.stdtrit(n - 1, 1.0 - tail) / special.stdtrit(count - 1, 1.0 - tail)
            seen *= float(ratio) ** 2
        effective = min(seen, float(n))
        method = "korn-graubard"
    return _beta_interval(rate * effective, effective, level)._replace(method=method)


class MeanTest(NamedTuple):
    t: float
    p: float  # two-sided


def cluster_mean_test(deviations: ArrayLike, clusters: Sequence[str]) -> MeanTest:
    """Is the mean of ``deviations`` zero, when items of one cluster rise and fall together?

    Student's t over cluster sums, so twenty questions about one image count as one observation.
    The p-value is never below that of the sign-flip test, 2^(1 - clusters): with a handful of
    clusters nothing can be significant, however equal they are.
    """
    sums, _ = _by_cluster(np.asarray(deviations, dtype=np.float64), clusters)
    count = len(sums)
    if count < 2 or not sums.any():
        return MeanTest(0.0, 1.0)
    spread = float(sums.std(ddof=1))
    floor = 2.0 ** (1 - count)
    if spread < 1e-12:
        return MeanTest(float(np.copysign(np.inf, sums.sum())), floor)
    t = float(sums.mean() / (spread / np.sqrt(count)))
    return MeanTest(t, max(floor, float(2 * special.stdtr(count - 1, -abs(t)))))


def _by_cluster(
    values: NDArray[np.float64], clusters: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    codes = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    members = np.fromiter((codes[name] for name in clusters), np.int64, len(values))
    sums = np.bincount(members, weights=values).astype(np.float64)
    return sums, np.bincount(members).astype(np.float64)


def _beta_interval(successes: float, n: float, level: float) -> Interval:
    """Clopper–Pearson's limits as beta quantiles, which need no whole numbers."""
    tail = (1.0 - level) / 2.0
    low, high = 0.0, 1.0
    if successes > 0:
        low = float(special.betaincinv(successes, n - successes + 1, tail))
    if successes < n:
        high = float(special.betainccinv(successes + 1, n - successes, tail))
    return Interval(low, high, level, "clopper-pearson")


# How many false alarms a test of a given size may give: the band a calibration has to lie in.


def binomial_band(cells: int, alpha: float, level: float = 0.99) -> tuple[int, int]:
    """The counts between which Binomial(cells, alpha) lies with probability at least ``level``."""
    tail = (1.0 - level) / 2.0
    at_most = special.bdtr(np.arange(cells + 1), cells, alpha)
    low = int(np.searchsorted(at_most, tail, side="right"))
    high = int(np.searchsorted(at_most, 1.0 - tail, side="left"))
    return low, high
