"""Probes: one thing to ask about a scene, with the answer computed from the scene.

A probe answers None where a person could not answer with certainty: two objects fit the words, or
a relation is not clear cut. Only probes with an answer become questions, so no question is
ambiguous; and the same probe put to a varied scene gives the answer that the twin needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from heldout.scenes.world import COLOURS, MAX_OBJECTS, SHAPES, TEXTURES, Scene, SceneObject

YES_NO = ("yes", "no")
RELATIONS = {  # as an answer, and as it is said between two objects
    "to its left": "to the left of",
    "to its right": "to the right of",
    "above it": "above",
    "below it": "below",
}
EDGES = {"left": (0, 1), "right": (0, -1), "top": (1, 1), "bottom": (1, -1)}  # axis, sign

_CLEAR_CUT = 1.7  # one direction must outweigh the other by this factor
_CLEAR_LEAD = 0.04  # by how much the outermost object must lie further out


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that pick out objects: 'red star', 'star', 'red object', 'object'."""

    shape: str | None = None
    colour: str | None = None

    def matches(self, scene: Scene) -> list[SceneObject]:
        return [
            item
            for item in scene.objects
            if self.shape in (None, item.shape) and self.colour in (None, item.colour)
        ]

    def only(self, scene: Scene) -> SceneObject | None:
        scene_objects = self.matches(scene)
        return scene_objects[0] if len(scene_objects) == 1 else None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.colour, self.shape or "object")))

    @property
    def plural(self) -> str:
        ending = "es" if self.shape == "cross" else "s"
        return f"{self}{ending}"


class SceneProbe(Protocol):
    content_type: ClassVar[str]
    choices: ClassVar[tuple[str, ...]]  # every answer it could have
    open_ended: ClassVar[bool]  # whether it makes sense without options

    @property
    def subject(self) -> str:
        """What it is about; probes of one content type and subject ask for the same fact."""
        ...

    @property
    def text(self) -> str: ...

    def answer(self, scene: Scene) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _AboutOne:
    phrase: Phrase

    @property
    def subject(self) -> str:
        return str(self.phrase)


@dataclass(frozen=True, slots=True)
class _AboutTwo:
    phrase: Phrase
    other: Phrase

    @property
    def subject(self) -> str:
        return " and ".join(sorted((str(self.phrase), str(self.other))))


@dataclass(frozen=True, slots=True)
class ColourOf(_AboutOne):
    content_type: ClassVar[str] = "colour"
    open_ended: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = tuple(COLOURS)

    @property
    def text(self) -> str:
        return f"What colour is the {self.phrase}?"

    def answer(self, scene: Scene) -> str | None:
        item = self.phrase.only(scene)
        return item.colour if item else None


@dataclass(frozen=True, slots=True)
class ShapeOf(_AboutOne):
    content_type: ClassVar[str] = "shape"
    open_ended: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = SHAPES

    @property
    def text(self) -> str:
        return f"What is the shape of the {self.phrase}?"

    def answer(self, scene: Scene) -> str | None:
        item = self.phrase.only(scene)
        return item.shape if item else None


@dataclass(frozen=True, slots=True)
class TextureOf(_AboutOne):
    content_type: ClassVar[str] = "texture"
    open_ended: ClassVar[bool] = False  # "plain", "solid", "none": many words are right
    choices: ClassVar[tuple[str, ...]] = TEXTURES

    @property
    def text(self) -> str:
        return f"Which texture does the {self.phrase} have?"

    def answer(self, scene: Scene) -> str | None:
        item = self.phrase.only(scene)
        return item.texture if item else None


@dataclass(frozen=True, slots=True)
class CountOf(_AboutOne):
    content_type: ClassVar[str] = "count"
    open_ended: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = tuple(str(n) for n in range(1, MAX_OBJECTS + 1))

    @property
    def text(self) -> str:
        return f"How many {self.phrase.plural} are there?"

    def answer(self, scene: Scene) -> str | None:
        count = len(self.phrase.matches(scene))
        return str(count) if count else None  # none at all is what IsThere asks


