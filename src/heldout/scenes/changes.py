"""Small changes of a scene: everything that is one or two attributes, or one object, away from it.

Every scene given here is a valid one: objects keep their distance, and no two share shape and colour.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from heldout.scenes.world import (
    COLOURS,
    MAX_OBJECTS,
    MOVE,
    SHAPES,
    SIZES,
    TEXTURES,
    Scene,
    SceneObject,
    fits,
)

_VALUES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": tuple(COLOURS),
    "size": tuple(SIZES),
    "texture": TEXTURES,
}
_GRID = tuple(round(0.08 + 0.06 * step, 3) for step in range(15))  # where an object may move to


def one_attribute(scene: Scene) -> Iterator[Scene]:
    """Every scene in which one attribute of one object differs, other than its position."""
    for index, item in enumerate(scene.objects):
        others = _others(scene, index)
        for attribute in _VALUES:
            for changed in _valued(item, (attribute,), others):
                yield _with(scene, {index: changed})


def one_move(scene: Scene) -> Iterator[Scene]:
    """Scenes in which one object lies elsewhere, far enough to be seen."""
    for index, item in enumerate(scene.objects):
        for position in _places(item.radius, _others(scene, index), away_from=item.position):
            yield _with(scene, {index: replace(item, position=position)})


def two_changes(scene: Scene) -> Iterator[Scene]:
    """Two attributes of one object, the sizes of two objects, or two objects that change places."""
    for index, item in enumerate(scene.objects):
        others = _others(scene, index)
        for pair in itertools.combinations(_VALUES, 2):
            for changed in _valued(item, pair, others):
                yield _with(scene, {index: changed})
        for size in SIZES:
            for position in _places(SIZES[size], others, away_from=item.position):
                if size != item.size:
                    yield _with(scene, {index: replace(item, size=size, position=position)})
    for (first, scene_object), (second, other) in itertools.combinations(
        enumerate(scene.objects), 2
    ):
        for sizes in itertools.product(SIZES, repeat=2):
            if sizes[0] != scene_object.size and sizes[1] != other.size:
                resized = {
                    first: replace(scene_object, size=sizes[0]),
                    second: replace(other, size=sizes[1]),
                }
                yield from _valid(_with(scene, resized))
        exchanged = {
            first: replace(scene_object, position=other.position),
            second: replace(other, position=scene_object.position),
        }
        yield from _valid(_with(scene, exchanged))


def one_object(scene: Scene) -> Iterator[Scene]:
    """Every scene with one object less, and scenes with one more wherever there is room."""
    if len(scene.objects) > 1:
        for index in range(len(scene.objects)):
            yield replace(scene, objects=_others(scene, index))
    if len(scene.objects) >= MAX_OBJECTS:
        return
    taken = {(item.shape, item.colour) for item in scene.objects}
    for size in ("medium", "small"):
        position = next(_places(SIZES[size], scene.objects), None)
        if position is None:
            continue
        for shape, colour in itertools.product(SHAPES, COLOURS):
            if (shape, colour) not in taken:
                added = SceneObject(shape, colour, size, "plain", position)
                yield replace(scene, objects=(*scene.objects, added))
        return


def _valued(
    item: SceneObject, names: Sequence[str], others: Sequence[SceneObject]
) -> Iterator[SceneObject]:
    """The object with another value of every attribute named."""
    taken = {(other.shape, other.colour) for other in others}
    for values in itertools.product(*(_VALUES[name] for name in names)):
        if any(getattr(item, name) == value for name, value in zip(names, values, strict=True)):
            continue
        other_values: dict[str, Any] = dict(zip(names, values, strict=True))
        changed = replace(item, **other_values)
        if (changed.shape, changed.colour) in taken:
            continue
        if "size" in names and not fits(item.position, changed.radius, others):
            continue
        yield changed


def _places(
    radius: float, others: Sequence[SceneObject], away_from: tuple[float, float] | None = None
) -> Iterator[tuple[float, float]]:
    for place in itertools.product(_GRID, repeat=2):
        position = (place[0], place[1])
        if away_from is not None and math.dist(position, away_from) < MOVE:
            continue
        if fits(position, radius, others):
            yield position


def _valid(scene: Scene) -> Iterator[Scene]:
    for index, item in enumerate(scene.objects):
        if not fits(item.position, item.radius, _others(scene, index)):
            return
    yield scene


def _others(scene: Scene, index: int) -> tuple[SceneObject, ...]:
    return scene.objects[:index] + scene.objects[index + 1 :]


def _with(scene: Scene, changed: dict[int, SceneObject]) -> Scene:
    objects = (changed.get(index, item) for index, item in enumerate(scene.objects))
    return replace(scene, objects=tuple(objects))
