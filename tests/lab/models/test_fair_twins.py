"""Fair twins: what is in sight helps as much as on the original; uneven answers change both ways."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from heldout.lab.models.releases import Twin, balanced, draw_twin
from heldout.lab.models.worlds import RELEASED, SCENES, TWINS


def _twin(
    number: int, old: str, new: str, kind: str = "count", options: tuple[str, ...] = ()
) -> Twin:
    asked = SimpleNamespace(answer=old, content_type=kind, options=options)
    return Twin(f"{number:04d}", None, asked, new)


@pytest.mark.parametrize("index", range(6))
def test_a_twin_shows_as_many_of_its_shapes_as_the_original(index: int) -> None:
    scene = SCENES.draw(SCENES.rng(5, RELEASED, index))
    asked = SCENES.ask(scene, SCENES.rng(5, RELEASED, 100 + index), 12)
    compared = 0
    for number, one in enumerate(asked):
        found = draw_twin(SCENES, scene, one, SCENES.rng(5, TWINS, 100 * index + number))
        if found is None:
            continue
        twin, answer = found
        assert answer == one.probe.answer(twin) != one.answer
        if one.content_type in ("shape", "position") and one.options:
            before, after = ({item.shape for item in each.objects} for each in (scene, twin))
            assert len(before & set(one.options)) == len(after & set(one.options))
        if one.content_type in ("shape", "position"):
            old = [item.shape for item in scene.objects].count(one.answer)
            assert old == [item.shape for item in twin.objects].count(answer)
        if one.content_type == "existence" and answer == "no":
            words = one.question.split()
            assert any(item.shape in words for item in twin.objects)
            assert any(item.colour in words for item in twin.objects)
        compared += 1
    assert compared >= 3


def test_counts_change_as_often_up_as_down() -> None:
    twins = [_twin(n, "1", "2") for n in range(7)] + [_twin(n, "2", "1") for n in range(7, 10)]
    kept = balanced(twins)
    assert Counter(twin.asked.answer for twin in kept) == {"1": 3, "2": 3}
    assert [twin.id for twin in kept] == sorted(twin.id for twin in kept)


def test_yes_and_no_are_balanced_within_their_kind_of_question() -> None:
    twins = [
        _twin(0, "yes", "no", "existence"),
        _twin(1, "no", "yes", "existence"),
        _twin(2, "yes", "no", "size"),
    ]
    assert [twin.id for twin in balanced(twins)] == ["0000", "0001"]


def test_answers_may_change_in_a_ring() -> None:
    ring = [
        _twin(0, "plain", "dotted"),
        _twin(1, "dotted", "striped"),
        _twin(2, "striped", "plain"),
    ]
    assert balanced([*ring, _twin(3, "plain", "striped")]) == ring


def test_many_answers_are_as_likely_as_each_other() -> None:
    colours = ["red", "blue", "green", "pink", "black", "orange", "purple", "yellow"]
    twins = [_twin(n, colours[0], new, "colour") for n, new in enumerate(colours[1:])]
    assert balanced(twins) == twins


def test_options_are_a_kind_of_their_own() -> None:
    twins = [_twin(0, "1", "2"), _twin(1, "2", "1", options=("1", "2"))]
    assert balanced(twins) == []
