"""Means of subsets and their differences, where subsets overlap and items come in clusters.

"The whole benchmark less its clean part" compares a set with a part of itself: the two share items,
and a cluster can lie in both. One cluster after the other is left out (the jackknife), and Student's
t with clusters - 1 degrees of freedom makes the interval; bench/subset_means.py compares its
coverage with bootstraps over clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.intervals import Interval

Mask = NDArray[np.bool_]
FEW = 8  # clusters of either subset, and of what they do not share, for an interval
METHOD = "cluster jackknife t"
_FLAT = 1e-12


class Estimate(NamedTuple):
    value: float
    error: float | None  # jackknife standard error over clusters
    interval: Interval | None  # None where too few clusters carry it
    p: float | None = None  # two-sided, of no difference (or a mean of 0); None where no interval


def subset_mean(
    values: ArrayLike, chosen: ArrayLike, clusters: Sequence[str], *, level: float = 0.95
) -> Estimate | None:
    """Mean over ``chosen`` items; None where there are none."""
    return _estimate(values, [np.asarray(chosen, dtype=bool)], clusters, level)


def subset_difference(
    values: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
) -> Estimate | None:
    """Mean over ``first`` less mean over ``second``; the two may share items, or one hold the other.

    None where one of them is empty.
    """
    masks = [np.asarray(one, dtype=bool) for one in (first, second)]
    return _estimate(values, masks, clusters, level)


def _estimate(
    values: ArrayLike, masks: list[Mask], clusters: Sequence[str], level: float
) -> Estimate | None:
    if not all(mask.any() for mask in masks):
        return None
    numbers = np.asarray(values, dtype=np.float64)
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(numbers))
    present = np.unique(codes[np.logical_or.reduce(masks)])
    value, left_out = 0.0, np.zeros(len(present))
    for sign, mask in zip((1.0, -1.0), masks, strict=False):
        sums = np.bincount(codes, numbers * mask, len(names))[present]
        sizes = np.bincount(codes, mask.astype(np.float64), len(names))[present]
        value += sign * float(sums.sum() / sizes.sum())
        with np.errstate(divide="ignore", invalid="ignore"):  # a subset of a single cluster
            left_out += sign * (sums.sum() - sums) / (sizes.sum() - sizes)
    telling = [*masks, masks[0] ^ masks[1]] if len(masks) == 2 else masks
    count = len(present)
    enough = min(len(np.unique(codes[mask])) for mask in telling) >= FEW
    if not enough:
        return Estimate(value, None, None)
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    error = float(np.sqrt((count - 1) / count * spread))
    if error < _FLAT:
        return Estimate(value, error, None)
    reach = float(special.stdtrit(count - 1, 0.5 + level / 2)) * error
    p = 2.0 * float(special.stdtr(count - 1, -abs(value) / error))
    return Estimate(value, error, Interval(value - reach, value + reach, level, METHOD), p)
