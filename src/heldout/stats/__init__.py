"""Statistics the audit rests on: NumPy and SciPy only, nothing of ours."""

from heldout.stats.grouping import Grouping, holm, order_grouping, order_trend
from heldout.stats.intervals import (
    Interval,
    MeanTest,
    binomial_interval,
    cluster_mean_test,
    cluster_rate_interval,
)
from heldout.stats.quantile import exceedance, excess_p, upper_quantile

__all__ = [
    "Grouping",
    "Interval",
    "MeanTest",
    "binomial_interval",
    "cluster_mean_test",
    "cluster_rate_interval",
    "exceedance",
    "excess_p",
    "holm",
    "order_grouping",
    "order_trend",
    "upper_quantile",
]
