"""Accuracy by variant, and vanilla beside circular, on items that share pictures."""

from __future__ import annotations

from typing import Any

import pytest

from heldout.model.asking.summary import summarise


def row(item: str, variant: str, outcome: str, options: int = 3) -> dict[str, Any]:
    return {
        "benchmark_id": item,
        "variant": variant,
        "draw": 0,
        "outcome": outcome,
        "options": ["o"] * options,
    }


def test_circular_needs_every_rotation_right_and_vanilla_is_of_the_same_items() -> None:
    rows = [
        row("a", "original", "right"),
        row("a", "rotation-1", "right"),
        row("a", "rotation-2", "right"),
        row("b", "original", "right"),
        row("b", "rotation-1", "unparsed"),
        row("b", "rotation-2", "right"),
        row("c", "original", "refused"),
        row("c", "rotation-1", "wrong"),
        row("c", "rotation-2", "right"),
        row("d", "original", "right"),
        row("d", "rotation-1", "right"),  # one rotation is missing
        row("e", "original", "right", options=0),
    ]
    found = summarise(rows, {"a": "x", "b": "x", "c": "y", "d": "y"})
    assert found.vanilla is not None and found.circular is not None
    assert (found.vanilla.right, found.circular.right, found.vanilla.n) == (2, 1, 3)
    assert found.vanilla.clusters == 2
    assert found.without_rotations == 2
    first = found.variants[0]
    assert (first.name, first.n, first.right) == ("original", 5, 4)
    assert first.outcomes == {"right": 4, "wrong": 0, "unparsed": 0, "refused": 1}
    assert found.as_json()["variants"][0]["rate"] == pytest.approx(0.8)


def test_items_on_one_picture_widen_the_interval() -> None:
    rows = [row(f"{n}", "original", "right" if n % 200 < 100 else "wrong") for n in range(400)]
    apart = summarise(rows, {}).variants[0].interval
    together = summarise(rows, {f"{n}": f"{n // 50}" for n in range(400)}).variants[0].interval
    assert together.high - together.low > 3 * (apart.high - apart.low)


def test_variants_stand_in_an_order_people_expect() -> None:
    names = ["twin", "rotation-10", "rotation-9", "no-image", "original"]
    found = summarise([row("a", name, "right") for name in names], {})
    assert [one.name for one in found.variants] == [
        "original",
        "no-image",
        "rotation-9",
        "rotation-10",
        "twin",
    ]


def test_without_rotations_there_is_no_circular_accuracy() -> None:
    found = summarise([row("a", "original", "right")], {})
    assert found.circular is None and found.vanilla is None and found.without_rotations == 1
