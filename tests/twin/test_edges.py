"""Edges are where the picture has outlines, of its size, the same twice, whatever its mode."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from heldout.errors import InputError
from heldout.image import decode, to_rgb
from heldout.twin.edges import canny


def square(background: object = "white", fill: object = "black", mode: str = "RGB") -> Image.Image:
    picture = Image.new(mode, (61, 40), background)
    ImageDraw.Draw(picture).rectangle((20, 10, 40, 30), fill=fill)
    return picture


def outline(edges: Image.Image) -> tuple[int, int, int, int]:
    return Image.fromarray(np.asarray(edges)).getbbox() or (0, 0, 0, 0)


def test_the_outline_of_a_square_is_found_at_its_place_and_size() -> None:
    edges = canny(square(), 100, 200)
    assert (edges.mode, edges.size) == ("L", (61, 40))
    assert set(np.unique(np.asarray(edges))) == {0, 255}
    assert np.allclose(outline(edges), (20, 10, 41, 31), atol=1)
    inside = np.asarray(edges)[14:27, 24:37]
    assert not inside.any()


def test_colours_of_one_lightness_have_an_outline() -> None:
    red, green = (200, 0, 0), (0, 102, 0)  # equal greys
    assert len(np.unique(square(red, green).convert("L"))) == 1
    assert np.asarray(canny(square(red, green))).any()


def test_higher_thresholds_keep_fewer_edges() -> None:
    noise = np.random.default_rng(0).integers(100, 160, (64, 64, 3), dtype=np.uint8)
    counts = [
        np.count_nonzero(canny(Image.fromarray(noise), low, low * 2)) for low in (40, 80, 160)
    ]
    assert counts[0] > counts[1] > counts[2]


def test_the_same_picture_has_the_same_edges() -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (97, 131, 3), dtype=np.uint8))
    assert canny(noise).tobytes() == canny(noise.copy()).tobytes()


def test_every_mode_of_a_decoded_picture_gives_the_same_outline() -> None:
    grey16 = Image.fromarray(np.asarray(square().convert("L"), dtype=np.uint16) * 200)
    alpha = square().convert("RGBA")
    alpha.putalpha(square().convert("L").point(lambda level: 255 if level < 128 else 0))
    pictures = {
        "PNG grey 16": grey16,
        "PNG palette": square().convert("P"),
        "PNG alpha": alpha,
        "TIFF CMYK": square().convert("CMYK"),
        "PNG bits": square().convert("1"),
    }
    expected = canny(square()).tobytes()
    for name, picture in pictures.items():
        buffer = io.BytesIO()
        picture.save(buffer, name.split()[0])
        assert canny(to_rgb(decode(buffer.getvalue()))).tobytes() == expected, name
        assert canny(decode(buffer.getvalue())).tobytes() == expected, name


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 7), (3, 3)])
def test_a_tiny_picture_keeps_its_size(size: tuple[int, int]) -> None:
    assert canny(Image.new("RGB", size)).size == size


@pytest.mark.parametrize(("low", "high"), [(-1, 10), (200, 100), (0, 0)])
def test_thresholds_that_mean_nothing_are_refused(low: int, high: int) -> None:
    with pytest.raises(InputError, match="edge thresholds"):
        canny(square(), low, high)
