from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heldout.stats.contrast import cluster_contrast, cluster_mean
from heldout.stats.dealt import area, group_test
from heldout.stats.grouping import tie_runs


def _cell(
    seed: int, gap: float = 0.0, first: int = 19, second: int = 77
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Unequal clusters, a fifth of them in the first group, as with flagged images."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 20, first + second)
    chosen = np.repeat(np.arange(first + second) < first, sizes)
    level = np.repeat(rng.normal(scale=0.6, size=first + second), sizes)
    values = level + rng.exponential(size=sizes.sum()) + gap * chosen
    return values, chosen, [str(k) for k in np.repeat(np.arange(first + second), sizes)]


def test_contrast_is_the_difference_of_plain_means() -> None:
    values, chosen, names = _cell(0)
    found = cluster_contrast(values, chosen, names)
    assert found is not None
    assert found.value == pytest.approx(values[chosen].mean() - values[~chosen].mean())
    assert found.clusters == (19, 77)
    assert found.n == (int(chosen.sum()), int((~chosen).sum()))


@pytest.mark.parametrize(("first", "second"), [(8, 30), (19, 77)])
def test_bootstrap_interval_covers_and_p_is_calibrated(first: int, second: int) -> None:
    rounds, covered, rejected = 250, 0, 0
    for seed in range(rounds):
        values, chosen, names = _cell(seed, first=first, second=second)
        found = cluster_contrast(values, chosen, names, draws=499, seed=seed)
        assert found is not None
        covered += found.interval.low <= 0.0 <= found.interval.high
        rejected += found.p <= 0.05
    assert covered >= stats.binom.ppf(0.005, rounds, 0.93)
    assert rejected <= stats.binom.ppf(0.995, rounds, 0.05)


def test_clusters_in_both_groups_are_counted_once() -> None:
    """Both groups inside every image: what the images share cancels, and the interval knows."""
    rng = np.random.default_rng(3)
    names = [str(i // 10) for i in range(400)]
    level = np.repeat(rng.normal(scale=5.0, size=40), 10)
    chosen = np.arange(400) % 2 == 0
    found = cluster_contrast(level + 0.1 * rng.normal(size=400), chosen, names)
    assert found is not None
    assert found.error < 0.05
    assert found.interval.high - found.interval.low < 0.1


def test_interval_covers_where_clusters_hold_items_of_both_groups() -> None:
    rounds, covered = 200, 0
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(30), rng.integers(3, 12, 30))
        chosen = rng.random(len(codes)) < 0.4
        values = rng.normal(scale=3.0, size=30)[codes] + rng.normal(size=len(codes))
        found = cluster_contrast(values, chosen, [str(c) for c in codes], draws=399, seed=seed)
        assert found is not None
        covered += found.interval.low <= 0.0 <= found.interval.high
    assert stats.binom.ppf(0.005, rounds, 0.93) <= covered


def test_contrast_with_too_few_clusters_says_nothing() -> None:
    values, chosen, names = _cell(1, first=3, second=30)
    assert cluster_contrast(values, chosen, names) is None


def test_cluster_mean_is_wider_than_a_mean_over_items() -> None:
    values, _, names = _cell(2)
    mean, error, interval = cluster_mean(values, names)
    assert mean == pytest.approx(values.mean())
    assert error > 2 * values.std() / np.sqrt(len(values))
    assert interval.low < mean < interval.high


def test_group_test_is_calibrated_with_clusters_and_has_power() -> None:
    rounds, rejected, found_gap = 200, 0, 0
    for seed in range(rounds):
        for gap in (0.0, 1.2):
            values, chosen, names = _cell(seed, gap, 15, 20)
            found = group_test(values, chosen, names, permutations=1000, seed=seed)
            assert found is not None
            if gap:
                found_gap += found.test.p <= 0.05 and found.auc > 0.5
            else:
                rejected += found.test.p <= 0.05
    low, high = stats.binom.interval(0.99, rounds, 0.05)
    assert low <= rejected <= high
    assert found_gap > 0.9 * rounds


def test_group_test_compares_inside_clusters_that_hold_both() -> None:
    rng = np.random.default_rng(4)
    names = [str(i // 4) for i in range(200)]
    chosen = np.arange(200) % 4 == 0
    values = np.repeat(rng.normal(scale=9.0, size=50), 4) + rng.normal(size=200) + 1.0 * chosen
    found = group_test(values, chosen, names)
    assert found is not None
    assert found.unit == "differences inside clusters"
    assert found.test.p < 0.01


def test_area_under_the_curve() -> None:
    assert area([3, 4, 1, 2], [True, True, False, False]) == 1.0
    assert area([1, 1], [True, False]) == 0.5
    values = np.random.default_rng(0).normal(size=60)
    chosen = np.arange(60) < 25
    u = stats.mannwhitneyu(values[chosen], values[~chosen]).statistic
    assert area(values, chosen) == pytest.approx(u / (25 * 35))


def test_tie_runs_count_neighbours_whose_question_differs() -> None:
    found = tie_runs([1.0, 1.0, 1.0, 2.0, 2.0, 3.0], ["a", "b", "c", "d", "d", "e"])
    assert (found.pairs, found.tied, found.longest, found.first) == (4, 2, 3, 0)
    assert found.rate == 0.5
    assert tie_runs([1.0]).tied == 0
