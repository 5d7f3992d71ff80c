"""Upper quantiles of a null sample with exact intervals, and what it means to lie above them.

No distribution is assumed: how many draws lie above the true quantile is binomial whatever they are
drawn from, so two order statistics bracket it with known probability. A bootstrap would give nearly
the same interval in the middle of a sample and too short a one near its end, where thresholds live.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.intervals import Interval

# With fewer draws expected above a quantile, its upper end runs off the sample.
RESOLVED = 5.0


class UpperQuantile(NamedTuple):
    """``value`` is the ``rank``-th largest of ``n`` draws; a fresh draw exceeds it with p ≤ alpha."""

    value: float
    interval: Interval
    rank: int
    n: int


def draws_needed(alpha: float, design_effect: float = 1.0) -> int:
    """The sample size from which the upper ``alpha`` quantile can be told."""
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
    found = special.betainc(n - inside, inside + 1.0, 1.0 - p)  # betaincc is 40 times slower
    return np.asarray(np.where(count >= n, 1.0, found), dtype=np.float64)


def exceedance(null: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """For each value the add-one share of the null at or above it: a p-value, never 0."""
    ordered = np.sort(np.asarray(null, dtype=np.float64))
    wanted = np.asarray(values, dtype=np.float64)
    above = len(ordered) - np.searchsorted(ordered, wanted, side="left")
    return np.asarray((1.0 + above) / (1.0 + len(ordered)), dtype=np.float64)


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
