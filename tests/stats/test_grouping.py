from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from heldout.stats import order_grouping, order_trend


def test_moments_are_those_of_all_permutations() -> None:
    labels = ["a", "a", "a", "b", "b", "c"]
    equal = [
        sum(x == y for x, y in itertools.pairwise(order))
        for order in itertools.permutations(labels)
    ]
    mean, deviation = np.mean(equal), np.std(equal)
    observed = sum(x == y for x, y in itertools.pairwise(labels))
    assert order_grouping(labels).z == pytest.approx((observed - mean) / deviation)


def test_strength_is_one_when_fully_grouped_and_about_zero_when_shuffled() -> None:
    labels = [str(i // 8) for i in range(400)]
    assert order_grouping(labels).strength == 1.0
    shuffled = list(np.random.default_rng(0).permutation(labels))
    assert abs(order_grouping(shuffled).strength) < 0.05


@pytest.mark.parametrize(("kinds", "size"), [(2, 60), (5, 20), (30, 5), (150, 2)])
def test_a_random_order_is_called_grouped_no_more_often_than_promised(
    kinds: int, size: int
) -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(kinds), size)
    rounds = 1000
    rejected = sum(order_grouping(list(rng.permutation(labels))).p < 0.05 for _ in range(rounds))
    assert rejected <= stats.binom.isf(0.005, rounds, 0.05)
    if kinds <= 5:  # many equal neighbours: the approximation is close on both sides
        assert rejected >= stats.binom.ppf(0.005, rounds, 0.05)


def test_a_random_order_has_a_trend_as_often_as_promised() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 12, 200)
    rounds = 1000
    rejected = sum(order_trend(rng.permutation(values)).p < 0.05 for _ in range(rounds))
    low, high = stats.binom.interval(0.99, rounds, 0.05)
    assert low <= rejected <= high


def test_power_grows_with_how_much_of_the_order_is_grouped() -> None:
    rng = np.random.default_rng(2)
    rates = []
    for grouped in (0.0, 0.1, 0.3):
        hits = 0
        for _ in range(150):
            labels = np.repeat(np.arange(40), 5)
            loose = rng.random(len(labels)) > grouped
            labels[loose] = rng.permutation(labels[loose])
            hits += order_grouping(list(labels)).p < 0.05
        rates.append(hits / 150)
    assert rates[0] < 0.12
    assert rates == sorted(rates)
    assert rates[2] > 0.95


def test_trend_is_spearman_s_correlation_with_ties() -> None:
    values = np.random.default_rng(5).integers(0, 6, 90)
    expected = stats.spearmanr(np.arange(90), values).statistic
    assert order_trend(values).strength == pytest.approx(expected, abs=1e-12)


def test_trend_sees_sorting_and_its_direction() -> None:
    assert order_trend(np.arange(50)).strength == pytest.approx(1.0)
    assert order_trend(-np.arange(50)).strength == pytest.approx(-1.0)


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "a", "a"], ["a", "b", "c", "d"]])
def test_nothing_to_group_is_not_a_finding(labels: list[str]) -> None:
    assert order_grouping(labels).p == 1.0
