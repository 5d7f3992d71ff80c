"""Rank intervals and Kendall's tau-b."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heldout.stats.contrast import kendall_tau_b, rank_intervals


def test_a_clear_winner_has_a_narrow_interval_and_equals_share_theirs() -> None:
    rng = np.random.default_rng(0)
    clusters = [f"c{i // 4}" for i in range(400)]
    values = {
        "best": (rng.random(400) < 0.9).astype(float),
        "one": (rng.random(400) < 0.5).astype(float),
        "two": (rng.random(400) < 0.5).astype(float),
    }
    found = rank_intervals(values, np.ones(400, bool), clusters)
    assert found["best"] == (1, 1, 1)
    assert {found["one"][1:], found["two"][1:]} == {(2, 3)}


def test_items_that_share_an_image_make_the_interval_wider() -> None:
    """Ten images, each right or wrong as a whole: 400 items are ten observations."""
    right = np.repeat([1, 1, 1, 1, 1, 1, 1, 0, 1, 0], 40).astype(float)
    other = np.repeat([1, 0, 1, 0, 0, 1, 0, 1, 0, 0], 40).astype(float)
    together = rank_intervals(
        {"a": right, "b": other}, np.ones(400, bool), [f"{i // 40}" for i in range(400)]
    )
    alone = rank_intervals(
        {"a": right, "b": other}, np.ones(400, bool), [str(i) for i in range(400)]
    )
    assert alone["a"] == (1, 1, 1)
    assert together["a"] == (1, 1, 2)


def test_only_the_chosen_items_count_and_none_give_none() -> None:
    values = {"a": [1.0] * 20 + [0.0] * 20, "b": [0.0] * 20 + [1.0] * 20}
    clusters = [str(i) for i in range(40)]
    first = np.arange(40) < 20
    assert rank_intervals(values, first, clusters)["a"].rank == 1
    assert rank_intervals(values, ~first, clusters)["a"].rank == 2
    assert rank_intervals(values, np.zeros(40, bool), clusters) == {}


def test_intervals_of_equal_models_cover_in_nineteen_of_twenty() -> None:
    missed = 0
    clusters = [f"c{i // 3}" for i in range(120)]
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values = {name: (rng.random(120) < 0.6).astype(float) for name in "abc"}
        found = rank_intervals(values, np.ones(120, bool), clusters)
        missed += any((one.low, one.high) != (1, 3) for one in found.values())
    assert missed <= 20  # 10 expected; 99 % of draws lie at or below 18


@pytest.mark.parametrize("seed", range(5))
def test_tau_b_is_scipys_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, 12), rng.integers(0, 4, 12)
    assert kendall_tau_b(a, b) == pytest.approx(stats.kendalltau(a, b).statistic)


def test_a_ranking_of_equals_agrees_with_nothing() -> None:
    assert kendall_tau_b([1, 1, 1], [1, 2, 3]) is None
