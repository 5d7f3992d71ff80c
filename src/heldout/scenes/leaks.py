"""A leak: something of a benchmark in a corpus, how it was changed, and which methods should find it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from heldout.scenes.films import Film, ask_film, other_patient, random_film, render_film, vary_film
from heldout.scenes.questions import ask
from heldout.scenes.render import render
from heldout.scenes.world import Scene, SceneObject, pick, random_scene, rearranged, vary

# Captions: a picture described in one sentence, as the alt text of a web corpus would.


_OPENINGS = ("", "", "A picture of ", "Drawing of ", "Illustration: ")
_FILM_OPENINGS = ("", "Radiograph of the ", "Plain film, ", "Case of the day: ")


def caption(scene: Scene, rng: np.random.Generator) -> str:
    """One true sentence; which objects it names and how it begins are drawn."""
    count = int(rng.integers(2, len(scene.objects) + 1))
    chosen = [scene.objects[index] for index in sorted(rng.permutation(len(scene.objects))[:count])]
    words = [_noun(item) for item in chosen]
    listed = f"{', '.join(words[:-1])} and {words[-1]}"
    sentence = f"{pick(rng, _OPENINGS)}{listed} on a {scene.background.tone} background."
    return sentence[0].upper() + sentence[1:]


def film_caption(film: Film, rng: np.random.Generator) -> str:
    """What a teaching file says under a film; findings are named, the patient is not."""
    findings = [f"{lesion.kind} in the {lesion.zone}" for lesion in film.lesions]
    findings += [f"enlarged {film.enlarged}"] if film.enlarged else []
    findings += [f"{film.device} in place"] if film.device else []
    listed = ", ".join(findings[place] for place in rng.permutation(len(findings)).tolist())
    sentence = f"{pick(rng, _FILM_OPENINGS)}{film.view}: {listed or 'no finding'}."
    return sentence[0].upper() + sentence[1:]


def _noun(item: SceneObject) -> str:
    size = "" if item.size == "medium" else item.size
    texture = "" if item.texture == "plain" else item.texture
    words = " ".join(filter(None, (size, texture, item.colour, item.shape)))
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


# The same question in other words, for contamination that no string match finds.


_RULES = (
    (r"What colour is the (.+)\?", r"Tell me the colour of the \1."),
    (r"What is the shape of the (.+)\?", r"The \1 has which shape?"),
    (r"Which texture does the (.+) have\?", r"The surface of the \1 looks how?"),
    (r"How many (.+) are there\?", r"Count the \1."),
    (r"Is there (an?) (.+) in the picture\?", r"Does the picture show \1 \2?"),
    (r"Where is the (.+) relative to the (.+)\?", r"Seen from the \2, where does the \1 lie?"),
    (r"Is the (.+) larger than the (.+)\?", r"Is the \2 smaller than the \1?"),
    (
        r"Which shape is closest to the (.+) edge of the picture\?",
        r"Nearest to the \1 edge lies what?",
    ),
    (r"Which part of the body does this film show\?", r"What body part was exposed here?"),
    (r"Which side marker does the film carry\?", r"Which letter marks the side?"),
    (r"Which organ is enlarged\?", r"Name the organ that is too large."),
    (r"Which device is visible\?", r"Name the device in this film."),
    (r"Where is the (.+)\?", r"In which place does the \1 lie?"),
    (r"What is in the (.+)\?", r"Name what lies in the \1."),
    (r"Is there a (.+) on the (.+) side\?", r"Does the \2 side show a \1?"),
    (r"Is a (.+) visible\?", r"Can a \1 be seen?"),
    (r"Is the (.+) (\w+)\?", r"Would you call the \1 \2?"),
)


def paraphrased(question: str) -> str:
    """By rule where the worlds' questions are known, by a polite opening where they are not."""
    for pattern, other in _RULES:
        match = re.fullmatch(pattern, question)
        if match is not None:
            return match.expand(other)
    words = question.strip()
    return f"Please look and tell: {words[:1].lower()}{words[1:]}"


# What a leaky corpus needs of a world: how to draw, render, ask, and make similar subjects.


class Leaking(Protocol):
    """A benchmark that can leak, whatever wrote it: pictures by name, in release order."""

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
    picture_word: str  # what a picture is called
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


BYTES, PIXELS, NEAR = "bytes", "pixels", "near"
EXACT, REWORDED = "exact", "reworded"
_SIZES = (96, 112, 128, 160, 224)


@dataclass(frozen=True, slots=True)
class CorpusSample:
    """One item of a WebDataset shard: an image file, or none, and what lies beside it."""

    extension: str
    data: bytes | None
    caption: str | None = None
    metadata: dict[str, Any] | None = None
    detail: str = ""  # what was drawn: "quality 83", "turned by 14°"


@dataclass(frozen=True)
class Target:
    """The picture of the benchmark that leaks, with one of the questions about it."""

    image: str
    data: bytes
    thing: Any  # the scene or film it shows
    item_id: str
    question: Any
    world: LeakWorld = SCENES

    @property
    def picture(self) -> Image.Image:
        return Image.open(io.BytesIO(self.data)).convert("RGB")

    def caption(self, rng: np.random.Generator) -> str:
        return self.world.caption(self.thing, rng)


Make = Callable[[Target, np.random.Generator], CorpusSample]


@dataclass(frozen=True)
class LeakKind:
    """``found_by``: how its picture can be found: equal bytes, equal pixels, near (it was transformed).
    ``words``: how its question can: the very words, or other words for the same.
    Both are None where nothing may be found: what a decoy shows or says is not the benchmark's."""

    name: str
    group: str  # leak, blind spot (of equal pictures), decoy (must not be called a leak)
    found_by: str | None
    words: str | None
    label_relation: str | None  # what the corpus says the answer is: same, different or nothing
    share: float  # of the benchmark's images
    make: Make


def encode(picture: Image.Image, extension: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    formats = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP", "bmp": "BMP"}
    picture.save(buffer, formats[extension], **options)
    return buffer.getvalue()


def lossless(picture: Image.Image, rng: np.random.Generator) -> tuple[str, bytes]:
    """The same pixels in another file: another format, or a PNG that is packed differently."""
    extension = pick(rng, ("png", "webp", "bmp"))
    options: dict[str, dict[str, Any]] = {
        "png": {"compress_level": 1},
        "webp": {"lossless": True, "exact": True, "method": 0},
        "bmp": {},
    }
    return extension, encode(picture, extension, **options[extension])


def question_and_answer(question: Any, answer: str | None = None) -> dict[str, Any]:
    """The sidecar of an instruction-tuning corpus."""
    row: dict[str, Any] = {"question": question.question, "answer": answer or question.answer}
    return {**row, "options": list(question.options)} if question.options else row


def stranger(world: LeakWorld, thing: Any, rng: np.random.Generator) -> tuple[str, bytes]:
    """An unrelated picture as in a web crawl: of any size, mostly compressed."""
    picture = world.render(thing, pick(rng, _SIZES))
    luck = rng.random()
    if luck < 0.78:
        return "jpg", encode(picture, "jpg", quality=int(rng.integers(75, 96)))
    if luck < 0.92:
        return "webp", encode(picture, "webp", quality=85, method=0)
    return "png", encode(picture, "png", compress_level=3)
