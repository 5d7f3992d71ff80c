"""What a leaky corpus needs of a world: to draw it, show it, ask of it, and tell one thing from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from heldout.scenes.captions import caption, film_caption
from heldout.scenes.films import ask_film, other_patient, random_film, vary_film
from heldout.scenes.films_render import render_film
from heldout.scenes.questions import ask
from heldout.scenes.render import render
from heldout.scenes.world import random_scene, rearranged, vary


class Leaking(Protocol):
    """A benchmark that can leak, written by whom it may: pictures by name, in release order."""

    @property
    def folder(self) -> Path: ...

    @property
    def scenes(self) -> Mapping[str, Any]:
        """What every picture shows, by the image's name in the table."""
        ...

    @property
    def questions(self) -> Mapping[str, Sequence[tuple[str, Any]]]:
        """By the same name: (item id, question), each with ``probe`` and ``options``."""
        ...


@dataclass(frozen=True)
class LeakWorld:
    """``other_subject``: near in every embedding, and not a copy. ``absent``: words of its questions and
    words the world does not have, for questions that read alike and ask for something else."""

    name: str
    one: str  # what a picture is called
    key: tuple[int, ...]  # keeps this world's random numbers apart from another's
    draw: Callable[[np.random.Generator], Any]
    render: Callable[[Any, int], Image.Image]
    ask: Callable[[Any, np.random.Generator, int], Sequence[Any]]
    vary: Callable[[Any, np.random.Generator], Any]
    other_subject: Callable[[Any, np.random.Generator], Any]
    caption: Callable[[Any, np.random.Generator], str]
    absent: Mapping[str, str]

    def rng(self, seed: int, stream: int, index: int) -> np.random.Generator:
        """Seeded by place: what is drawn never depends on what was drawn before."""
        return np.random.default_rng((seed, stream, *self.key, index))


SCENES = LeakWorld(
    "scenes",
    "scene",
    (),
    random_scene,
    render,
    ask,
    vary,
    rearranged,
    caption,
    absent={
        "circle": "oval",
        "square": "trapezium",
        "triangle": "pentagon",
        "diamond": "kite",
        "hexagon": "octagon",
        "star": "flower",
        "heart": "leaf",
        "cross": "arrow",
        "ring": "spiral",
        "crescent": "drop",
        "red": "brown",
        "orange": "golden",
        "yellow": "beige",
        "green": "turquoise",
        "blue": "silver",
        "purple": "grey",
        "pink": "white",
        "black": "olive",
        "edge": "corner",
        "largest": "darkest",
        "objects": "shadows",
    },
)
FILMS = LeakWorld(
    "films",
    "film",
    (2,),
    random_film,
    render_film,
    ask_film,
    vary_film,
    other_patient,
    film_caption,
    absent={
        "nodule": "fracture",
        "cavity": "cyst",
        "shadow": "effusion",
        "lesions": "fractures",
        "pacemaker": "stent",
        "tube": "drain",
        "clip": "screw",
        "device": "vessel",
        "heart": "thymus",
        "aorta": "trachea",
        "liver": "pancreas",
        "spleen": "bladder",
        "ventricles": "orbits",
        "sinus": "mandible",
        "organ": "bone",
        "marker": "number",
        "zone": "margin",
        "film": "drawing",
    },
)
