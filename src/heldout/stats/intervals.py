"""Intervals for rates: exact for independent units, by cluster where units share an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # scipy.stats takes a second to import

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


# Upper quantiles of a null sample with exact intervals, and what it means to lie above them.
#
# No distribution is assumed: how many draws lie above the true quantile is binomial whatever they are
# drawn from, so two order statistics bracket it with known probability. A bootstrap would give nearly
# the same interval in the middle of a sample and too short a one near its end, where thresholds are.


# With fewer draws expected above a quantile, the interval's upper end lies outside the sample.
RESOLVED = 5.0


class UpperQuantile(NamedTuple):
    """``value`` is the ``rank``-th largest of ``n`` draws; a fresh draw exceeds it with p ≤ alpha."""

    value: float
    interval: Interval
    rank: int
    n: int


def draws_needed(alpha: float, design_effect: float = 1.0) -> int:
    """The sample size from which the upper ``alpha`` quantile can be estimated."""
    return math.ceil(RESOLVED * design_effect / alpha - 1e-9)


def upper_quantile(
    sample: ArrayLike, alpha: float, *, level: float = 0.95, design_effect: float = 1.0
) -> UpperQuantile:
    """The value that a share ``alpha`` of the population exceeds, with its order-statistic interval.

    The rank is floor(alpha (n + 1)): then a new draw, exchangeable with the sample, lies strictly
    above with probability at most ``alpha``, exactly and not only as n grows. ``design_effect`` is
    by how much dependence between draws inflates the variance of counts (1 for independent ones).
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    ordered = np.sort(np.asarray(sample, dtype=np.float64))[::-1]
    n = len(ordered)
    if n < draws_needed(alpha, design_effect):
        raise ValueError(f"{n} draws cannot tell the upper {alpha:g} quantile")
    rank = max(1, math.floor(alpha * (n + 1) + 1e-9))
    upper, lower = _bracketing_ranks(n, alpha, (1.0 - level) / 2.0, design_effect)
    high = float(ordered[upper - 1]) if upper >= 1 else math.inf
    low = float(ordered[lower - 1]) if lower <= n else -math.inf
    method = "order statistics" if design_effect == 1.0 else "order statistics, clustered"
    return UpperQuantile(float(ordered[rank - 1]), Interval(low, high, level, method), rank, n)


def _bracketing_ranks(n: int, alpha: float, tail: float, design: float) -> tuple[int, int]:
    """Ranks from the top between which the true quantile lies but for ``tail`` at each end."""
    far = min(n, math.ceil(n * alpha + 12 * math.sqrt(design * n * alpha) + 30))
    ranks = np.arange(1, far + 1)
    # Draws that come in groups of g behave like n / g draws: their counts are g times as coarse.
    at_most = _binomial_at_most((ranks - 1) / design, n / design, alpha)
    upper = int(np.count_nonzero(at_most <= tail))
    reach = np.flatnonzero(1.0 - at_most <= tail)
    return upper, int(ranks[reach[0]]) if reach.size else n + 1


def _binomial_at_most(count: NDArray[np.float64], n: float, p: float) -> NDArray[np.float64]:
    """P(B ≤ count), by the beta function so that fractional n and counts are allowed."""
    inside = np.minimum(count, n - 1e-9)
    tail = special.betainc(n - inside, inside + 1.0, 1.0 - p)  # betaincc is 40 times slower
    return np.asarray(np.where(count >= n, 1.0, tail), dtype=np.float64)


def excess_p(
    flagged: int, tested: int, quantile: UpperQuantile, design_effect: float = 1.0
) -> float:
    """P(at least ``flagged`` of ``tested`` lie above the quantile) if all were drawn like the null.

    A plain binomial would take the threshold for known. Its true exceedance follows a beta law, so
    the count is beta-binomial, and a threshold from a small null gives the large p it deserves.
    """
    if flagged <= 0:
        return 1.0
    a = quantile.rank / design_effect
    b = (quantile.n + 1 - quantile.rank) / design_effect
    k = np.arange(flagged, tested + 1, dtype=np.float64)
    log_choose = -special.betaln(k + 1, tested - k + 1) - math.log(tested + 1)
    log_mass = log_choose + special.betaln(k + a, tested - k + b) - special.betaln(a, b)
    return float(min(1.0, np.exp(special.logsumexp(log_mass))))
