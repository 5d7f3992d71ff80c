"""Pictures of floats, as microscopes and maps have them: NaN where nothing was measured."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from heldout.image import ImageError, decode, digest_bytes, to_rgb
from heldout.overlap.images.fingerprint import fingerprint


def float_tiff(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.float32)).save(buffer, "TIFF")
    return buffer.getvalue()


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (3, 5), slice(None, 4)])
def test_a_float_picture_is_judged_without_its_holes(hole: float, place: object) -> None:
    pixels = np.random.default_rng(0).random((40, 50)).astype(np.float32)
    whole = fingerprint(float_tiff(pixels))
    assert whole.usable
    pixels[place] = hole
    data = float_tiff(pixels)
    assert not digest_bytes(data).blank
    found = fingerprint(data)
    assert found.usable
    shown = np.asarray(to_rgb(decode(data)))
    assert shown.min() == 0 and shown.max() == 255  # the finite greys take the whole range
    if place == (3, 5):
        assert sum((a ^ b).bit_count() for a, b in zip(found.pdq, whole.pdq, strict=True)) <= 31


def test_a_float_picture_that_is_flat_beside_its_holes_is_blank() -> None:
    pixels = np.full((40, 50), 0.25)
    pixels[0, 0] = np.nan
    assert digest_bytes(float_tiff(pixels)).blank


@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_a_picture_without_a_finite_pixel_says_so(hole: float) -> None:
    with pytest.raises(ImageError) as caught:
        digest_bytes(float_tiff(np.full((8, 8), hole)))
    assert caught.value.reason == "no finite pixel"
