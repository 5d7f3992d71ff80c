"""Paired tests: against exact sums and SciPy, with the level and coverage they promise."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy import stats

from heldout.stats.intervals import binomial_band
from heldout.stats.paired import (
    BY_CLUSTER,
    McNEMAR,
    mcnemar,
    mcnemar_power,
    paired_table,
    paired_test,
    pairs_needed,
    placed_test,
)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 3), (1, 9), (80, 0), (12, 31)])
def test_mcnemar_is_the_exact_binomial_test(first: int, second: int) -> None:
    found = mcnemar(first, second)
    total, fewer = first + second, min(first, second)
    if total:
        assert found.exact == pytest.approx(stats.binomtest(first, total).pvalue)
        here = comb(total, fewer) / 2**total
        assert found.mid == pytest.approx(min(1.0, found.exact - (first != second) * here))
    else:
        assert found == (1.0, 1.0, 1.0)
    assert found.mid <= found.exact


def test_the_table_counts_every_pair_once_and_refuses_averages() -> None:
    found = paired_table([1, 1, 0, 0, 1], [1, 0, 1, 0, 0])
    assert found == (1, 2, 1, 1)
    assert paired_table([0.5, 1], [1, 1]) is None


def test_one_image_per_item_is_mcnemar_and_shared_images_are_not() -> None:
    values = np.array([1] * 20 + [0] * 30 + [-1] * 3)
    alone = paired_test(values, range(53))
    assert (alone.method, alone.p) == (McNEMAR, mcnemar(20, 3).exact)
    shared = paired_test(values, np.arange(53) // 10)
    assert shared.method == BY_CLUSTER
    assert shared.p > 0.05 > alone.p
    assert shared.design_effect > 2
    assert shared.value == alone.value == pytest.approx(17 / 53)


def test_no_discordant_pair_is_not_certainty() -> None:
    found = paired_test(np.zeros(40), range(40))
    assert found.p == 1.0
    assert found.interval.low < -0.02
    assert found.interval.high > 0.02


def _clustered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Differences that lean to one side together within an image, to neither on average."""
    codes = np.repeat(np.arange(40), rng.integers(1, 9, 40))
    lean = np.clip(0.2 * rng.normal(size=40), -0.3, 0.3)[codes]
    first, second = (rng.random(len(codes)) < 0.5 + side * lean for side in (1, -1))
    return first.astype(float) - second, codes


def test_clustered_pairs_keep_level_and_coverage() -> None:
    rng, cells = np.random.default_rng(4), 300
    alarms = covered = naive = 0
    for cell in range(cells):
        values, codes = _clustered(rng)
        found = paired_test(values, codes, permutations=999, seed=cell)
        alarms += found.p <= 0.05
        covered += found.interval.low <= 0.0 <= found.interval.high
        naive += mcnemar(int((values > 0).sum()), int((values < 0).sum())).exact <= 0.05
    low, high = binomial_band(cells, 0.05)
    assert low <= alarms <= high
    assert cells - covered <= high
    assert naive > high  # what forgetting the images would have given


def test_power_formula_and_exact_power_agree() -> None:
    pairs = pairs_needed(0.1, 0.3)
    assert 0.76 <= mcnemar_power(pairs, 0.2, 0.1) <= 0.84
    assert pairs_needed(0.05, 0.3) > pairs > pairs_needed(0.2, 0.3)
    assert pairs_needed(0.1, 0.3, design_effect=2.0) == pytest.approx(2 * pairs, abs=1)
    assert mcnemar_power(200, 0.15, 0.15) <= 0.05
    with pytest.raises(ValueError, match="above 0"):
        pairs_needed(0.0, 0.3)


def _placed(
    rng: np.random.Generator, memory: float
) -> tuple[list[float], list[bool], list[int], list[int]]:
    """Four options in every rotation; the model likes the first, where the release puts the answer."""
    rows: tuple[list[float], list[bool], list[int], list[int]] = ([], [], [], [])
    for item in range(80):
        gold = int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))
        ease = 0.2 + 0.5 * rng.random()
        for turn in range(4):
            place = (gold + turn) % 4
            chance = ease + (0.25 if place == 0 else 0.0) + (memory if turn == 0 else 0.0)
            rows[0].append(float(rng.random() < chance))
            rows[1].append(turn == 0)
            rows[2].append(item)
            rows[3].append(place)
    return rows


def test_a_favourite_place_is_not_memory() -> None:
    rng, cells = np.random.default_rng(9), 200
    alarms = naive = seen = 0
    for cell in range(cells):
        y, released, items, places = _placed(rng, 0.0)
        found = placed_test(y, released, items, places, items, permutations=999, seed=cell)
        assert found is not None
        alarms += found.p <= 0.05
        table = np.asarray(y).reshape(80, 4)
        naive += (
            paired_test(table[:, 0] - table[:, 1:].mean(1), range(80), permutations=999).p <= 0.05
        )
        more = placed_test(*_placed(rng, 0.2)[:4], items, permutations=999, seed=cell)
        assert more is not None
        seen += more.p <= 0.05 and more.value > 0
    low, high = binomial_band(cells, 0.05)
    assert low <= alarms <= high
    assert naive > 2 * high
    assert seen > 0.6 * cells


def test_place_and_release_that_always_go_together_cannot_be_told_apart() -> None:
    y, released = [1.0, 0.0] * 20, [True, False] * 20
    items = np.repeat(np.arange(20), 2).tolist()
    assert placed_test(y, released, items, [0, 1] * 20, items) is None


def test_small_differences_are_not_drowned_by_imagined_clusters() -> None:
    """Of probabilities: the interval and the test agree, and 95 % of intervals hold the truth."""
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(40), 4).tolist()
    covered = 0
    for _ in range(200):
        values = 0.03 + np.repeat(rng.normal(0, 0.03, 40), 4) + rng.normal(0, 0.02, 160)
        test = paired_test(values, clusters, permutations=99, shares=False)
        covered += test.interval.low <= 0.03 <= test.interval.high
        assert test.error < 0.01 < paired_test(values, clusters, permutations=99).error
    assert 0.91 <= covered / 200 <= 1.0
    placed = placed_test(
        np.concatenate([values + 0.5, np.full(160, 0.5)]),
        [True] * 160 + [False] * 160,
        [*range(160), *range(160)],
        ["A"] * 320,
        clusters * 2,
        shares=False,
    )
    assert placed is not None and placed.error < 0.01
