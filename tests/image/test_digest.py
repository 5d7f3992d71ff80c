"""Pixel digests: one plane where channels are equal, and still as many digests as pictures."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from heldout.image import decode, digest, grey_plane, pixel_digest


def noise(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.stack([grey] * 3, axis=2)


# The last one is kept by Pillow in more than one piece of memory.
@pytest.mark.parametrize("size", [(1, 1), (13, 7), (300, 299), (2300, 2100)])
def test_the_plane_is_the_picture(size):
    grey = noise(*size)
    for image in (Image.fromarray(grey), Image.fromarray(as_rgb(grey))):
        plane = grey_plane(image)
        assert plane is not None and plane.dtype == np.uint8 and plane.flags.c_contiguous
        assert np.array_equal(plane, grey)


@pytest.mark.parametrize("size", [(300, 299), (2300, 2100)])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_one_pixel_with_one_level_of_colour_is_colour(size, channel):
    pixels = as_rgb(noise(*size))
    pixels[-1, -1, channel] ^= 1
    assert grey_plane(Image.fromarray(pixels)) is None


def test_every_colour_is_told_from_grey():
    levels = np.arange(1 << 24, dtype=np.uint32)
    colours = np.stack([levels & 255, levels >> 8 & 255, levels >> 16], axis=1).astype(np.uint8)
    shades = colours[(colours == colours[:, :1]).all(axis=1)]
    assert len(shades) == 256
    assert grey_plane(Image.fromarray(shades.reshape(16, 16, 3))) is not None
    # One colour among greys, for colours all over the cube: the greys must not hide it.
    grey = as_rgb(noise(8, 8))
    for colour in colours[:: 65_537 * 3 + 2]:
        pixels = grey.copy()
        pixels[3, 4] = colour
        assert (grey_plane(Image.fromarray(pixels)) is None) == (len(set(colour.tolist())) > 1)


def test_other_modes_have_no_plane():
    for mode in ("RGBA", "CMYK", "I;16", "F", "LA"):
        assert grey_plane(Image.new(mode, (5, 5))) is None


def test_the_fourth_byte_of_a_pixel_means_nothing():
    grey = noise(40, 30)
    merged = Image.merge("RGB", [Image.fromarray(grey)] * 3)
    assert pixel_digest(merged) == pixel_digest(Image.fromarray(as_rgb(grey)))


def test_grey_colours_are_digested_by_one_plane_and_stay_apart_from_grey_ones():
    grey = noise(40, 30)
    as_colours, as_greys = Image.fromarray(as_rgb(grey)), Image.fromarray(grey)
    expected = hashlib.sha256(b"RGB 40x30 grey\n" + grey.tobytes()).hexdigest()
    assert pixel_digest(as_colours) == expected
    assert pixel_digest(as_greys) == hashlib.sha256(b"L 40x30\n" + grey.tobytes()).hexdigest()
    coloured = as_rgb(grey)
    coloured[0, 0, 2] ^= 1
    assert (
        pixel_digest(Image.fromarray(coloured))
        == hashlib.sha256(b"RGB 40x30\n" + coloured.tobytes()).hexdigest()
    )


def test_a_picture_keeps_its_digest_from_format_to_format():
    pixels = as_rgb(noise(57, 41))
    found = set()
    for format, options in (("PNG", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format, **options)
        found.add(pixel_digest(decode(buffer.getvalue())))
    assert len(found) == 1


def test_a_plane_outlives_the_picture_it_was_taken_of():
    grey = noise(640, 480)
    plane = grey_plane(Image.fromarray(grey))
    others = [Image.fromarray(noise(640, 480, seed)) for seed in range(1, 4)]
    assert plane is not None and np.array_equal(plane, grey) and len(others) == 3


@pytest.mark.parametrize("version", ["12.3.0", "11.2.1", "10.3.0", "odd"])
def test_versions_of_pillow_that_crash_on_their_own_memory_are_not_asked_for_it(
    version, monkeypatch
):
    monkeypatch.setattr(digest, "pillow_version", version)
    assert not digest._door_is_sound.__wrapped__()
    monkeypatch.setattr(digest, "_door_is_sound", lambda: False)
    grey = np.arange(35, dtype=np.uint8).reshape(5, 7)
    for picture in (Image.fromarray(grey), Image.fromarray(grey).convert("RGB")):
        assert np.array_equal(grey_plane(picture), grey)
