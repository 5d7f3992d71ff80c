"""Rules that look at no image: what they get right is a shortcut, and the card shows it."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.scenes import random_scene
from heldout.synth import LETTERS
from heldout.synth._from_scenes import scene_draft
from heldout.synth.shortcut import CHANCE, BlindItem, blind_rules


def measured(items: list[BlindItem]) -> dict[str, tuple[int, float]]:
    return {one["rule"]: (one["items"], one["right"]) for one in blind_rules(items)}


def test_each_rule_is_right_where_its_shortcut_is() -> None:
    words = ("a cyst", "an abscess", "a haematoma of the wall", "a tumour", "a stone")
    numbers = ("1 cm", "2 cm", "3 cm", "4 cm", "5 cm")
    items = [
        BlindItem("What lies in the wall?", words, "C", "a"),
        BlindItem("How wide is it?", numbers, "A", "b"),
        BlindItem("How wide is the duct?", numbers, "C", "c"),
    ]
    found = measured(items)
    # Four characters each: five options share the item.
    assert found["longest option"] == (3, pytest.approx((1 + 0.2 + 0.2) / 3))
    assert found["most words of the question"] == (1, 1.0)  # only "wall" is in an option
    assert found["smallest number"] == (2, 0.5)
    assert found["largest number"] == (2, 0.0)


def test_nothing_is_nothing() -> None:
    assert blind_rules([]) == []
    twice = [BlindItem("What?", ("a", "b", "c", "d", "ee"), "A", "one article")] * 2
    assert blind_rules(twice)[0]["interval"] is None  # no two articles to compare
    words = [BlindItem("What?", ("a", "b", "c", "d", "e"), "A", "x")]
    assert "smallest number" not in measured(words)


def test_rendered_items_have_no_such_shortcut() -> None:
    """The smallest count was right in two of three before kinds and answers were drawn evenly."""
    items = []
    for number in range(600):
        rng = np.random.default_rng((7, number))
        draft = scene_draft("x", random_scene(rng), rng)
        if draft is not None:
            assert len(set(draft.options)) == len(LETTERS)
            items.append(BlindItem(draft.question, draft.options, draft.answer, str(number)))
    found = {one["rule"]: one for one in blind_rules(items)}
    assert found["smallest number"]["right"] < 0.45
    assert found["largest number"]["right"] < 0.35
    assert all(one["right"] < CHANCE + 0.1 for rule, one in found.items() if "number" not in rule)
