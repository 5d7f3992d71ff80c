"""Do two marks on items meet more often than by chance, when items come in clusters?

One mark's items change places within their cluster, and whole clusters with others of equal size. That
keeps every cluster together, so ten questions about one picture are not ten observations. A cluster whose
size no other has changes places with none.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.grouping import aligned_ranks
from heldout.stats.permutation import (
    PERMUTATIONS,
    Permuted,
    Shuffle,
    flip_test,
    product_design,
    shuffle_test,
    staged,
)

Floats = NDArray[np.float64]
RANGE_DRAWS = 1_999  # of the range of chance: its ends are counts


class Meeting(NamedTuple):
    """How many items have both marks, and how many would by chance (95 % of the draws in the range)."""

    observed: float
    expected: float
    low: float
    high: float
    #: two-sided; None where no exchange of places changes the count
    test: Permuted | None
    #: chance of the most extreme count there can be: above the level, no outcome could be significant
    smallest_p: float = 1.0


def meeting_test(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Meeting:
    """Two marks of 0 and 1 per item; the null is that the first falls on items whatever the second is."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    classes = equal_sizes(clusters)
    observed = float(a @ b)
    expected = expected_meeting(a, b, classes)
    products = product_design(a, b, deal(classes, within=True))
    null = products(RANGE_DRAWS, np.random.default_rng(seed))
    if float(np.ptp(null)) < 1e-9:
        return Meeting(observed, expected, observed, observed, None)
    low, high = np.quantile(null, [0.025, 0.975], method="inverted_cdf")
    test = staged(
        observed - expected,
        lambda count, rng: products(count, rng) - expected,
        permutations=permutations,
        seed=seed,
    )
    return Meeting(observed, expected, float(low), float(high), test, smallest_p(a, b, classes))


def smallest_p(first: ArrayLike, second: ArrayLike, classes: Sequence[NDArray[np.int64]]) -> float:
    """How likely chance gives the most meetings possible, or the fewest if that is less likely.

    It depends on how many items have each mark and not on which, so a test may be left out for it. Items
    are taken to move freely within a class: with whole clusters moving, the true value is no smaller in
    practice.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    most = fewest = 1.0
    for places in classes:
        size, has, other = places.size, int(a[places].sum()), int(b[places].sum())
        ways = comb(size, other)
        most *= comb(has, min(has, other)) * comb(size - has, max(0, other - has)) / ways
        shared = max(0, has + other - size)
        fewest *= comb(has, shared) * comb(size - has, other - shared) / ways
    return min(most, fewest)


def expected_meeting(
    first: ArrayLike, second: ArrayLike, classes: Sequence[NDArray[np.int64]]
) -> float:
    """The mean count over all exchanges: within a class every item meets every other."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return sum(float(a[class_].sum() * b[class_].sum()) / class_.size for class_ in classes)


def equal_sizes(clusters: Sequence[Hashable]) -> list[NDArray[np.int64]]:
    """By size of cluster the places of its items: one row per cluster of that size."""
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(clusters))
    sizes = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    return [
        np.stack([order[starts[c] : starts[c] + size] for c in np.flatnonzero(sizes == size)])
        for size in np.unique(sizes)
    ]


def deal(classes: Sequence[NDArray[np.int64]], *, within: bool = False) -> Shuffle:
    """Whole clusters change places with others of their size; ``within``: and items in their cluster."""

    def shuffle(marks: Floats, rng: np.random.Generator) -> Floats:
        out = marks.copy()
        for places in classes:
            taken = marks[places[rng.permutation(len(places))]]
            out[places] = rng.permuted(taken, axis=1) if within else taken
        return out

    return shuffle


# Do two groups of items score differently, when whole clusters belong to one of them?
#
# Cluster means are dealt out to the two labels anew: exact where the clusters of both groups are
# exchangeable. Where clusters hold items of both groups, the difference inside each of them is flipped.


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
