"""The world: which objects there are, a random scene of them, and a scene with one thing changed.

A scene is plain data. Whatever is rendered, asked or captioned is computed from it, so the answer
to a question about a picture is known by construction, and so is the answer about its twin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

Colour = tuple[int, int, int]
Item = TypeVar("Item")

SHAPES = (
    "circle",
    "square",
    "triangle",
    "diamond",
    "hexagon",
    "star",
    "heart",
    "cross",
    "ring",
    "crescent",
)
COLOURS: dict[str, Colour] = {
    "red": (214, 64, 69),
    "orange": (242, 134, 48),
    "yellow": (246, 203, 62),
    "green": (82, 161, 99),
    "blue": (58, 120, 196),
    "purple": (131, 88, 184),
    "pink": (238, 136, 180),
    "black": (52, 55, 66),
}
#: half the width of the circle an object lies in, as a share of the picture's side
SIZES: dict[str, float] = {"small": 0.07, "medium": 0.1, "large": 0.14}
TEXTURES = ("plain", "striped", "dotted", "checkered")
BACKGROUNDS: dict[str, tuple[Colour, Colour]] = {  # from one end of the gradient to the other
    "cream": ((253, 248, 235), (242, 228, 203)),
    "sky": ((236, 246, 253), (200, 223, 241)),
    "mint": ((238, 250, 242), (203, 231, 215)),
    "lavender": ((246, 242, 252), (220, 211, 237)),
    "peach": ((255, 244, 236), (249, 219, 201)),
    "mist": ((247, 248, 249), (216, 221, 227)),
}
ATTRIBUTES = ("shape", "colour", "size", "texture", "position")
MIN_OBJECTS, MAX_OBJECTS = 3, 7

_GAP = 0.025  # between objects, and between an object and the frame
MOVE = 0.15  # a change of position shorter than this would be hard to see
SHIFT = 0.03  # how far objects lie from where they lie in the same view of another subject
_TRIES = 32


@dataclass(frozen=True, slots=True)
class Background:
    tone: str
    angle: float  # direction of the gradient
    grain: int  # seed of the soft blotches; two backgrounds of one tone are still two pictures


@dataclass(frozen=True, slots=True)
class SceneObject:
    shape: str
    colour: str
    size: str
    texture: str
    position: tuple[float, float]  # of the centre, as shares of width and height, from the top left

    @property
    def radius(self) -> float:
        return SIZES[self.size]


@dataclass(frozen=True, slots=True)
class Scene:
    """Objects that do not overlap; no two share both shape and colour, so each can be named."""

    background: Background
    objects: tuple[SceneObject, ...]


def random_scene(rng: np.random.Generator) -> Scene:
    """A scene of three to seven objects."""
    background = Background(
        tone=pick(rng, tuple(BACKGROUNDS)),
        angle=round(float(rng.uniform(0, 2 * math.pi)), 3),
        grain=int(rng.integers(2**31)),
    )
    while True:
        objects: list[SceneObject] = []
        for _ in range(int(rng.integers(MIN_OBJECTS, MAX_OBJECTS + 1))):
            if (placed := _new_object(rng, objects)) is not None:
                objects.append(placed)
        if len(objects) >= MIN_OBJECTS:
            return Scene(background, tuple(objects))


def vary(scene: Scene, rng: np.random.Generator, attribute: str | None = None) -> Scene:
    """The scene with exactly one attribute of one object changed: its twin.

    ``attribute`` is one of ATTRIBUTES, or None for any. A crowded scene may have no room for
    another size or position; that is a ValueError, and cannot happen with None.
    """
    wanted = ATTRIBUTES if attribute is None else (attribute,)
    for name in _shuffled(rng, wanted):
        for index in rng.permutation(len(scene.objects)):
            before, after = scene.objects[:index], scene.objects[index + 1 :]
            changed = _changed(scene.objects[index], name, before + after, rng)
            if changed is not None:
                return replace(scene, objects=(*before, changed, *after))
    raise ValueError(f"no object of this scene can change its {attribute}")


def rearranged(scene: Scene, rng: np.random.Generator) -> Scene:
    """The same objects in about the same places on other paper: the same view of another subject."""
    grain = int(rng.integers(2**31))
    objects = list(scene.objects)
    for index, item in enumerate(objects):
        others = [*objects[:index], *objects[index + 1 :]]
        for x, y in rng.normal(item.position, SHIFT, (_TRIES, 2)).round(3).tolist():
            far = math.dist((x, y), item.position) >= SHIFT / 2
            if far and fits((x, y), item.radius, others):
                objects[index] = replace(item, position=(x, y))
                break
    return Scene(replace(scene.background, grain=grain), tuple(objects))


def pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(len(items)))]


def _new_object(
    rng: np.random.Generator, others: Sequence[SceneObject], repeat: float = 0.3
) -> SceneObject | None:
    # Without repeated shapes, every count would be one.
    seen = [other.shape for other in others]
    shape = pick(rng, seen) if seen and rng.random() < repeat else pick(rng, SHAPES)
    colour = pick(rng, _free_colours(shape, others))
    size, texture = pick(rng, tuple(SIZES)), pick(rng, (*TEXTURES, "plain"))
    position = _free_position(rng, SIZES[size], others)
    return None if position is None else SceneObject(shape, colour, size, texture, position)


def _changed(
    old: SceneObject, attribute: str, others: Sequence[SceneObject], rng: np.random.Generator
) -> SceneObject | None:
    if attribute == "position":
        position = _free_position(rng, old.radius, others, away_from=old.position)
        return None if position is None else replace(old, position=position)
    if attribute == "size":
        fitting = [s for s in SIZES if s != old.size and fits(old.position, SIZES[s], others)]
        return replace(old, size=pick(rng, fitting)) if fitting else None
    if attribute == "texture":
        return replace(old, texture=pick(rng, [t for t in TEXTURES if t != old.texture]))
    if attribute == "colour":
        colours = [c for c in _free_colours(old.shape, others) if c != old.colour]
        return replace(old, colour=pick(rng, colours)) if colours else None
    if attribute == "shape":
        taken = {other.shape for other in others if other.colour == old.colour} | {old.shape}
        return replace(old, shape=pick(rng, [s for s in SHAPES if s not in taken]))
    raise ValueError(f"'{attribute}' is not an attribute of an object: {', '.join(ATTRIBUTES)}")


def _free_colours(shape: str, others: Sequence[SceneObject]) -> list[str]:
    taken = {other.colour for other in others if other.shape == shape}
    return [colour for colour in COLOURS if colour not in taken]


def _free_position(
    rng: np.random.Generator,
    radius: float,
    others: Sequence[SceneObject],
    away_from: tuple[float, float] | None = None,
) -> tuple[float, float] | None:
    low, high = radius + _GAP, 1 - radius - _GAP
    for x, y in rng.uniform(low, high, size=(_TRIES, 2)).round(3).tolist():
        if away_from is not None and math.dist((x, y), away_from) < MOVE:
            continue
        if fits((x, y), radius, others):
            return x, y
    return None


def fits(position: tuple[float, float], radius: float, others: Sequence[SceneObject]) -> bool:
    """Whether there is room: inside the frame, and away from the others."""
    # Rounding a position may cost half a thousandth of the gap.
    edge = radius + _GAP - 0.001
    inside = all(edge <= coordinate <= 1 - edge for coordinate in position)
    return inside and all(
        math.dist(position, other.position) >= radius + other.radius + _GAP for other in others
    )


def _shuffled(rng: np.random.Generator, items: Sequence[Item]) -> list[Item]:
    return [items[index] for index in rng.permutation(len(items))]


# Small changes of a scene: everything that is one or two attributes, or one object, away from it.
#
# Every scene given here is a valid one: objects keep their distance, and no two share shape and colour.


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
