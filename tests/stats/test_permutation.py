from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from heldout.stats.grouping import aligned_ranks, trend_test
from heldout.stats.permutation import ENOUGH, flip_test, shuffle_test, staged


def _band(rounds: int, level: float = 0.05) -> tuple[float, float]:
    low, high = stats.binom.interval(0.99, rounds, level)
    return float(low), float(high)


def test_p_agrees_with_complete_enumeration() -> None:
    x = np.random.default_rng(0).normal(size=7)
    places = np.arange(7.0)
    centred = x - x.mean()
    observed = abs(centred @ places)
    every = [
        abs(np.asarray(order) @ places) >= observed - 1e-12
        for order in itertools.permutations(centred)
    ]
    found = shuffle_test(x, places, permutations=40_000, early=False)
    assert found.p == pytest.approx(np.mean(every), abs=0.012)


def test_sign_flips_agree_with_complete_enumeration() -> None:
    x = np.random.default_rng(1).normal(0.3, size=10)
    sums = [abs(np.dot(signs, x)) for signs in itertools.product((1.0, -1.0), repeat=10)]
    expected = np.mean(np.asarray(sums) >= abs(x.sum()) - 1e-12)
    assert flip_test(x, permutations=40_000, early=False).p == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("early", [True, False])
def test_false_alarms_are_as_rare_as_promised(early: bool) -> None:
    rounds, rejected = 500, {0.05: 0, 0.2: 0}
    for seed in range(rounds):
        x = np.random.default_rng(seed).exponential(size=25)
        p = shuffle_test(x, np.arange(25), permutations=2000, seed=seed, early=early).p
        for level in rejected:
            rejected[level] += p <= level
    for level, count in rejected.items():
        low, high = _band(rounds, level)
        assert low <= count <= high


def test_two_pools_are_as_precise_as_independent_permutations() -> None:
    """Entries of the table are pairwise independent: the p-value varies like a binomial share."""
    x = np.random.default_rng(5).normal(size=40)
    found = [
        shuffle_test(x, np.arange(40), permutations=2_499, seed=seed, early=False).p
        for seed in range(120)
    ]
    share = float(np.mean(found))
    expected = np.sqrt(share * (1 - share) / 2500)
    assert 0.75 * expected < np.std(found) < 1.3 * expected


def test_a_clean_cell_stops_early_and_a_strong_one_goes_to_the_end() -> None:
    rng = np.random.default_rng(2)
    clean = shuffle_test(rng.normal(size=300), np.arange(300), permutations=100_000)
    assert clean.evaluated < 1_100
    assert clean.p * clean.evaluated >= ENOUGH
    strong = shuffle_test(np.arange(300.0), np.arange(300), permutations=100_000)
    assert strong.evaluated > 100_000
    assert strong.p == 1 / strong.evaluated


def test_tails_are_told_apart_and_p_is_two_sided() -> None:
    falling = shuffle_test(-np.arange(50.0), np.arange(50))
    assert falling.statistic < 0
    assert falling.p_greater == 1.0
    assert falling.p == falling.p_less < 0.001


def test_equal_seeds_give_equal_answers() -> None:
    x = np.random.default_rng(3).normal(size=60)
    assert shuffle_test(x, np.arange(60), seed=4) == shuffle_test(x, np.arange(60), seed=4)
    assert shuffle_test(x, np.arange(60), seed=4) != shuffle_test(x, np.arange(60), seed=5)


def test_constant_values_are_no_evidence() -> None:
    assert shuffle_test(np.ones(20), np.arange(20)).p == 1.0
    assert staged(0.0, lambda count, rng: np.zeros(count)).p == 1.0


def test_trend_without_clusters_is_spearman() -> None:
    x = np.random.default_rng(6).normal(size=80)
    found = trend_test(x)
    assert found is not None
    assert found.rho == pytest.approx(-stats.spearmanr(x, np.arange(80)).statistic)
    assert found.error == pytest.approx(1 / np.sqrt(79), rel=0.1)


def test_clusters_are_no_trend_even_where_nobody_names_them() -> None:
    """Clusters that share an image rise and fall together: blocks are permuted, or runs of like neighbours."""
    rounds, items, blocks = 250, 0, 0
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 14, 30)
        names = np.repeat(np.arange(30), sizes)
        scores = np.repeat(rng.normal(size=30), sizes) + 0.5 * rng.normal(size=sizes.sum())
        plain, clustered = (
            trend_test(scores, c, permutations=1000, seed=seed) for c in (None, list(names))
        )
        assert clustered is not None
        items += plain is not None and plain.test.p <= 0.05
        blocks += clustered.test.p <= 0.05
    low, high = _band(rounds)
    assert low <= blocks <= high
    assert items <= high  # above 3 * high, were items permuted one by one


def test_a_change_of_answer_types_along_the_order_is_no_trend_within_them() -> None:
    rng = np.random.default_rng(8)
    closed = rng.random(600) < np.linspace(0.9, 0.1, 600)
    scores = np.where(closed, 3.0, 0.0) + rng.normal(size=600)
    plain, stratified = trend_test(scores), trend_test(scores, None, list(closed))
    assert plain is not None
    assert stratified is not None
    assert plain.test.p < 0.001
    assert stratified.test.p > 0.05


def test_scattered_clusters_are_one_observation_each() -> None:
    rounds, rejected = 250, 0
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        names = rng.integers(0, 12, 240)
        scores = rng.normal(size=12)[names] + 0.3 * rng.normal(size=240)
        found = trend_test(scores, list(names), permutations=1000, seed=seed)
        assert found is not None
        rejected += found.test.p <= 0.05
    low, high = _band(rounds)
    assert low <= rejected <= high


def test_too_little_to_tell_a_trend_is_said() -> None:
    assert trend_test([1.0, 2.0, 3.0]) is None
    assert trend_test([5.0] * 50) is None
    assert trend_test(np.arange(30.0), ["a"] * 15 + ["b"] * 15) is None


def test_ranks_within_strata_are_centred() -> None:
    ranks = aligned_ranks([1, 2, 3, 10, 20, 30], ["a"] * 3 + ["b"] * 3)
    assert ranks[:3] == pytest.approx(ranks[3:])
    assert ranks.sum() == pytest.approx(0)
