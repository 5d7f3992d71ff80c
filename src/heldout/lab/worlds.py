"""The two worlds as the lab uses them: draw, show, ask, change one thing, describe."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from heldout.lab.forms import Asked
from heldout.scenes import (
    RELATIONS,
    ZONES,
    Film,
    IsRelated,
    RelationOf,
    Scene,
    SceneObject,
    as_guessable,
    ask,
    ask_film,
    name,
    random_film,
    random_scene,
    render,
    render_film,
    vary,
    vary_film,
)

NATIVE = 224  # pixels of a released picture
# Generators are seeded with (seed, stream, index): what a model is trained on, the benchmark (stream 1
# in scenes/) and the corpora (stream 2) of one seed share no random numbers.
TRAINING, RELEASED, TWINS = 11, 12, 13


@dataclass(frozen=True)
class World:
    name: str
    number: int
    draw: Callable[[np.random.Generator], Any]
    render: Callable[[Any, int], Image.Image]
    ask: Callable[[Any, np.random.Generator, int], Any]
    vary: Callable[[Any, np.random.Generator], Any]
    # Whether guessing an answer from what is in sight helps as much on the second thing as on the first.
    as_guessable: Callable[[Any, Any, Any], bool]
    describe: Callable[[Any], str]
    drill: Callable[[Any, np.random.Generator], list[Asked]]  # for training only: never released

    def rng(self, seed: int, stream: int, index: int) -> np.random.Generator:
        return np.random.default_rng((seed, stream, self.number, index))


def show(world: World, thing: Any, side: int, *, shrunk: bool) -> Image.Image:
    """At the model's size: painted so, or as the model's processor shrinks a released picture."""
    if not shrunk:
        return world.render(thing, side)
    return world.render(thing, NATIVE).resize((side, side), Image.Resampling.BICUBIC)


def _describe_scene(scene: Scene) -> str:
    """Every object from left to right: dense words about pictures teach a small tower to see."""
    listed = sorted(scene.objects, key=lambda item: item.position)
    return ", ".join(
        f"{thing.size} {thing.texture} {thing.colour} {thing.shape} at {_place(thing)}"
        for thing in listed
    )


def _place(item: SceneObject) -> str:
    return " ".join(str(int(10 * share)) for share in item.position)


def _drill_scene(scene: Scene, rng: np.random.Generator) -> list[Asked]:
    """Where objects are, and how they lie to each other: what small models are slowest to learn."""
    order = [scene.objects[place] for place in rng.permutation(len(scene.objects))]
    asked = [
        Asked(f"Where exactly is the {one.colour} {one.shape}?", _place(one)) for one in order[:3]
    ]
    pairs = list(itertools.permutations(order, 2))
    for one, other in (pairs[place] for place in rng.permutation(len(pairs))[:4]):
        probe = RelationOf(name(scene, one), name(scene, other))
        answer = probe.answer(scene)
        if answer is None:
            continue
        options = tuple(probe.choices[place] for place in rng.permutation(len(probe.choices)))
        asked.append(Asked(probe.text, answer, options))
        # A third true, the rest drawn from all four: both answers are as likely.
        said = answer if rng.random() < 0.33 else list(RELATIONS)[int(rng.integers(4))]
        claim = IsRelated(probe.phrase, probe.other, said)
        asked.append(Asked(claim.text, "yes" if said == answer else "no"))
    return asked


def _always(probe: Any, film: Film, twin: Film) -> bool:
    """Findings are rare and seldom come twice: none is guessed more easily for what else is there."""
    return True


def _describe_film(film: Film) -> str:
    parts = [film.view, f"marker {film.marker}"]
    parts.append(f"{film.enlarged} enlarged" if film.enlarged else "no organ enlarged")
    parts.append(film.device or "no device")
    parts += [f"{lesion.kind} in the {lesion.zone}" for lesion in film.lesions] or ["no lesion"]
    return ", ".join(parts)


def _drill_film(film: Film, rng: np.random.Generator) -> list[Asked]:
    """What lies in each zone, which is half of everything that is asked of a film."""
    return [
        Asked(f"What is in the {zone}?", kind)
        for zone in (ZONES[place] for place in rng.permutation(len(ZONES)))
        for kind in [
            next((lesion.kind for lesion in film.lesions if lesion.zone == zone), "nothing")
        ]
    ]


SCENES = World(
    "scenes", 1, random_scene, render, ask, vary, as_guessable, _describe_scene, _drill_scene
)
FILMS = World(
    "films", 2, random_film, render_film, ask_film, vary_film, _always, _describe_film, _drill_film
)
WORLDS = {world.name: world for world in (SCENES, FILMS)}
