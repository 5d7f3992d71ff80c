"""Two groups of clusters that differ in more than their means, and orders in which neighbours are alike."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.stats import flip_test, group_test, stratum_overlap, trend_test, within_strata
from heldout.stats.grouping import run_length


def test_a_steadier_group_is_no_higher_group() -> None:
    """Ninety steady clusters against ten loose ones: a test of plain means fires in a fifth of such cells."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values = np.concatenate([0.3 * rng.normal(size=90), 1.5 * rng.normal(size=10)])
        found = group_test(values, np.arange(100) < 90, range(100), permutations=499, seed=seed)
        assert found is not None
        alarms += found.test.p <= 0.05
    assert alarms <= 13  # 99.9 % of Binomial(100, .05)


def test_a_higher_group_is_seen() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=30) + 1.5, rng.normal(size=20)])
    found = group_test(values, np.arange(50) < 30, range(50))
    assert found is not None and found.test.p < 0.01


def test_overlap_of_strata_is_the_precision_that_is_left() -> None:
    first = np.array([True, True, False, False])
    assert stratum_overlap(first, ["a", "b", "a", "b"]) == pytest.approx(1.0)
    assert stratum_overlap(first, ["a", "a", "b", "b"]) == 0.0
    assert stratum_overlap(first, None) == 1.0
    assert 0 < stratum_overlap(first, ["a", "a", "a", "b"]) < 1


def test_differences_within_strata_are_not_those_of_the_strata() -> None:
    first = np.array([True] * 8 + [False] * 8)
    strata = ["hard"] * 6 + ["easy"] * 2 + ["hard"] * 2 + ["easy"] * 6
    values = np.where(np.array(strata) == "easy", 5.0, 0.0) + 0.5 * first
    left = within_strata(values, first, strata)
    assert left[first].mean() - left[~first].mean() == pytest.approx(0.5)
    assert values[first].mean() < values[~first].mean()


def test_runs_of_like_neighbours_are_dealt_out_together() -> None:
    rng = np.random.default_rng(1)
    topics = np.repeat(rng.normal(size=40), 8) + 0.3 * rng.normal(size=320)
    trend = trend_test(topics, permutations=499)
    assert trend is not None and 8 <= trend.run <= 40
    assert run_length(rng.normal(size=320)) <= 6
    assert run_length(np.linspace(0.0, 3.0, 320) + rng.normal(size=320)) <= 6  # a trend is no run


def test_the_smallest_p_knows_clusters_and_permutations() -> None:
    assert flip_test(np.ones(6)).least == pytest.approx(2.0**-5)
    assert flip_test(np.ones(60), permutations=999).least == pytest.approx(1 / 1000)
