"""Rates of a study with intervals: queries are the units, pairs of one query rise and fall together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.lab.result import Rate
from heldout.stats import Interval, binomial_interval

_DRAWS = 1000


def rate(hits: ArrayLike, sizes: ArrayLike, clusters: Sequence[str]) -> Rate:
    """``hits`` of ``sizes`` in every unit; units of one cluster are one observation.

    Exact (Clopper–Pearson) where every unit is one trial and its own cluster. Else a percentile
    bootstrap over clusters; where all clusters agree there is nothing to vary and the exact
    interval over clusters is given.
    """
    counts, trials = np.asarray(hits, np.int64), np.asarray(sizes, np.int64)
    used = trials > 0
    counts, trials = counts[used], trials[used]
    _, members = np.unique(
        np.asarray(clusters, dtype=object)[used].astype(str), return_inverse=True
    )
    sums = np.bincount(members, weights=counts).astype(np.float64)
    totals = np.bincount(members, weights=trials).astype(np.float64)
    successes, n = int(counts.sum()), int(trials.sum())
    if n == len(sums):
        interval = binomial_interval(successes, n)
    elif successes in (0, n):
        interval = binomial_interval(len(sums) if successes else 0, len(sums))
        interval = interval._replace(method="clopper-pearson over clusters")
    else:
        interval = _bootstrap(sums, totals)
    return Rate(hits=successes, n=n, value=successes / n if n else None, **interval._asdict())


def _bootstrap(
    sums: NDArray[np.float64], totals: NDArray[np.float64], level: float = 0.95
) -> Interval:
    count = len(sums)
    rng = np.random.default_rng(0)  # fixed: the same counts give the same interval
    even = np.full(count, 1.0 / count)
    rates = []
    for _ in range(_DRAWS):
        weights = rng.multinomial(count, even)
        rates.append((weights @ sums) / (weights @ totals))
    low, high = np.quantile(rates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high), level, "cluster bootstrap")
