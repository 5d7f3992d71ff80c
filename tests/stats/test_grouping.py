from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from heldout.stats import grouping, holm, order_grouping, order_trend


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


def test_orders_are_not_drawn_where_none_could_come_near(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [str(i // 8) for i in range(1600)]
    told = order_grouping(labels, draws=199)
    monkeypatch.setattr(grouping, "_NEVER", 0.0)
    assert told == order_grouping(labels, draws=199)  # what drawing them finds
    drawn: list[float] = []
    monkeypatch.setattr(grouping, "_permutation_p", lambda *values: drawn.append(1.0) or 1.0)
    monkeypatch.setattr(grouping, "_NEVER", 1e-12)
    assert order_grouping(labels).p < 1 and not drawn
    assert order_grouping(labels[:80]).p == 1 and drawn  # too few to be sure without


NULLS = {
    "two equal kinds": np.repeat([0, 1], [60, 60]),
    "many small groups": np.repeat(np.arange(30), 5),
    "pairs": np.repeat(np.arange(60), 2),
    "one rare kind": np.repeat([0, 1], [97, 3]),
    "one very rare kind": np.repeat([0, 1], [198, 2]),
}


@pytest.mark.parametrize("name", NULLS)
def test_a_random_order_is_called_grouped_no_more_often_than_promised(name: str) -> None:
    rng = np.random.default_rng(1)
    labels = NULLS[name]
    rounds = 250
    found = [order_grouping(list(rng.permutation(labels)), draws=299).p for _ in range(rounds)]
    for level in (0.05, 0.01):
        assert sum(p <= level for p in found) <= stats.binom.isf(0.005, rounds, level)


def test_a_trend_over_clusters_is_called_no_more_often_than_promised() -> None:
    """Images in random order whose ten questions are alike: per item this fires far too often."""
    rng = np.random.default_rng(3)
    rounds = 200
    by_cluster = by_item = 0
    for _ in range(rounds):
        level = np.repeat(rng.normal(size=30), 10)
        values = level + rng.normal(size=300)
        clusters = [str(i // 10) for i in range(300)]
        by_cluster += order_trend(values, clusters, draws=199).p <= 0.05
        by_item += order_trend(values, draws=199).p <= 0.05
    assert by_cluster <= stats.binom.isf(0.005, rounds, 0.05)
    assert by_item > 2 * by_cluster + 20


def test_a_trend_across_scattered_clusters_is_still_seen() -> None:
    """Every image occurs in the first and in the last block: its mean position says nothing."""
    values = [1.0] * 60 + [2.0] * 60
    clusters = [str(i % 60) for i in range(120)]
    assert order_trend(values, clusters).p < 0.01


def test_holm_controls_the_family() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_power_grows_with_how_much_of_the_order_is_grouped() -> None:
    rng = np.random.default_rng(2)
    rates = []
    for grouped in (0.0, 0.1, 0.3):
        hits = 0
        for _ in range(60):
            labels = np.repeat(np.arange(40), 5)
            loose = rng.random(len(labels)) > grouped
            labels[loose] = rng.permutation(labels[loose])
            hits += order_grouping(list(labels), draws=199).p < 0.05
        rates.append(hits / 60)
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
