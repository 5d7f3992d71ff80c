"""Which rows go through the model together."""

from __future__ import annotations

import pytest

from heldout.model.local._forward import MOST_SCORED, batches, common_prefix
from heldout.model.local.layout import Row


def row(length: int, scored: int = 1, *, start: int = 0) -> Row:
    places = tuple(range(length - scored, length))
    return Row(tuple(range(start, start + length)), places, ("x",) * scored, True)


@pytest.mark.parametrize("budget", [1, 20, 50, 10_000])
def test_every_row_is_in_one_batch_within_the_budget(budget: int) -> None:
    rows = [(number, row(2 + number * 7 % 19)) for number in range(40)]
    given = list(batches(rows, budget))
    assert sorted(number for batch in given for number, _ in batch) == list(range(40))
    for batch in given:
        longest = max(one.length for _, one in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
        assert longest == batch[0][1].length
    assert len(given) == {1: 40, 10_000: 1}.get(budget, len(given))


def test_documents_with_many_scored_places_are_parted() -> None:
    rows = [(number, row(MOST_SCORED // 2 + 2, MOST_SCORED // 2)) for number in range(5)]
    assert [len(batch) for batch in batches(rows, 10**9)] == [2, 2, 1]


def test_the_prefix_leaves_the_place_that_predicts_the_first_scored_token() -> None:
    assert common_prefix([row(9), row(9)]) == 7
    assert common_prefix([row(9), row(9, 4)]) == 4
    one, other = Row((1, 2, 3, 4, 9), (4,), ("x",), True), Row((1, 2, 5, 6), (3,), ("x",), True)
    assert common_prefix([one, other, one]) == 2
    assert common_prefix([row(9), row(9, start=1)]) == 0
