"""Jonckheere–Terpstra: known statistics, exact p by hand, level within blocks."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.stats.intervals import binomial_band
from heldout.stats.permutation import jonckheere_blocks


def test_blocks_of_few_arrangements_are_counted_out() -> None:
    found = jonckheere_blocks([[0, 1, 2]] * 4, [0, 1, 3], range(4))
    assert found is not None
    assert found.exact
    assert found.p == pytest.approx(2 / 6**4)
    same = jonckheere_blocks([[0, 1, 2]] * 4, [0, 1, 3], [0] * 4)
    assert same is not None
    assert same.p == pytest.approx(2 / 6)  # one image, however many questions


def test_nothing_differs_nothing_is_said() -> None:
    assert jonckheere_blocks([[1, 1]] * 4, [0, 1], range(4)) is None
    assert jonckheere_blocks([[1, 2]] * 4, [1, 1], range(4)) is None


def test_level_within_clusters_and_power() -> None:
    rng, cells = np.random.default_rng(0), 200
    alarms = seen = 0
    for cell in range(cells):
        codes = np.repeat(np.arange(30), rng.integers(1, 6, 30))
        shared = rng.normal(size=(30, 3))[codes]  # images that suit one model
        values = np.sign(shared + rng.normal(size=(len(codes), 3)))
        found = jonckheere_blocks(values, [0, 1, 3], codes, permutations=499, seed=cell)
        assert found is not None
        alarms += found.p <= 0.05
        more = jonckheere_blocks(
            values + 1.1 * np.arange(3), [0, 1, 3], codes, permutations=499, seed=cell
        )
        assert more is not None
        seen += more.p <= 0.05 and more.concordance > 0
    low, high = binomial_band(cells, 0.05)
    assert low <= alarms <= high
    assert seen > 0.9 * cells
