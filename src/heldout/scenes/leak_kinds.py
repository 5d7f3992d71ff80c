"""Every kind of planted leak and every decoy, with what should be found and how often it is planted.

The shares add up to one, so that each picture of a benchmark leaks once, in one way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from heldout.scenes.leaks import (
    BYTES,
    EXACT,
    NEAR,
    PIXELS,
    REWORDED,
    CorpusSample,
    LeakKind,
    Make,
    Target,
    encode,
    lossless,
    paraphrased,
    question_and_answer,
    stranger,
)
from heldout.scenes.publishing import recolour, watermark
from heldout.scenes.world import pick

# How a picture of a benchmark turns up in a corpus: as it is, in another file, or transformed.


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
    """One panel of four, as in a paper: the leaked picture at its size among three unrelated ones."""
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
    """A decoy with one attribute changed, as in an exact twin."""
    world = target.world
    thing = world.vary(target.thing, rng)
    picture = world.render(thing, target.picture.width)
    return CorpusSample("png", encode(picture, "png"), world.caption(thing, rng))


def other_subject(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: the same view of another subject."""
    world = target.world
    thing = world.other_subject(target.thing, rng)
    picture = world.render(thing, target.picture.width)
    return CorpusSample("png", encode(picture, "png"), world.caption(thing, rng))


# How the words of a benchmark turn up in a corpus without their picture, and words that only look so.


_TRIES = 200


def alone(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("", None, metadata=question_and_answer(target.question))


def beside_another(target: Target, rng: np.random.Generator) -> CorpusSample:
    """Question and answer under a picture that has nothing to do with them."""
    world = target.world
    return CorpusSample(
        *stranger(world, world.draw(rng), rng), metadata=question_and_answer(target.question)
    )


def reworded_alone(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("", None, metadata=_reworded(target.question), detail="by rule")


def reworded_exact(target: Target, rng: np.random.Generator) -> CorpusSample:
    """The picture's own file with the question in other words."""
    return CorpusSample("png", target.data, metadata=_reworded(target.question), detail="by rule")


def asked_of_another(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: the same question truthfully answered about another picture, as templates make them."""
    question = target.question
    for thing in _others(target, rng):
        answer = question.probe.answer(thing)
        if answer is not None and (not question.options or answer in question.options):
            message = "same" if answer == question.answer else "another"
            return CorpusSample(
                *stranger(target.world, thing, rng),
                metadata=question_and_answer(question, answer),
                detail=f"{message} answer",
            )
    raise RuntimeError(f"nothing else was drawn that answers {question.question!r}")


def alike(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: a question that reads like the benchmark's and has another subject."""
    absent, question = target.world.absent, target.question
    known = sorted(absent, key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(known)})(s|es)?\b")
    matches = list(pattern.finditer(question.question))
    if not matches:
        raise ValueError(f"no word of {question.question!r} has another in its place")
    match = pick(rng, matches)
    other = absent[match[1]] + ("s" if match[2] else "")
    text = question.question[: match.start()] + other + question.question[match.end() :]
    answer = pick(rng, question.options or question.probe.choices)
    row = {**question_and_answer(question, answer), "question": text}
    return CorpusSample("", None, metadata=row, detail=f"{match[0]} → {other}")


def _others(target: Target, rng: np.random.Generator) -> Iterator[Any]:
    """Things of the same world; where none answers the question, the target's own, changed all over."""
    world = target.world
    for _ in range(_TRIES):
        yield world.draw(rng)
    for _ in range(_TRIES):
        thing = world.other_subject(target.thing, rng)
        for _ in range(int(rng.integers(6, 13))):
            thing = world.vary(thing, rng)
        yield thing


def _reworded(question: Any) -> dict[str, Any]:
    return {**question_and_answer(question), "question": paraphrased(question.question)}


LEAK, BLIND, DECOY = "leak", "blind spot", "decoy"
_PICTURE, _WORD = 1 / 20, 1 / 30


def _exact(name: str, by: str, words: str | None, label: str | None, make: Make) -> LeakKind:
    return LeakKind(name, LEAK, by, words, label, _PICTURE, make)


def _near(name: str, make: Make) -> LeakKind:
    return LeakKind(name, BLIND, NEAR, None, None, _PICTURE, make)


def _words(name: str, by: str, make: Make) -> LeakKind:
    return LeakKind(name, BLIND, None, by, "same", _WORD, make)


def _decoy(name: str, share: float, make: Make) -> LeakKind:
    return LeakKind(name, DECOY, None, None, None, share, make)


KINDS: tuple[LeakKind, ...] = (
    _exact("exact bytes with its question and answer", BYTES, EXACT, "same", exact_full),
    _exact("exact bytes with a caption only", BYTES, None, None, exact_captioned),
    _exact("exact bytes with another answer", BYTES, EXACT, "different", exact_relabelled),
    _exact("same pixels in another file format", PIXELS, None, None, pixels),
    _exact("same pixels, question and answer", PIXELS, EXACT, "same", pixels_full),
    _near("JPEG re-encoded", jpeg),
    _near("resized", changed_by(resized)),
    _near("flipped", changed_by(flipped)),
    _near("rotated by quarter turns", changed_by(quarter_turned)),
    _near("rotated by a few degrees", changed_by(tilted)),
    _near("cropped", changed_by(cropped)),
    _near("recoloured", changed_by(recoloured)),
    _near("watermarked", changed_by(marked)),
    _near("inside a compound figure", compound),
    LeakKind(
        "exact bytes, question reworded", LEAK, BYTES, REWORDED, "same", _WORD, reworded_exact
    ),
    _words("question and answer alone", EXACT, alone),
    _words("question and answer beside another picture", EXACT, beside_another),
    _words("question reworded, alone", REWORDED, reworded_alone),
    _decoy("one attribute changed", _PICTURE, changed),
    _decoy("same view of another subject", _PICTURE, other_subject),
    _decoy("same question of another picture", _WORD, asked_of_another),
    _decoy("another question in like words", _WORD, alike),
)

#: what tells an item from the other pictures' in its benchmark
BY_QUESTION, BY_ANSWER, BY_NOTHING = "question", "question and answer", "nothing"
#: reworded questions by what tells their items apart: planted where they are asked for. Of one that shares question
#: and answer with other pictures nobody can say which item leaked, so that it has to stay unfound.
REWORDED_ALONE: dict[str, LeakKind] = {
    BY_QUESTION: next(kind for kind in KINDS if kind.make is reworded_alone),
    BY_ANSWER: LeakKind(
        "shared question, own answer, reworded, alone",
        BLIND,
        None,
        REWORDED,
        "same",
        0,
        reworded_alone,
    ),
    BY_NOTHING: _decoy("shared question and answer, reworded, alone", 0, reworded_alone),
}


def told_apart(items: Iterable[tuple[str, str, str, str]]) -> dict[str, str]:
    """By what each item is told from those of other pictures. ``items``: id, picture, question and answer.

    Numbers do not count: templates differ in them.
    """
    rows = [
        (item, picture, re.sub(r"\d+", "#", question.casefold()), answer.casefold())
        for item, picture, question, answer in items
    ]
    asked: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for _, picture, question, answer in rows:
        asked[question,].add(picture)
        asked[question, answer].add(picture)
    return {
        item: BY_QUESTION
        if len(asked[question,]) == 1
        else BY_ANSWER
        if len(asked[question, answer]) == 1
        else BY_NOTHING
        for item, _, question, answer in rows
    }
