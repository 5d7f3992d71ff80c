"""Do two groups of items score differently, when whole clusters belong to one of them?

Cluster means are dealt out to the two labels anew: exact where the clusters of both groups are
exchangeable. Where clusters hold items of both groups, the difference inside each of them is flipped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.permutation import PERMUTATIONS, Permuted, flip_test, shuffle_test
from heldout.stats.trend import aligned_ranks

MINIMUM = 4  # clusters in each group, or with both, below which no p can be small


class GroupTest(NamedTuple):
    """``auc``: chance that an item of the first group outranks one of the second, by cluster means."""

    auc: float
    test: Permuted
    unit: str  # what was dealt out: clusters, or differences inside clusters
    units: int


def group_test(
    values: ArrayLike,
    first: ArrayLike,
    clusters: Sequence[Hashable],
    strata: Sequence[Hashable] | None = None,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> GroupTest | None:
    """Two-sided; ranks within strata, so that a few extreme items decide nothing."""
    ranks = aligned_ranks(values, strata)
    chosen = np.asarray(first, dtype=bool)
    known = {label: code for code, label in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[label] for label in clusters), np.int64, len(chosen))
    inside, outside = (
        np.bincount(codes[mask], minlength=len(known)).astype(np.float64)
        for mask in (chosen, ~chosen)
    )
    mixed = (inside > 0) & (outside > 0)
    if mixed.sum() >= max(MINIMUM, 0.5 * len(known)):
        gaps = _mean(ranks, codes, chosen, len(known)) - _mean(ranks, codes, ~chosen, len(known))
        gaps = gaps[mixed]
        test = flip_test(gaps, permutations=permutations, seed=seed)
        return GroupTest(
            0.5 + float(gaps.mean()) / 4, test, "differences inside clusters", len(gaps)
        )
    if min((inside > outside).sum(), (inside <= outside).sum()) < MINIMUM:
        return None
    means = np.bincount(codes, weights=ranks) / (inside + outside)
    label = (inside > outside).astype(np.float64)
    test = shuffle_test(means, label, permutations=permutations, seed=seed)
    return GroupTest(area(means, label > 0), test, "clusters", len(means))


def area(values: ArrayLike, first: ArrayLike) -> float:
    """Area under the ROC curve: how often the first group's value is the larger, ties as halves."""
    numbers, chosen = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    count, other = int(chosen.sum()), int((~chosen).sum())
    if not count or not other:
        return 0.5
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return float((ranks[chosen].sum() - count * (count + 1) / 2) / (count * other))


def _mean(
    values: NDArray[np.float64], codes: NDArray[np.int64], mask: NDArray[np.bool_], count: int
) -> NDArray[np.float64]:
    sizes = np.maximum(np.bincount(codes[mask], minlength=count), 1)
    return np.asarray(
        np.bincount(codes[mask], weights=values[mask], minlength=count) / sizes, dtype=np.float64
    )
