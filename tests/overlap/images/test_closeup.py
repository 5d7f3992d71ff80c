"""Small print that registration cannot read: a word, a figure in a table, the letter of a side."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from test_marks import blobs, pytestmark  # noqa: F401

from heldout.image import FileOnDisk, ImageRef, byte_digest
from heldout.overlap.images._pairs import Candidate
from heldout.overlap.images.features import cheap_features
from heldout.overlap.images.register import register
from heldout.overlap.images.verify import PairVerifier
from heldout.overlap.relations import CHANGED, COPIES, Relation

WORDS = [
    "river",
    "stone",
    "music",
    "garden",
    "winter",
    "number",
    "letter",
    "engine",
    "doctor",
    "school",
    "market",
    "paper",
]


def page(seed: int, other: str | None = None, size: tuple[int, int] = (1240, 1600)) -> Image.Image:
    """A page of print, with ``other`` for one of its words."""
    chance = random.Random(seed)
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for line in range(42):
        words = chance.choices(WORDS, k=14)
        if line == 12 and other is not None:
            words[4] = other
        draw.text((80, 70 + 34 * line), " ".join(words), fill=0, font=ImageFont.load_default(22))
    return image


def jpeg(image: Image.Image) -> Image.Image:
    stored = io.BytesIO()
    image.save(stored, "JPEG", quality=85)
    return Image.open(io.BytesIO(stored.getvalue()))


def smaller(image: Image.Image) -> Image.Image:
    size = (image.width * 2 // 3, image.height * 2 // 3)
    return jpeg(image.resize(size, Image.Resampling.LANCZOS))


def cropped(image: Image.Image) -> Image.Image:
    return jpeg(image.crop((20, 30, image.width - 25, image.height - 35)))


def verdict(query: Image.Image, candidate: Image.Image, folder: Path) -> tuple[Relation, str]:
    path = folder / "query.png"
    query.save(path)
    own = byte_digest(candidate.tobytes())
    verifier = PairVerifier({"q": (ImageRef("q", FileOnDisk(path)), [])}, registered=True)
    judged = verifier._registered(
        Candidate("q", "c", "", ()), own, candidate, cheap_features(candidate)
    )
    assert judged.registration is not None
    return judged.relation, judged.registration.reason


@pytest.mark.parametrize("stored", [jpeg, smaller, cropped])
def test_a_page_with_another_word_is_no_copy(
    stored: Callable[[Image.Image], Image.Image], tmp_path: Path
) -> None:
    query, edited = page(1), page(1, other="zebra")
    assert register(query, stored(edited)).is_copy  # on its grid, registration cannot read it
    assert verdict(query, stored(edited), tmp_path) == (Relation.UNDECIDED, CHANGED)
    assert verdict(query, stored(query), tmp_path)[0] in COPIES


@pytest.mark.parametrize("letters", ["RL", "LR", "AB"])
def test_a_letter_in_the_place_of_another_is_a_change(letters: str) -> None:
    def film(letter: str) -> Image.Image:
        image = blobs(3)
        corner = ImageDraw.Draw(image)
        corner.rectangle((0, 0, 44, 44), fill=20)
        if letter:
            corner.text((12, 8), letter, fill=250, font=ImageFont.load_default(26))
        return image

    ours, theirs = (film(letter) for letter in letters)
    assert CHANGED in register(ours, jpeg(theirs)).transform
    assert CHANGED not in register(film(""), jpeg(theirs)).transform  # a label that was added


def test_a_question_in_the_place_of_another_is_no_watermark() -> None:
    def screen(question: str) -> Image.Image:
        image = Image.new("L", (600, 300), 255)
        draw = ImageDraw.Draw(image)
        draw.text((20, 20), "Question 2 of 40", fill=0, font=ImageFont.load_default(18))
        draw.text((20, 70), question, fill=0, font=ImageFont.load_default(20))
        for row in range(4):
            draw.ellipse((30, 120 + row * 40, 50, 140 + row * 40), outline=0, width=2)
            option = f"{'ABCD'[row]}. option number {row + 1}"
            draw.text((64, 120 + row * 40), option, fill=0, font=ImageFont.load_default(18))
        return image

    ours, theirs = (
        screen(f"{asked}?")
        for asked in (
            "Which of these lines is the longest one",
            "Where is the largest of the circles",
        )
    )
    registration = register(ours, jpeg(theirs))
    assert not registration.is_copy or CHANGED in registration.transform
