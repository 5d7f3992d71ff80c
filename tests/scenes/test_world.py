"""The world keeps its promises: scenes without overlap, twins that differ in exactly one thing."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from heldout.scenes import ATTRIBUTES, Scene, random_scene, render, vary
from heldout.scenes.world import COLOURS, MAX_OBJECTS, MIN_OBJECTS, SHAPES


def scene(index: int) -> Scene:
    return random_scene(np.random.default_rng((5, index)))


def changes(old: Scene, new: Scene) -> list[str]:
    assert old.background == new.background
    return [
        name
        for one, other in zip(old.objects, new.objects, strict=True)
        for name in ATTRIBUTES
        if getattr(one, name) != getattr(other, name)
    ]


def assert_valid(drawn: Scene) -> None:
    for one, other in itertools.combinations(drawn.objects, 2):
        assert math.dist(one.position, other.position) > one.radius + other.radius
        assert (one.shape, one.colour) != (other.shape, other.colour)
    for item in drawn.objects:
        assert all(item.radius <= place <= 1 - item.radius for place in item.position)


def test_random_scenes_are_valid_and_use_the_whole_vocabulary() -> None:
    drawn = [scene(index) for index in range(200)]
    for one in drawn:
        assert_valid(one)
    assert {len(one.objects) for one in drawn} == set(range(MIN_OBJECTS, MAX_OBJECTS + 1))
    assert {item.shape for one in drawn for item in one.objects} == set(SHAPES)
    assert {item.colour for one in drawn for item in one.objects} == set(COLOURS)


def test_a_scene_follows_from_its_seed_alone() -> None:
    assert scene(1) == scene(1)
    assert scene(1) != scene(2)


def test_vary_changes_one_attribute_of_one_object_and_the_picture() -> None:
    seen = set()
    for index in range(60):
        old = scene(index)
        new = vary(old, np.random.default_rng((6, index)))
        (changed,) = changes(old, new)
        seen.add(changed)
        assert_valid(new)
        assert render(old, 112).tobytes() != render(new, 112).tobytes()
    assert seen == set(ATTRIBUTES)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_vary_changes_the_attribute_it_is_asked_for(attribute: str) -> None:
    old = scene(3)
    assert changes(old, vary(old, np.random.default_rng(0), attribute)) == [attribute]


def test_vary_refuses_an_attribute_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="'weight'"):
        vary(scene(3), np.random.default_rng(0), "weight")


def test_vary_refuses_a_size_there_is_no_room_for() -> None:
    small = replace(scene(3).objects[0], size="small", position=(0.1, 0.1))
    crowded = Scene(scene(3).background, (small,))
    with pytest.raises(ValueError, match="change its size"):
        vary(crowded, np.random.default_rng(0), "size")


def test_render_gives_the_same_pixels_for_the_same_scene_at_any_size() -> None:
    assert render(scene(1)).tobytes() == render(scene(1)).tobytes()
    assert render(scene(1)).size == (224, 224)
    assert render(scene(1), 131).size == (131, 131)
    assert render(scene(1)).tobytes() != render(scene(2)).tobytes()


@pytest.mark.parametrize("colour", COLOURS)
def test_an_object_shows_its_colour_where_it_is(colour: str) -> None:
    item = replace(
        scene(1).objects[0],
        shape="square",
        colour=colour,
        texture="plain",
        size="large",
        position=(0.3, 0.6),
    )
    pixels = np.asarray(render(Scene(scene(1).background, (item,))), dtype=np.float64)
    shown = pixels[int(0.6 * 224), int(0.3 * 224)]
    distances = {name: math.dist(shown, rgb) for name, rgb in COLOURS.items()}
    assert min(distances, key=lambda name: distances[name]) == colour
    assert pixels[int(0.2 * 224), int(0.8 * 224)].min() > 180  # the background is light


def test_edges_are_anti_aliased() -> None:
    item = replace(
        scene(1).objects[0], shape="circle", colour="black", texture="plain", position=(0.5, 0.5)
    )
    row = np.asarray(render(Scene(scene(1).background, (item,))).convert("L"))[112].astype(int)
    inside, outside = row.min(), row.max()
    between = ((row > inside + 30) & (row < outside - 60)).sum()
    assert between >= 2  # one pixel of in-between grey on either side
