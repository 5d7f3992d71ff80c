"""Panels are cut along gutters of any colour, and a film is no page."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from heldout.overlap.images._panels import panel_boxes

PLACES = [(20, 20, 180, 160), (200, 20, 360, 160), (20, 180, 180, 320), (200, 180, 360, 320)]


def texture(seed: int, size: tuple[int, int] = (160, 140)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, size[::-1], dtype=np.uint8)
    smooth = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(4))
    return ImageOps.autocontrast(smooth).convert("RGB")


def page(colour: tuple[int, int, int], label: str = "") -> Image.Image:
    sheet = Image.new("RGB", (380, 340), colour)
    pen = ImageDraw.Draw(sheet)
    for number, (left, top, _, _) in enumerate(PLACES):
        sheet.paste(texture(number), (left, top))
        if label:
            pen.text((left + 2, top - 15), label, fill="black" if sum(colour) > 384 else "white")
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=85)
    return Image.open(buffer).convert("L")


@pytest.mark.parametrize("colour", [(255, 255, 255), (0, 0, 0), (128, 128, 128), (24, 40, 96)])
@pytest.mark.parametrize("label", ["", "A"])
def test_gutters_of_any_colour_cut_a_page(colour: tuple[int, int, int], label: str) -> None:
    boxes = panel_boxes(np.asarray(page(colour, label)))
    assert len(boxes) == 4
    for found, wanted in zip(boxes, PLACES, strict=True):
        assert np.abs(np.subtract(found, wanted)).max() <= 4


def test_a_film_on_black_ground_is_no_page() -> None:
    film = Image.new("L", (400, 400), 0)
    film.paste(texture(9, (200, 240)).convert("L"), (100, 80))
    ImageDraw.Draw(film).text((20, 20), "R", fill=255)
    assert panel_boxes(np.asarray(film)) == []
    assert panel_boxes(np.zeros((300, 300), np.uint8)) == []


def head(seed: int, size: int = 260) -> Image.Image:
    """A slice of a head above its couch, on black ground: nothing of it reaches the rim."""
    film = Image.new("L", (size, size), 0)
    shown = Image.new("L", film.size, 0)
    ImageDraw.Draw(shown).ellipse((100, 60, 165, 150), fill=255)
    film.paste(texture(seed, film.size).convert("L"), (0, 0), shown)
    pen = ImageDraw.Draw(film)
    for left in (60, 185):
        pen.rectangle((left, 170, left + 20, 182), fill=220)
    pen.arc((10, 100, 250, 240), 30, 150, fill=200, width=2)
    return film


def test_films_on_black_ground_between_black_gutters_are_panels() -> None:
    sheet = Image.new("L", (840, 300), 0)
    sheet.paste(head(1), (20, 20))
    sheet.paste(texture(2, (260, 260)).convert("L"), (290, 20))
    sheet.paste(head(3), (560, 20))
    boxes = sorted(panel_boxes(np.asarray(sheet)))
    assert [left // 280 for left, *_ in boxes] == [0, 1, 2]
    for left, top, right, bottom in boxes:  # with its couch: a head alone is a tenth of the film
        assert right - left > 200 and bottom - top > 160
    assert panel_boxes(np.asarray(head(1))) == []
