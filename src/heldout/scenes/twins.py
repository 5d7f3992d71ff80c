"""The nearest scene on which another answer is right: fewest changes, most other facts kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from heldout.scenes import changes
from heldout.scenes.probes import CountOf, IsRelated, Outermost, RelationOf, SceneProbe
from heldout.scenes.questions import facts
from heldout.scenes.world import Scene

Changes = Callable[[Scene], Iterator[Scene]]


class NoTwinError(ValueError):
    """No scene near this one has that answer; ``reason`` is few, stable words."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def twin_scene(scene: Scene, probe: SceneProbe, answer: str) -> Scene:
    """The scene on which ``answer`` is the one right answer; the same twice.

    Of the scenes with fewest changes that one is taken on which most of what could be asked of the
    original has the same answer, then the one whose objects moved least.
    """
    old = probe.answer(scene)
    if old is None:
        raise NoTwinError("the question has no answer", f"'{probe.text}' is ambiguous here")
    if answer not in probe.choices:
        raise NoTwinError(
            "no such answer",
            f"'{answer}' does not answer '{probe.text}': {', '.join(probe.choices)}",
        )
    if answer == old:
        raise NoTwinError("the same answer", f"'{answer}' is right on the original already")
    steps = [answer]
    if isinstance(probe, CountOf):  # one object after the other
        toward = 1 if int(answer) > int(old) else -1
        steps = [str(count) for count in range(int(old) + toward, int(answer) + toward, toward)]
    found = scene
    for step in steps:
        found = _nearest(found, probe, step)
    return found


def _nearest(scene: Scene, probe: SceneProbe, answer: str) -> Scene:
    for level in _levels(probe):
        nearby = itertools.chain.from_iterable(change(scene) for change in level)
        fitting = [near for near in nearby if probe.answer(near) == answer]
        if fitting:
            known = facts(scene)
            return min(fitting, key=lambda near: (_lost(known, near), _moved(scene, near)))
    raise NoTwinError(
        "no room for the change",
        f"no scene within two changes answers '{answer}' to '{probe.text}'",
    )


def _levels(probe: SceneProbe) -> list[list[Changes]]:
    """Kinds of changes, those of equal weight together, the smallest first."""
    single: list[Changes] = [changes.one_attribute]
    if isinstance(probe, Outermost | RelationOf | IsRelated):  # no other answer depends on places
        single.append(changes.one_move)
    if isinstance(probe, CountOf):
        return [single, [changes.one_object], [changes.two_changes]]
    return [single, [changes.two_changes]]


def _lost(known: list[tuple[SceneProbe, str]], scene: Scene) -> int:
    return sum(probe.answer(scene) != answer for probe, answer in known)


def _moved(old: Scene, new: Scene) -> float:
    pairs = zip(old.objects, new.objects, strict=False)
    return sum(math.dist(scene_object.position, other.position) for scene_object, other in pairs)
