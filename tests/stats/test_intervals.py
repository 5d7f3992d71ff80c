from __future__ import annotations

import numpy as np
import pytest
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


def test_cluster_interval_covers_where_an_item_interval_does_not() -> None:
    rng = np.random.default_rng(0)
    covered = naive = 0
    rounds = 400
    for _ in range(rounds):
        hits, names = _clustered(rng, 100, 0.3)
        low, high, *_ = cluster_rate_interval(hits, names, draws=500)
        covered += low <= 0.3 <= high
        low, high, *_ = binomial_interval(int(sum(hits)), len(hits))
        naive += low <= 0.3 <= high
    assert covered / rounds > 0.90
    assert naive / rounds < 0.85  # what treating questions as independent would have given


def test_cluster_interval_without_variation_is_exact_over_clusters() -> None:
    none = cluster_rate_interval([0.0] * 50, [str(i // 10) for i in range(50)])
    assert none.low == 0.0
    assert none.high == pytest.approx(binomial_interval(0, 5).high)
    every = cluster_rate_interval([1.0] * 50, [str(i // 10) for i in range(50)])
    assert every.high == 1.0
    assert every.low == pytest.approx(binomial_interval(5, 5).low)


def test_cluster_interval_is_deterministic_by_seed() -> None:
    hits, names = _clustered(np.random.default_rng(1), 40, 0.4)
    assert cluster_rate_interval(hits, names, seed=3) == cluster_rate_interval(hits, names, seed=3)
    assert cluster_rate_interval(hits, names, seed=3) != cluster_rate_interval(hits, names, seed=4)


def test_cluster_mean_test_is_calibrated_and_has_power() -> None:
    rng = np.random.default_rng(2)
    rounds = 1000
    false = true = 0
    for _ in range(rounds):
        hits, names = _clustered(rng, 80, 0.25)
        false += cluster_mean_test(np.subtract(hits, 0.25), names).p < 0.05
        hits, names = _clustered(rng, 80, 0.50)
        true += cluster_mean_test(np.subtract(hits, 0.25), names).p < 0.05
    low, high = stats.binom.interval(0.99, rounds, 0.05)
    assert low - 10 <= false <= high + 10  # a t over cluster sums is slightly off at 80 clusters
    assert true / rounds > 0.95


def test_cluster_mean_test_of_one_cluster_says_nothing() -> None:
    assert cluster_mean_test([1.0, 1.0, 1.0], ["a", "a", "a"]).p == 1.0
