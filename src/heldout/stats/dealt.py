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
    Design,
    Permuted,
    Shuffle,
    flip_test,
    product_design,
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
    """Permute whole clusters among those of their size; ``within``: and items within their cluster."""

    def shuffle(marks: Floats, rng: np.random.Generator) -> Floats:
        out = marks.copy()
        for places in classes:
            taken = marks[places[rng.permutation(len(places))]]
            out[places] = rng.permuted(taken, axis=1) if within else taken
        return out

    return shuffle


# Do two groups of items score differently, when whole clusters belong to one group?
#
# Cluster means are permuted over the two labels: exact if the clusters of both groups are exchangeable.
# Clusters of eight questions have steadier means than those of one, and then they are not: so
# the difference is measured in its own standard error (Welch's), in every draw, which holds the level where
# only the means are equal (Janssen 1997). Where clusters hold items of both groups, the difference inside
# each of them is flipped.


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
    test = staged(
        float(_welch(means @ label, (means**2) @ label, means, float(label.sum()))),
        _welch_design(means, label),
        permutations=permutations,
        seed=seed,
        arrangements=float(comb(len(label), int(label.sum()))),
    )
    return GroupTest(area(means, label > 0), test, "clusters", len(means))


def _welch_design(means: Floats, label: Floats) -> Design:
    """Welch's t of two pools: shuffled means against shuffled labels, as in ``product_design``."""

    def design(count: int, rng: np.random.Generator) -> Floats:
        rows = int(np.ceil(np.sqrt(count + 1)))
        orders = np.stack(
            [np.arange(len(means)), *(rng.permutation(len(means)) for _ in range(rows - 1))]
        )
        labels = np.stack([label, *(rng.permutation(label) for _ in range(rows - 1))])
        drawn = means[orders]
        table = _welch(drawn @ labels.T, (drawn**2) @ labels.T, means, float(label.sum()))
        return np.asarray(table.ravel()[1:], dtype=np.float64)

    return design


def _welch(sums: ArrayLike, squares: ArrayLike, values: Floats, count: float) -> Floats:
    """From the first group's sum and sum of squares; the second group has the rest of ``values``."""
    total, total_squares, other = values.sum(), (values**2).sum(), len(values) - count
    first, first_squares = np.asarray(sums), np.asarray(squares)
    errors = np.zeros_like(first)
    for part, part_squares, n in (
        (first, first_squares, count),
        (total - first, total_squares - first_squares, other),
    ):
        errors = errors + (part_squares / n - (part / n) ** 2) / (n - 1)
    gap = first / count - (total - first) / other
    return np.asarray(gap / np.sqrt(np.maximum(errors, 1e-300)), dtype=np.float64)


# Items of two groups in strata: how much of the comparison is left within them, and the values less what a
# stratum gives to either group.


def stratum_overlap(first: ArrayLike, strata: Sequence[Hashable] | None) -> float:
    """1 where the groups have the same strata in the same shares, 0 where they share none.

    The precision of a comparison within strata over that of one across them.
    """
    chosen = np.asarray(first, dtype=bool)
    if strata is None:
        return 1.0
    inside, outside = _counts(chosen, strata)
    whole = inside.sum() * outside.sum() / max(len(chosen), 1)
    return float((inside * outside / (inside + outside)).sum() / whole) if whole else 0.0


def within_strata(values: ArrayLike, first: ArrayLike, strata: Sequence[Hashable] | None) -> Floats:
    """Values less the level of their stratum, which both groups share (fixed effects).

    The difference of means between the groups is then the one within strata.
    """
    numbers, chosen = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=np.float64)
    if strata is None:
        return numbers
    codes = _stratum_codes(strata)
    sizes = np.bincount(codes)
    means, shares = (np.bincount(codes, weights=each) / sizes for each in (numbers, chosen))
    left = chosen - shares[codes]
    size = float(left @ left)
    effect = float(left @ numbers) / size if size > 0 else 0.0
    return np.asarray(numbers - (means - effect * shares)[codes], dtype=np.float64)


def _counts(chosen: NDArray[np.bool_], strata: Sequence[Hashable]) -> tuple[Floats, Floats]:
    codes = _stratum_codes(strata)
    size = int(codes.max()) + 1 if len(codes) else 0
    inside, outside = (np.bincount(codes[mask], minlength=size) for mask in (chosen, ~chosen))
    return inside.astype(np.float64), outside.astype(np.float64)


def _stratum_codes(strata: Sequence[Hashable]) -> NDArray[np.int64]:
    known = {label: code for code, label in enumerate(dict.fromkeys(strata))}
    return np.fromiter((known[label] for label in strata), np.int64, len(strata))


def area(values: ArrayLike, first: ArrayLike) -> float:
    """Area under the ROC curve: how often the first group's value is the larger, ties as halves."""
    numbers, chosen = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    count, other = int(chosen.sum()), int((~chosen).sum())
    if not count or not other:
        return 0.5
    ordered, mine = np.sort(numbers), numbers[chosen]
    below, upto = (np.searchsorted(ordered, mine, side) for side in ("left", "right"))
    ranks = (below + upto + 1) / 2.0  # ties share their mean rank
    return float((ranks.sum() - count * (count + 1) / 2) / (count * other))


def _mean(
    values: NDArray[np.float64], codes: NDArray[np.int64], mask: NDArray[np.bool_], count: int
) -> NDArray[np.float64]:
    sizes = np.maximum(np.bincount(codes[mask], minlength=count), 1)
    return np.asarray(
        np.bincount(codes[mask], weights=values[mask], minlength=count) / sizes, dtype=np.float64
    )