@dataclass(frozen=True, slots=True)
class Outermost:
    edge: str
    content_type: ClassVar[str] = "position"
    open_ended: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = SHAPES

    @property
    def subject(self) -> str:
        return self.edge

    @property
    def text(self) -> str:
        return f"Which shape is closest to the {self.edge} edge of the picture?"

    def answer(self, scene: Scene) -> str | None:
        """Leads by its centre and by its rim: a person may look at either."""
        if len(scene.objects) == 1:
            return scene.objects[0].shape
        axis, sign = EDGES[self.edge]
        leaders = set()
        for rim in (0.0, 1.0):
            places = [sign * item.position[axis] - rim * item.radius for item in scene.objects]
            first, second = sorted(range(len(places)), key=places.__getitem__)[:2]
            if places[second] - places[first] < _CLEAR_LEAD:
                return None
            leaders.add(first)
        return scene.objects[leaders.pop()].shape if len(leaders) == 1 else None


@dataclass(frozen=True, slots=True)
class Largest:
    content_type: ClassVar[str] = "size"
    open_ended: ClassVar[bool] = True
    choices: ClassVar[tuple[str, ...]] = SHAPES

    @property
    def subject(self) -> str:
        return "all"

    @property
    def text(self) -> str:
        return "Which shape is the largest object?"

    def answer(self, scene: Scene) -> str | None:
        radius = max(item.radius for item in scene.objects)
        largest = [item for item in scene.objects if item.radius == radius]
        return largest[0].shape if len(largest) == 1 else None


@dataclass(frozen=True, slots=True)
class RelationOf(_AboutTwo):
    content_type: ClassVar[str] = "relation"
    open_ended: ClassVar[bool] = False
    choices: ClassVar[tuple[str, ...]] = tuple(RELATIONS)

    @property
    def text(self) -> str:
        return f"Where is the {self.phrase} relative to the {self.other}?"

    def answer(self, scene: Scene) -> str | None:
        return relation(self.phrase.only(scene), self.other.only(scene))


@dataclass(frozen=True, slots=True)
class IsThere(_AboutOne):
    content_type: ClassVar[str] = "existence"
    open_ended: ClassVar[bool] = False
    choices: ClassVar[tuple[str, ...]] = YES_NO

    @property
    def text(self) -> str:
        article = "an" if str(self.phrase)[0] in "aeiou" else "a"
        return f"Is there {article} {self.phrase} in the picture?"

    def answer(self, scene: Scene) -> str | None:
        return "yes" if self.phrase.matches(scene) else "no"


@dataclass(frozen=True, slots=True)
class IsColoured(_AboutOne):
    colour: str
    content_type: ClassVar[str] = "colour"
    open_ended: ClassVar[bool] = False
    choices: ClassVar[tuple[str, ...]] = YES_NO

    @property
    def text(self) -> str:
        return f"Is the {self.phrase} {self.colour}?"

    def answer(self, scene: Scene) -> str | None:
        item = self.phrase.only(scene)
        return None if item is None else ("yes" if item.colour == self.colour else "no")


@dataclass(frozen=True, slots=True)
class IsRelated(_AboutTwo):
    relation: str
    content_type: ClassVar[str] = "relation"
    open_ended: ClassVar[bool] = False
    choices: ClassVar[tuple[str, ...]] = YES_NO

    @property
    def text(self) -> str:
        return f"Is the {self.phrase} {RELATIONS[self.relation]} the {self.other}?"

    def answer(self, scene: Scene) -> str | None:
        answer = relation(self.phrase.only(scene), self.other.only(scene))
        return None if answer is None else ("yes" if answer == self.relation else "no")


@dataclass(frozen=True, slots=True)
class IsLarger(_AboutTwo):
    content_type: ClassVar[str] = "size"
    open_ended: ClassVar[bool] = False
    choices: ClassVar[tuple[str, ...]] = YES_NO

    @property
    def text(self) -> str:
        return f"Is the {self.phrase} larger than the {self.other}?"

    def answer(self, scene: Scene) -> str | None:
        scene_object, other = self.phrase.only(scene), self.other.only(scene)
        if scene_object is None or other is None or scene_object.size == other.size:
            return None
        return "yes" if scene_object.radius > other.radius else "no"


def relation(scene_object: SceneObject | None, other: SceneObject | None) -> str | None:
    """Where ``one`` is, seen from ``other``; None unless one direction clearly outweighs."""
    if scene_object is None or other is None or scene_object == other:
        return None
    across = scene_object.position[0] - other.position[0]
    down = scene_object.position[1] - other.position[1]
    if abs(across) >= _CLEAR_CUT * abs(down):
        return "to its left" if across < 0 else "to its right"
    if abs(down) >= _CLEAR_CUT * abs(across):
        return "above it" if down < 0 else "below it"
    return None
