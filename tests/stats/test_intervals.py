from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from heldout.stats import binomial_interval, cluster_mean_test, cluster_rate_interval


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 2000)])
def test_binomial_interval_is_clopper_pearson(successes: int, n: int) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="exact")
    found = binomial_interval(successes, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_binomial_interval_without_observations_says_nothing() -> None:
    assert binomial_interval(0, 0)[:2] == (0.0, 1.0)


def _clustered(
    rng: np.random.Generator, clusters: int, rate: float
) -> tuple[list[float], list[str]]:
    """Items that leak image by image, as real ones do: all questions of an image, or none."""
    hits: list[float] = []
    names: list[str] = []
    for cluster in range(clusters):
        size = int(rng.integers(1, 12))
        hits += [float(rng.random() < rate)] * size
        names += [str(cluster)] * size
    return hits, names


def _sizes(rng: np.random.Generator, clusters: int, heavy: bool) -> NDArray[np.int64]:
    if heavy:  # a few patients with very many images
        return np.clip(rng.pareto(1.5, clusters) * 3, 1, 300).astype(np.int64)
    return rng.integers(1, 8, clusters)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("clusters", "rate"), [(5, 0.3), (20, 0.1), (60, 0.05), (120, 0.3)])
def test_cluster_interval_covers(clusters: int, rate: float, together: bool, heavy: bool) -> None:
    """Few clusters, rare leaks, unequal sizes; items of a cluster leak together or on their own."""
    rng = np.random.default_rng(clusters)
    rounds, covered = 200, 0
    for _ in range(rounds):
        sizes = _sizes(rng, clusters, heavy)
        chance = (rng.random(clusters) < rate) if together else rng.beta(rate, 1 - rate, clusters)
        hits = (rng.random(sizes.sum()) < np.repeat(chance.astype(float), sizes)).astype(float)
        low, high, *_ = cluster_rate_interval(
            hits, [str(k) for k in np.repeat(np.arange(clusters), sizes)]
        )
        covered += low <= rate <= high
    assert covered >= stats.binom.ppf(0.005, rounds, 0.95)


def test_an_interval_over_items_would_not_cover() -> None:
    rng = np.random.default_rng(0)
    naive = 0
    for _ in range(200):
        sizes = _sizes(rng, 100, False)
        hits = np.repeat(rng.random(100) < 0.3, sizes)
        low, high, *_ = binomial_interval(int(hits.sum()), len(hits))
        naive += low <= 0.3 <= high
    assert naive / 200 < 0.85


def test_a_found_leak_never_lowers_the_upper_limit() -> None:
    names = [str(i // 5) for i in range(100)]
    upper = [
        cluster_rate_interval([1.0] * (5 * k) + [0.0] * (100 - 5 * k), names).high for k in range(8)
    ]
    assert upper == sorted(upper)


def test_equal_clusters_do_not_give_an_interval_without_width() -> None:
    found = cluster_rate_interval([1.0, 0.0, 0.0, 0.0] * 2, ["a"] * 4 + ["b"] * 4)
    assert found.high - found.low > 0.5


def test_cluster_interval_at_the_ends_is_exact_over_clusters() -> None:
    names = [str(i // 10) for i in range(50)]
    none, every = cluster_rate_interval([0.0] * 50, names), cluster_rate_interval([1.0] * 50, names)
    assert (none.low, none.high) == (0.0, pytest.approx(binomial_interval(0, 5).high))
    assert (every.low, every.high) == (pytest.approx(binomial_interval(5, 5).low), 1.0)


def test_many_independent_items_get_the_narrow_interval() -> None:
    hits = (np.random.default_rng(4).random(3000) < 0.4).astype(float)
    clustered = cluster_rate_interval(hits, [str(i // 3) for i in range(3000)])
    plain = binomial_interval(int(hits.sum()), 3000)
    assert clustered.method == "korn-graubard"
    assert clustered.high - clustered.low < 1.15 * (plain.high - plain.low)


@pytest.mark.parametrize("clusters", [8, 20, 80])
def test_cluster_mean_test_is_calibrated(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    rounds, rejected = 800, 0
    for _ in range(rounds):
        sizes = rng.integers(1, 8, clusters)
        level = np.repeat(rng.normal(scale=0.3, size=clusters), sizes)
        deviations = level + rng.normal(size=sizes.sum())
        names = [str(k) for k in np.repeat(np.arange(clusters), sizes)]
        rejected += cluster_mean_test(deviations, names).p < 0.05
    low, high = stats.binom.interval(0.995, rounds, 0.05)
    assert low - 8 <= rejected <= high  # unequal sizes make it slightly conservative


def test_cluster_mean_test_has_power_and_needs_clusters() -> None:
    every = [0.75] * 60
    assert cluster_mean_test(every, [str(i) for i in range(60)]).p < 1e-10
    assert cluster_mean_test(every, [str(i % 8) for i in range(60)]).p < 0.01
    assert cluster_mean_test(every, [str(i % 4) for i in range(60)]).p == 0.125
    assert cluster_mean_test(every, ["a"] * 60).p == 1.0
