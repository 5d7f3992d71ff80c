"""Agreement of verifier and people: known values, clusters that widen, and what has no kappa."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.twin.filtering import agreement


def spread(cells: tuple[int, int, int, int]) -> tuple[list[bool], list[bool]]:
    pairs = [(True, True), (True, False), (False, True), (False, False)]
    listed = [pair for pair, count in zip(pairs, cells, strict=True) for _ in range(count)]
    return [one for one, _ in listed], [other for _, other in listed]


def test_kappa_of_a_textbook_table() -> None:
    """20 of 50 both, 15 neither, 5 and 10 apart: agreement 0.7, by chance 0.5, kappa 0.4."""
    first, second = spread((20, 5, 10, 15))
    found = agreement(first, second, [str(n) for n in range(50)])
    assert found is not None and found.kappa is not None and found.kappa_interval is not None
    assert (found.both_keep, found.only_verifier_keeps, found.only_people_keep) == (20, 5, 10)
    assert found.raw == pytest.approx(0.7) and found.kappa == pytest.approx(0.4)
    # Cohen's large-sample standard error is 0.13.
    assert found.kappa_interval.low == pytest.approx(0.4 - 0.26, abs=0.05)
    assert found.kappa_interval.high == pytest.approx(0.4 + 0.26, abs=0.05)


def test_items_of_one_picture_count_once() -> None:
    first, second = spread((20, 5, 10, 15))
    order = np.random.default_rng(0).permutation(50)
    first, second = [first[n] for n in order], [second[n] for n in order]
    alone = agreement(first, second, [str(n) for n in range(50)])
    copied = agreement(first * 4, second * 4, [str(n) for n in range(50)] * 4)
    assert alone is not None and copied is not None
    assert copied.n == 200 and copied.clusters == 50
    assert copied.kappa_interval == alone.kappa_interval


def test_one_who_says_the_same_of_everything_has_no_kappa() -> None:
    found = agreement([True] * 8, [True] * 8, list("abcdefgh"))
    assert found is not None and found.raw == 1.0
    assert found.kappa is None and found.kappa_interval is None
    assert agreement([], [], []) is None
