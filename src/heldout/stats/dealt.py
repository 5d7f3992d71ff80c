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

from heldout.stats.permutation import (
    PERMUTATIONS,
    Permuted,
    Shuffle,
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
    return sum(float(a[one].sum() * b[one].sum()) / one.size for one in classes)


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
