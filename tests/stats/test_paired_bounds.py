"""Bounds of a paired test from two accuracies and how often the choices differ, against enumeration."""

from __future__ import annotations

import itertools

import pytest

from heldout.stats.paired import mcnemar, paired_bounds


def test_bounds_hold_every_table_there_can_be() -> None:
    """All ways in which two models can answer 6 items: right, or one of two wrong options."""
    seen: dict[tuple[int, int, int], set[int]] = {}
    for answers in itertools.product(itertools.product(range(3), repeat=2), repeat=6):
        first, second = (sum(one[side] == 0 for one in answers) for side in (0, 1))
        differ = sum(a != b for a, b in answers)
        seen.setdefault((first, second, differ), set()).add(
            sum((a == 0) != (b == 0) for a, b in answers)
        )
    for (first, second, differ), discordant in seen.items():
        found = paired_bounds(6, first, second, differ)
        assert (found.least, found.most) == (min(discordant), max(discordant)), (
            first,
            second,
            differ,
        )


def test_the_two_llava_models() -> None:
    found = paired_bounds(4241, 3863, 3855, 357)
    assert (found.least, found.most, found.clear_below) == (8, 356, 14)
    assert found.p_least == mcnemar(8, 0).exact
    assert found.p_most == pytest.approx(mcnemar(182, 174).exact)
    assert mcnemar(11, 3).exact > 0.05 > mcnemar(10, 2).exact


def test_counts_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="expected counts"):
        paired_bounds(10, 9, 2, 3)
