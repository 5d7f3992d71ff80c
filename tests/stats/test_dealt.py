"""Marks that meet by chance: exact expectations, and false alarms where items come in clusters."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from heldout.stats.dealt import deal, equal_sizes, expected_meeting, meeting_test, smallest_p


def test_the_expectation_is_the_mean_over_all_exchanges() -> None:
    """Two clusters of two, one of one: by hand over every order of the four places."""
    clusters = ["a", "a", "b", "b", "c"]
    first, second = np.asarray([1, 0, 1, 1, 1.0]), np.asarray([1, 1, 0, 0, 1.0])
    every = []
    for left in permutations(first[:2]):
        for right in permutations(first[2:4]):
            for pair in ((*left, *right), (*right, *left)):
                every.append(np.dot([*pair, first[4]], second))
    assert expected_meeting(first, second, equal_sizes(clusters)) == pytest.approx(np.mean(every))
    met = meeting_test(first, second, clusters, permutations=999)
    assert met.observed == 2
    assert met.expected == pytest.approx(2.5)  # 3 · 2 / 4 in the pairs, 1 in the single one
    assert (met.low, met.high) == (min(every), max(every))


def test_the_smallest_p_is_that_of_the_most_extreme_count() -> None:
    """Ten single items: two marks of three and two items meet twice in 3 of 45 pairs of places."""
    classes = equal_sizes(list(range(10)))
    first, second = [1] * 3 + [0] * 7, [0, 1, 1] + [0] * 7
    assert smallest_p(first, second, classes) == pytest.approx(3 / 45)
    assert smallest_p([1] * 9 + [0], [1] * 9 + [0], classes) == pytest.approx(1 / 10)
    # Two classes are dealt apart: one single item beside four pairs cannot move.
    clusters = [0, 0, 1, 1, 2, 2, 3, 3, 4]
    marks = [1, 1, 0, 0, 0, 0, 0, 0, 1]
    assert smallest_p(marks, marks, equal_sizes(clusters)) == pytest.approx(1 / 28)


def test_a_cluster_of_its_own_size_changes_places_with_none() -> None:
    clusters = ["a"] * 2 + ["b"] * 3
    met = meeting_test([1, 1, 0, 0, 0], [1, 1, 0, 0, 0], clusters)
    assert met.test is None
    assert met.observed == met.expected == 2


def test_whole_clusters_are_dealt_and_items_within_them_only_if_asked() -> None:
    places = equal_sizes(["a", "b", "a", "b", "c"])
    assert sorted(one.shape for one in places) == [(1, 1), (2, 2)]
    marks = np.asarray([1.0, 3.0, 2.0, 4.0, 5.0])
    rng = np.random.default_rng(0)
    kept = {tuple(deal(places)(marks, rng)) for _ in range(50)}
    assert kept == {(1, 3, 2, 4, 5), (3, 1, 4, 2, 5)}
    assert len({tuple(deal(places, within=True)(marks, rng)) for _ in range(200)}) == 8


def _clustered(rng: np.random.Generator, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A mark that most items of a cluster share."""
    level = rng.normal(size=int(codes.max()) + 1)[codes] + 0.4 * rng.normal(size=len(codes))
    return np.asarray(level > 0.8)


def test_false_alarms_stay_at_the_level_where_marks_come_in_clusters() -> None:
    rounds, alarms, naive = 150, 0, 0
    for seed in range(rounds):
        rng = np.random.default_rng([seed, 5])
        codes = np.repeat(np.arange(60), rng.integers(1, 9, 60))
        first, second = _clustered(rng, codes), _clustered(rng, codes)
        met = meeting_test(first, second, codes.tolist(), permutations=199, seed=seed)
        alarms += met.test is not None and met.test.p <= 0.05
        table = [
            [(first & second).sum(), (first & ~second).sum()],
            [(~first & second).sum(), (~first & ~second).sum()],
        ]
        naive += stats.fisher_exact(table).pvalue <= 0.05
    most = stats.binom.ppf(0.995, rounds, 0.05)
    assert alarms <= most
    assert naive > most  # items taken for independent


def test_a_planted_meeting_is_found() -> None:
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(60), 5)
    first = _clustered(rng, codes)
    second = first & (rng.random(len(first)) < 0.5)
    met = meeting_test(first, second, codes.tolist(), permutations=999)
    assert met.test is not None
    assert met.test.p <= 0.01
    assert met.observed > met.high
