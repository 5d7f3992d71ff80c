"""The released order with the place taken out: an interval that is never certain, and still covers."""

from __future__ import annotations

import numpy as np

from heldout.stats.paired import placed_test

PLACES = ("A", "B", "C", "D")


def _rows(items: int, outcomes: np.ndarray) -> tuple[list[float], list[bool], list[int], list[str]]:
    """Every item once as released and once reordered; which place is right moves from item to item."""
    right, released, known, places = [], [], [], []
    for item in range(items):
        for arm in (0, 1):
            right.append(float(outcomes[item, arm]))
            released.append(arm == 0)
            known.append(item)
            places.append(PLACES[(item + arm * (1 + item % 3)) % 4])
    return right, released, known, places


def test_answers_that_never_differ_are_no_certainty() -> None:
    rows = _rows(12, np.ones((12, 2)))
    found = placed_test(*rows, clusters=rows[2])
    assert found is not None
    assert found.value == 0.0
    assert found.interval.low < -0.1 and found.interval.high > 0.1
    assert found.error > 0.05


def test_the_interval_covers_a_gain_of_the_released_order() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        made = np.stack([rng.random(60) < 0.8, rng.random(60) < 0.6], 1)
        rows = _rows(60, made)
        found = placed_test(*rows, clusters=rows[2], permutations=19)
        assert found is not None
        covered += found.interval.low <= 0.2 <= found.interval.high
    assert 273 <= covered <= 297
