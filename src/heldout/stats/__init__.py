"""Statistics the audit rests on: NumPy and SciPy only, nothing of ours."""

from heldout.stats.grouping import Grouping, holm, order_grouping, order_trend
from heldout.stats.intervals import (
    Interval,
    MeanTest,
    binomial_interval,
    cluster_mean_test,
    cluster_rate_interval,
)

__all__ = [
    "Grouping",
    "Interval",
    "MeanTest",
    "binomial_interval",
    "cluster_mean_test",
    "cluster_rate_interval",
    "holm",
    "order_grouping",
    "order_trend",
]
