"""How a picture of a benchmark turns up in a corpus: as it is, in another file, or transformed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageOps

from heldout.scenes.leaks import CorpusSample, Make, Target, encode, lossless, question_and_answer
from heldout.scenes.publishing import recolour, watermark
from heldout.scenes.world import pick

Changed = tuple[Image.Image, str]  # the picture, and what was drawn
Change = Callable[[Image.Image, np.random.Generator], Changed]


def exact_full(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("png", target.data, metadata=question_and_answer(target.question))


def exact_captioned(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("png", target.data, target.caption(rng))


def exact_relabelled(target: Target, rng: np.random.Generator) -> CorpusSample:
    question = target.question
    wrong = [c for c in question.options or question.probe.choices if c != question.answer]
    return CorpusSample(
        "png", target.data, metadata=question_and_answer(question, pick(rng, wrong))
    )


def pixels(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample(*lossless(target.picture, rng), target.caption(rng))


def pixels_full(target: Target, rng: np.random.Generator) -> CorpusSample:
    encoded = lossless(target.picture, rng)
    return CorpusSample(*encoded, metadata=question_and_answer(target.question))


def jpeg(target: Target, rng: np.random.Generator) -> CorpusSample:
    quality = int(rng.integers(70, 96))
    data = encode(target.picture, "jpg", quality=quality)
    return CorpusSample("jpg", data, target.caption(rng), detail=f"quality {quality}")


def changed_by(change: Change) -> Make:
    """A captioned PNG of the picture after ``change``."""

    def make(target: Target, rng: np.random.Generator) -> CorpusSample:
        picture, detail = change(target.picture, rng)
        data = encode(picture, "png", compress_level=3)
        return CorpusSample("png", data, target.caption(rng), detail=detail)

    return make


def resized(picture: Image.Image, rng: np.random.Generator) -> Changed:
    side = pick(rng, (144, 192, 288, 336))
    return picture.resize((side, side), Image.Resampling.LANCZOS), f"{side} pixels"


def flipped(picture: Image.Image, rng: np.random.Generator) -> Changed:
    return ImageOps.mirror(picture), "left and right"


def quarter_turned(picture: Image.Image, rng: np.random.Generator) -> Changed:
    degrees = pick(rng, (90, 180, 270))
    return picture.transpose(Image.Transpose[f"ROTATE_{degrees}"]), f"by {degrees}°"


def tilted(picture: Image.Image, rng: np.random.Generator) -> Changed:
    """As a scanner leaves it: corners are lost and another ground comes in."""
    degrees = int(rng.integers(3, 31)) * pick(rng, (-1, 1))
    ground = pick(rng, ("white", "black"))
    turned = picture.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=ground)
    return turned, f"by {degrees}° on {ground}"


def cropped(picture: Image.Image, rng: np.random.Generator) -> Changed:
    side = round(picture.width * float(rng.uniform(0.7, 0.9)))
    left, top = (int(rng.integers(picture.width - side + 1)) for _ in range(2))
    kept = (side / picture.width) ** 2
    return picture.crop((left, top, left + side, top + side)), f"keeps {kept:.0%}"


def marked(picture: Image.Image, rng: np.random.Generator) -> Changed:
    return watermark(picture, rng), "words across the middle"


def recoloured(picture: Image.Image, rng: np.random.Generator) -> Changed:
    return recolour(picture, rng)


def compound(target: Target, rng: np.random.Generator) -> CorpusSample:
    """One panel of four, as in a paper: the leaked picture at its size among three strangers."""
    world, side = target.world, target.picture.width
    gutter = side // 28
    panels = [world.render(world.draw(rng), side) for _ in range(3)]
    place = int(rng.integers(4))
    panels.insert(place, target.picture)
    extent = 2 * side + 3 * gutter
    figure = Image.new("RGB", (extent, extent), "white")
    for index, panel in enumerate(panels):
        row, column = divmod(index, 2)
        figure.paste(panel, (gutter + column * (side + gutter), gutter + row * (side + gutter)))
    text = f"Four panels. One of them: {target.caption(rng)}"
    data = encode(figure, "png", compress_level=3)
    return CorpusSample("png", data, text, detail=f"panel {'ABCD'[place]}")


def changed(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: one thing in it is another, as in an exact twin."""
    world = target.world
    thing = world.vary(target.thing, rng)
    picture = world.render(thing, target.picture.width)
    return CorpusSample("png", encode(picture, "png"), world.caption(thing, rng))


def other_subject(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: the same view, and somebody else's."""
    world = target.world
    thing = world.other_subject(target.thing, rng)
    picture = world.render(thing, target.picture.width)
    return CorpusSample("png", encode(picture, "png"), world.caption(thing, rng))
