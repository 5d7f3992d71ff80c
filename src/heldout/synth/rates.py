"""A share with its interval, where items of one article or one image rise and fall together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from heldout.stats import cluster_rate_interval

ONE_CLUSTER = "all of one cluster: an interval needs two"


class ClusterRate(TypedDict):
    """``interval``: 95 %; None with the ``reason`` where there are no two clusters to compare."""

    hits: float
    rate: float | None
    clusters: int
    interval: list[float] | None
    reason: str


def cluster_rate(hits: Sequence[float], clusters: Sequence[str]) -> ClusterRate:
    """The mean of ``hits`` (0 to 1 each)."""
    count = len(set(clusters))
    if count < 2:
        rate = sum(hits) / len(hits) if hits else None
        why = ONE_CLUSTER if count else "nothing to compare"
        return ClusterRate(hits=sum(hits), rate=rate, clusters=count, interval=None, reason=why)
    found = cluster_rate_interval(hits, clusters)
    return ClusterRate(
        hits=sum(hits), rate=sum(hits) / len(hits), clusters=count,
        interval=[found.low, found.high], reason="",
    )  # fmt: skip
