"""A twin's scene has the new answer, differs in as little as possible, and asks the same question."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from test_questions import solve

from heldout.scenes import (
    ATTRIBUTES,
    NoTwinError,
    Scene,
    SceneQuestion,
    ask,
    random_scene,
    read_question,
    render,
    twin_scene,
)
from heldout.scenes.probes import ColourOf, CountOf, Phrase
from heldout.scenes.questions import facts
from heldout.scenes.render import _mask
from heldout.scenes.world import SceneObject, one_attribute


def items(seeds: int, scenes: int) -> list[tuple[Scene, SceneQuestion, str]]:
    """(scene, question, an answer that is wrong on it), as a benchmark of each seed has them."""
    found = []
    for seed, index in itertools.product(range(seeds), range(scenes)):
        rng = np.random.default_rng((seed, 1, index))
        scene = random_scene(rng)
        for question in ask(scene, rng, count=6):
            wrong = [c for c in question.options or question.probe.choices if c != question.answer]
            found.append((scene, question, wrong[int(rng.integers(len(wrong)))]))
    return found


ITEMS = items(seeds=3, scenes=18)


@pytest.fixture(scope="module")
def twins() -> list[tuple[Scene, SceneQuestion, str, Scene]]:
    made = []
    for scene, question, answer in ITEMS:
        try:
            made.append((scene, question, answer, twin_scene(scene, question.probe, answer)))
        except NoTwinError as error:
            assert error.reason == "no room for the change"
    return made


def attributes_changed(old: Scene, new: Scene) -> int:
    return sum(
        getattr(one, name) != getattr(other, name)
        for one, other in zip(old.objects, new.objects, strict=True)
        for name in ATTRIBUTES
    )


def untouched(old: Scene, new: Scene) -> list[SceneObject]:
    return [item for item in old.objects if item in new.objects]


def test_nearly_every_item_has_a_twin(twins: list[tuple[Scene, SceneQuestion, str, Scene]]) -> None:
    assert len(ITEMS) >= 300
    assert len(twins) >= 0.95 * len(ITEMS)


def test_the_answer_derived_from_the_words_anew_is_the_new_one(
    twins: list[tuple[Scene, SceneQuestion, str, Scene]],
) -> None:
    for _, question, answer, twin in twins:
        assert solve(twin, question.question) == answer, question.question


def test_twins_are_valid_scenes(twins: list[tuple[Scene, SceneQuestion, str, Scene]]) -> None:
    for old, _, _, twin in twins:
        assert twin.background == old.background
        for one, other in itertools.combinations(twin.objects, 2):
            assert math.dist(one.position, other.position) > one.radius + other.radius
            assert (one.shape, one.colour) != (other.shape, other.colour)
        for item in twin.objects:
            assert all(item.radius <= place <= 1 - item.radius for place in item.position)


def test_most_twins_are_one_change_away_and_none_but_counts_more_than_two(
    twins: list[tuple[Scene, SceneQuestion, str, Scene]],
) -> None:
    counts = Counter(
        attributes_changed(old, twin)
        for old, question, _, twin in twins
        if question.content_type != "count"
    )
    assert set(counts) == {1, 2}
    assert counts[1] > 0.8 * counts.total()


def test_pictures_differ_and_untouched_objects_keep_every_pixel(
    twins: list[tuple[Scene, SceneQuestion, str, Scene]],
) -> None:
    size = 224
    for old, _, _, twin in twins[::3]:
        before, after = np.asarray(render(old, size)), np.asarray(render(twin, size))
        assert before.tobytes() != after.tobytes()
        for item in untouched(old, twin):
            mask, (left, top) = _mask(item, size)
            inside = np.asarray(mask) == 255
            box = np.s_[top : top + mask.height, left : left + mask.width]
            assert (before[box][inside] == after[box][inside]).all()


def test_of_equally_near_scenes_the_one_that_keeps_most_facts_is_taken(
    twins: list[tuple[Scene, SceneQuestion, str, Scene]],
) -> None:
    def lost(old: Scene, new: Scene) -> int:
        return sum(probe.answer(new) != known for probe, known in facts(old))

    better = 0
    for old, question, answer, twin in twins[:80]:
        if question.content_type == "count" or attributes_changed(old, twin) > 1:
            continue
        others = [one for one in one_attribute(old) if question.probe.answer(one) == answer]
        assert all(lost(old, twin) <= lost(old, other) for other in others)
        better += any(lost(old, twin) < lost(old, other) for other in others)
    assert better > 5


def test_counts_go_up_and_down_to_any_number() -> None:
    scene = ITEMS[0][0]
    for answer in CountOf.choices:
        probe = CountOf(Phrase())
        if answer != probe.answer(scene):
            assert len(twin_scene(scene, probe, answer).objects) == int(answer)


def test_the_same_item_has_the_same_twin() -> None:
    for scene, question, answer in ITEMS[:12]:
        assert twin_scene(scene, question.probe, answer) == twin_scene(
            scene, question.probe, answer
        )


def test_what_has_no_twin_says_why() -> None:
    scene = ITEMS[0][0]
    first = scene.objects[0]
    reasons = {}
    for name, probe, answer in (
        ("no such answer", ColourOf(Phrase(first.shape, first.colour)), "beige"),
        ("the same answer", ColourOf(Phrase(first.shape, first.colour)), first.colour),
        ("the question has no answer", ColourOf(Phrase()), "red"),
    ):
        with pytest.raises(NoTwinError) as caught:
            twin_scene(scene, probe, answer)
        reasons[name] = caught.value.reason
    assert all(name == reason for name, reason in reasons.items())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What colour is the sky?",
        "Is the red red star red?",
        "How many star are there?",
        "Where is the star relative to the moon?",
        "Is the star beside the heart?",
    ],
)
def test_words_that_no_probe_says_are_not_read(text: str) -> None:
    assert read_question(text) is None


def test_every_question_is_read_back_as_its_probe() -> None:
    kinds = set()
    for _, question, _ in ITEMS:
        assert read_question(question.question) == question.probe
        kinds.add(type(question.probe).__name__)
    assert len(kinds) == 11
