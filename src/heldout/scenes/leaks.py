"""A leak: something of a benchmark in a corpus, what was done to it on the way, and who should find it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from heldout.scenes.leak_world import SCENES, LeakWorld
from heldout.scenes.world import pick

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
    """A picture as crawls hold them: of any size, mostly compressed."""
    picture = world.render(thing, pick(rng, _SIZES))
    luck = rng.random()
    if luck < 0.78:
        return "jpg", encode(picture, "jpg", quality=int(rng.integers(75, 96)))
    if luck < 0.92:
        return "webp", encode(picture, "webp", quality=85, method=0)
    return "png", encode(picture, "png", compress_level=3)
