"""Kinds of leaks: how a picture of a benchmark turns up in a corpus, and which match can see it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from heldout.scenes.captions import caption
from heldout.scenes.questions import Question
from heldout.scenes.render import render
from heldout.scenes.world import Scene, pick, random_scene, vary


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of a WebDataset shard: an image file and what lies beside it."""

    extension: str
    data: bytes
    caption: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class Target:
    """The picture of the benchmark that leaks, with one of the questions about it."""

    image: str
    data: bytes
    scene: Scene
    item_id: str
    question: Question

    @property
    def picture(self) -> Image.Image:
        return Image.open(io.BytesIO(self.data)).convert("RGB")


@dataclass(frozen=True)
class Kind:
    name: str
    group: str  # leak, blind spot (of exact matching), decoy (must not be called a leak)
    found_by: str | None  # what exact matching sees: bytes, pixels or nothing
    label_relation: str | None  # what the corpus says the answer is: same, different or nothing
    share: float  # of the benchmark's images
    make: Callable[[Target, np.random.Generator], Sample]


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


def question_and_answer(question: Question, answer: str | None = None) -> dict[str, Any]:
    """The sidecar of an instruction-tuning corpus."""
    row: dict[str, Any] = {"question": question.question, "answer": answer or question.answer}
    return {**row, "options": list(question.options)} if question.options else row


def _exact_full(target: Target, rng: np.random.Generator) -> Sample:
    return Sample("png", target.data, metadata=question_and_answer(target.question))


def _exact_captioned(target: Target, rng: np.random.Generator) -> Sample:
    return Sample("png", target.data, caption(target.scene, rng))


def _exact_relabelled(target: Target, rng: np.random.Generator) -> Sample:
    question = target.question
    wrong = [c for c in question.options or question.probe.choices if c != question.answer]
    return Sample("png", target.data, metadata=question_and_answer(question, pick(rng, wrong)))


def _pixels(target: Target, rng: np.random.Generator) -> Sample:
    return Sample(*lossless(target.picture, rng), caption(target.scene, rng))


def _pixels_full(target: Target, rng: np.random.Generator) -> Sample:
    encoded = lossless(target.picture, rng)
    return Sample(*encoded, metadata=question_and_answer(target.question))


def _jpeg(target: Target, rng: np.random.Generator) -> Sample:
    quality = int(rng.integers(70, 96))
    return Sample("jpg", encode(target.picture, "jpg", quality=quality), caption(target.scene, rng))


def _resized(target: Target, rng: np.random.Generator) -> Sample:
    side = pick(rng, (144, 192, 288, 336))
    picture = target.picture.resize((side, side), Image.Resampling.LANCZOS)
    return Sample("png", encode(picture, "png", compress_level=3), caption(target.scene, rng))


def _flipped(target: Target, rng: np.random.Generator) -> Sample:
    picture = ImageOps.mirror(target.picture)
    return Sample("png", encode(picture, "png", compress_level=3), caption(target.scene, rng))


def _cropped(target: Target, rng: np.random.Generator) -> Sample:
    whole = target.picture
    side = round(whole.width * float(rng.uniform(0.7, 0.9)))
    left, top = (int(rng.integers(whole.width - side + 1)) for _ in range(2))
    picture = whole.crop((left, top, left + side, top + side))
    return Sample("png", encode(picture, "png", compress_level=3), caption(target.scene, rng))


def _compound(target: Target, rng: np.random.Generator) -> Sample:
    """One panel of four, as in a paper: the leaked picture at its size among three strangers."""
    side, gutter = target.picture.width, target.picture.width // 28
    panels = [render(random_scene(rng), side) for _ in range(3)]
    panels.insert(int(rng.integers(4)), target.picture)
    extent = 2 * side + 3 * gutter
    figure = Image.new("RGB", (extent, extent), "white")
    for index, panel in enumerate(panels):
        row, column = divmod(index, 2)
        figure.paste(panel, (gutter + column * (side + gutter), gutter + row * (side + gutter)))
    text = f"Four panels. One of them: {caption(target.scene, rng)}"
    return Sample("png", encode(figure, "png", compress_level=3), text)


def _changed(target: Target, rng: np.random.Generator) -> Sample:
    scene = vary(target.scene, rng)
    picture = render(scene, target.picture.width)
    return Sample("png", encode(picture, "png"), caption(scene, rng))


_LEAK, _BLIND, _DECOY = 1 / 15, 1 / 20, 1 / 12
KINDS: tuple[Kind, ...] = (
    Kind("exact bytes with its question and answer", "leak", "bytes", "same", _LEAK, _exact_full),
    Kind("exact bytes with a caption only", "leak", "bytes", None, _LEAK, _exact_captioned),
    Kind("exact bytes with another answer", "leak", "bytes", "different", _LEAK, _exact_relabelled),
    Kind("same pixels in another file format", "leak", "pixels", None, _LEAK, _pixels),
    Kind("same pixels, question and answer", "leak", "pixels", "same", _LEAK, _pixels_full),
    Kind("JPEG re-encoded", "blind spot", None, None, _BLIND, _jpeg),
    Kind("resized", "blind spot", None, None, _BLIND, _resized),
    Kind("flipped", "blind spot", None, None, _BLIND, _flipped),
    Kind("cropped", "blind spot", None, None, _BLIND, _cropped),
    Kind("inside a compound figure", "blind spot", None, None, _BLIND, _compound),
    Kind("one attribute changed", "decoy", None, None, _DECOY, _changed),
)
