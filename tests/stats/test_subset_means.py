"""Means of overlapping subsets: right values, honest intervals, silence where there is too little."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from heldout.stats.contrast import subset_difference, subset_mean

Drawn = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]


def world(
    rng: np.random.Generator, clusters: int, leaked: int, binary: bool
) -> tuple[NDArray[np.float64], list[str], NDArray[np.bool_]]:
    """Unequal clusters whose items rise and fall together; the first ``leaked`` have leaked."""
    sizes = rng.integers(1, 12, clusters)
    own = rng.normal(0.0, 1.0, clusters)
    codes = np.repeat(np.arange(clusters), sizes)
    raw = own[codes] + rng.normal(0.0, 1.0, len(codes))
    values = (raw > 0).astype(np.float64) if binary else raw
    return values, [str(code) for code in codes], codes < leaked


def test_values_are_the_plain_means() -> None:
    values = np.array([1.0, 2.0, 3.0, 10.0])
    first = np.array([True, True, True, True])
    second = np.array([True, True, False, False])
    found = subset_difference(values, first, second, ["a", "b", "c", "d"])
    assert found is not None
    assert found.value == pytest.approx(4.0 - 1.5)
    mean = subset_mean(values, second, ["a", "b", "c", "d"])
    assert mean is not None
    assert mean.value == 1.5


def test_the_error_is_that_of_independent_means_where_nothing_is_shared() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=4000)
    first = np.arange(4000) < 1000
    found = subset_difference(values, first, ~first, [str(n) for n in range(4000)])
    assert found is not None
    assert found.error == pytest.approx(np.sqrt(1 / 1000 + 1 / 3000), rel=0.05)


def test_too_few_clusters_get_no_interval() -> None:
    rng = np.random.default_rng(2)
    values, clusters, leaked = world(rng, 40, 7, binary=False)
    everything = np.ones_like(leaked)
    for one, other in ((everything, ~leaked), (leaked, everything), (leaked, ~leaked)):
        found = subset_difference(values, one, other, clusters)
        assert found is not None
        assert found.interval is None
    assert subset_difference(values, everything, np.zeros_like(leaked), clusters) is None
    assert subset_mean(values, np.zeros_like(leaked), clusters) is None


def test_no_spread_gives_no_interval() -> None:
    mask = np.arange(40) < 20
    found = subset_difference(np.ones(40), mask, ~mask, [str(n) for n in range(40)])
    assert found is not None
    assert (found.value, found.interval) == (0.0, None)


@pytest.mark.parametrize(
    ("clusters", "share", "effect", "binary"),
    [(40, 0.3, 0.0, False), (60, 0.3, 1.0, True), (96, 0.2, 0.5, False)],
)
def test_intervals_cover(clusters: int, share: float, effect: float, binary: bool) -> None:
    """95 % intervals of "all less non-leaked". The band is 99.9 % around what was measured, .935-.98.

    They miss more often by being too low than by promising too much.
    """

    def drawn(rng: np.random.Generator, count: int) -> Drawn:
        codes = np.repeat(np.arange(count), rng.integers(1, 12, count))
        leaked = (rng.random(count) < share)[codes]
        raw = rng.normal(size=count)[codes] + rng.normal(size=len(codes)) + effect * leaked
        return (raw > 0).astype(np.float64) if binary else raw, codes, leaked

    values, _, leaked = drawn(np.random.default_rng(0), 200_000)
    truth = float(values.mean() - values[~leaked].mean())
    rng = np.random.default_rng(4)
    rounds, over, under = 800, 0, 0
    for _ in range(rounds):
        values, codes, leaked = drawn(rng, clusters)
        found = subset_difference(values, np.ones_like(leaked), ~leaked, [str(c) for c in codes])
        if found is None or found.interval is None:
            continue
        over += found.interval.low > truth
        under += found.interval.high < truth
    assert 0.005 * rounds < over + under < 0.095 * rounds
    assert over < 0.035 * rounds


def test_means_of_a_few_clusters_cover() -> None:
    """A rate over 24 unequal clusters, as small as a clean split can get."""
    rng = np.random.default_rng(6)
    rounds, missed = 800, 0
    for _ in range(rounds):
        values, clusters, mask = world(rng, 24, 24, binary=True)
        found = subset_mean(values, mask, clusters)
        assert found is not None and found.interval is not None
        missed += not found.interval.low <= 0.5 <= found.interval.high
    assert missed < 0.09 * rounds


def test_items_counted_one_by_one_would_not_cover() -> None:
    """The same data without clusters: what the clusters are for."""
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(100):
        values, _, mask = world(rng, 40, 12, binary=False)
        single = [str(n) for n in range(len(values))]
        found = subset_difference(values, np.ones_like(mask), ~mask, single)
        assert found is not None and found.interval is not None
        missed += not found.interval.low <= 0.0 <= found.interval.high
    assert missed > 15
