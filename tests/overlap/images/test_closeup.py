"""Small print that registration cannot read: a word, a figure in a table, the letter of a side."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont, ImageOps
from test_marks import blobs, pytestmark  # noqa: F401

from heldout.image import FileOnDisk, ImageRef, byte_digest
from heldout.overlap.images import _closeup
from heldout.overlap.images._closeup import is_rewritten
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


def negative(image: Image.Image) -> Image.Image:
    return jpeg(ImageOps.invert(image.crop((11, 17, image.width - 23, image.height - 9))))


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


@pytest.mark.parametrize("stored", [jpeg, smaller, cropped, negative])
def test_a_page_with_another_word_is_no_copy(
    stored: Callable[[Image.Image], Image.Image], tmp_path: Path
) -> None:
    query, edited = page(1), page(1, other="zebra")
    assert register(query, stored(edited)).is_copy  # on its grid, registration cannot read it
    assert verdict(query, stored(edited), tmp_path) == (Relation.UNDECIDED, CHANGED)
    assert verdict(query, stored(query), tmp_path)[0] in COPIES


def test_a_copy_that_cannot_be_pulled_into_place_is_compared_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2

    query, edited = page(1), cropped(page(1, other="zebra"))
    registration = register(query, edited)
    assert registration.is_copy

    def does_not_converge(*_: object) -> None:
        raise cv2.error("images may be uncorrelated or non-overlapped")

    monkeypatch.setattr(cv2, "findTransformECC", does_not_converge)
    given = {"inverted": registration.inverted, "marked": False}
    assert is_rewritten(query, edited, registration.warp, **given)
    assert not is_rewritten(query, cropped(query), registration.warp, **given)


def table(size: tuple[int, int], ink: int, other: str | None = None) -> Image.Image:
    """A table of figures, with ``other`` for one of them."""
    chance = random.Random(8)
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for y in range(20, size[1] - 30, 32):
        for x in range(30, size[0] - 60, 110):
            figure = f"{chance.randint(1000, 9999)}"
            if x == 140 and y == 116:
                figure = other or "4713"
            draw.text((x, y), figure, fill=ink, font=ImageFont.load_default(18))
    return image


@pytest.mark.parametrize("ink", [0, 110])
@pytest.mark.parametrize("width", [560, 1000])
@pytest.mark.parametrize("stored", [jpeg, smaller, cropped])
def test_a_table_with_an_8_for_a_3_is_no_copy(
    ink: int, width: int, stored: Callable[[Image.Image], Image.Image], tmp_path: Path
) -> None:
    query, edited = (table((width, 700), ink, other) for other in (None, "4718"))
    assert verdict(query, stored(edited), tmp_path) == (Relation.UNDECIDED, CHANGED)
    assert verdict(query, stored(query), tmp_path)[0] in COPIES


def test_figures_burnt_into_a_film_are_read(tmp_path: Path) -> None:
    def film(words: str) -> Image.Image:
        image = blobs(3, (900, 900)).convert("L")
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, 260, 70), fill=10)
        for line, text in enumerate((words, "kV 120 mA 80")):
            draw.text((14, 10 + 28 * line), text, fill=240, font=ImageFont.load_default(18))
        return image

    for stored in (jpeg, smaller):
        query, edited = film("Study 4713"), stored(film("Study 4718"))
        assert verdict(query, edited, tmp_path) == (Relation.UNDECIDED, CHANGED)
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


AS_IT_IS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
NEARLY = ((1.0, 0.0, 0.015), (0.0, 1.0, 0.271), (0.0, 0.0, 1.0))


def glow(
    words: str = "Study 4711 L", *, centre: tuple[int, int], width: int, top: int, grain: float
) -> Image.Image:
    """A light shape on black ground, with ``words`` in a corner."""
    y, x = np.mgrid[:600, :600]
    noise = np.random.default_rng(1).integers(0, 256, x.shape, dtype=np.uint8)
    smooth = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(2))
    texture = np.asarray(smooth, np.float32)
    texture = (texture - texture.mean()) / texture.std()
    light = np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * width**2))
    greys = top * light * (1 + grain * (texture - 1))
    film = Image.fromarray(np.clip(greys, 0, 255).astype(np.uint8))
    ImageDraw.Draw(film).text((9, 9), words, fill=250, font=ImageFont.load_default(24))
    return film


@pytest.mark.parametrize("width", [120, 180, 230])
def test_pictures_of_two_tones_are_pulled_onto_each_other_in_one(width: int) -> None:
    def film(words: str = "Study 4711 L") -> Image.Image:
        return glow(words, centre=(370, 340), width=width, top=250, grain=0.0)

    def darker(image: Image.Image) -> Image.Image:
        return jpeg(image.point([round(v * v / 255) for v in range(256)]))

    assert not is_rewritten(film(), darker(film()), NEARLY, inverted=False, marked=False)
    other = darker(film("Study 8263 L"))
    assert is_rewritten(film(), other, NEARLY, inverted=False, marked=False)


def test_what_a_tone_curve_flattened_is_compared_the_way_that_was_gone() -> None:
    def film(words: str = "Study 4711 L") -> Image.Image:
        return glow(words, centre=(300, 300), width=150, top=70, grain=0.4)

    equalised = jpeg(ImageOps.equalize(film()))
    assert not is_rewritten(film(), equalised, AS_IT_IS, inverted=False, marked=False)
    other = jpeg(ImageOps.equalize(film("Study 8263 L")))
    assert is_rewritten(film(), other, AS_IT_IS, inverted=False, marked=False)


@pytest.mark.parametrize("ink", [0, 255])
def test_beside_a_large_mark_what_is_the_same_is_no_stroke(ink: int) -> None:
    import cv2

    film, marked = (blobs(5, (700, 700)).convert("L") for _ in range(2))
    font = ImageFont.load_default(size=170.0)
    ImageDraw.Draw(marked).text((20, 250), "SAMPLE", fill=ink, font=font)
    ours, theirs = (np.asarray(each, np.float32) for each in (film, jpeg(marked)))
    levels = _closeup.STROKE_LEVELS
    mask = np.ones(ours.shape, bool)
    strokes = _closeup._strokes(cv2, ours, theirs, mask, levels)
    count, pieces = cv2.connectedComponents(strokes.astype(np.uint8), connectivity=8)
    assert count > 1
    assert all(
        np.abs(ours - theirs)[pieces == piece].max() > levels / 2 for piece in range(1, count)
    )


def dark_film(words: str = "", letter: str = "", size: int = 1000) -> Image.Image:
    image = Image.new("RGB", (size, size))
    image.paste(blobs(4, (size - 200, size - 300)), (100, 200))
    pen = ImageDraw.Draw(image)
    pen.text((12, 60), words, fill=(240, 240, 240), font=ImageFont.load_default(22))
    pen.text((10, 6), letter, fill=(240, 240, 240), font=ImageFont.load_default(36))
    return image


@pytest.mark.parametrize(
    ("ours", "theirs", "rewritten"),
    [
        (("", ""), ("", "A"), False),
        (("", "A"), ("", ""), False),
        (("", "L"), ("", "R"), True),
        (("3", ""), ("8", ""), True),
        (("713", ""), ("718", ""), True),  # an 8 is a 3 with strokes added: no letter by itself
    ],
)
def test_close_up_only_a_letter_by_itself_in_a_corner_is_a_label(
    ours: tuple[str, str], theirs: tuple[str, str], rewritten: bool
) -> None:
    still = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    query, candidate = dark_film(*ours), jpeg(dark_film(*theirs))
    assert is_rewritten(query, candidate, still, inverted=False, marked=False) == rewritten


def test_a_copy_that_was_laid_a_little_askew_is_laid_upright(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import cv2

    def does_not_converge(*_: object) -> None:
        raise cv2.error("images may be uncorrelated or non-overlapped")

    def film(last: str) -> Image.Image:
        image = blobs(4, (900, 600)).point(lambda grey: grey // 3)
        pen, font = ImageDraw.Draw(image), ImageFont.load_default(20)
        for line in range(8):
            pen.text((400, 100 + 50 * line), "mA 80 R", fill=(250, 250, 250), font=font)
        pen.text((800, 300), last, fill=(250, 250, 250), font=font)
        return image

    monkeypatch.setattr(cv2, "findTransformECC", does_not_converge)
    askew = ((1.0, 0.0, 0.0), (-0.003, 1.0, 1.35), (0.0, 0.0, 1.0))
    given = {"inverted": False, "marked": False}
    assert not is_rewritten(film("kV 120"), jpeg(film("kV 120")), askew, **given)
    assert is_rewritten(film("kV 120"), jpeg(film("kV 180")), askew, **given)
