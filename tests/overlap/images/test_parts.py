from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from heldout.overlap.images.encoder import parts, trimmed


def texture(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """Smooth noise: something to see everywhere, no gutter anywhere."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 200, (8, 10, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def test_a_plain_picture_is_its_only_part() -> None:
    assert len(parts(texture(1))) == 1


@pytest.mark.parametrize("colour", ["white", "black", (200, 30, 30)])
def test_a_frame_is_cut_off(colour: object) -> None:
    picture = texture(2)
    inside = trimmed(ImageOps.expand(picture, 25, colour))  # type: ignore[arg-type]
    assert inside is not None
    assert abs(inside.width - picture.width) <= 4
    assert abs(inside.height - picture.height) <= 4


def test_panels_of_a_page_are_cut_out_even_after_jpeg() -> None:
    page = Image.new("RGB", (420, 340), "white")
    panels = [texture(seed) for seed in (3, 4, 5)]
    for place, panel in zip(((20, 30), (230, 30), (20, 190)), panels, strict=True):
        page.paste(panel, place)
    ImageDraw.Draw(page).text((20, 12), "A", fill="black")
    buffer = io.BytesIO()
    page.save(buffer, "JPEG", quality=85)
    found = parts(Image.open(buffer).convert("RGB"))[1:]
    sizes = sorted((part.width // 8, part.height // 8) for part in found)
    assert sizes.count((20, 15)) >= 3


def test_an_empty_picture_has_no_inside() -> None:
    assert trimmed(Image.new("RGB", (200, 100), "white")) is None
