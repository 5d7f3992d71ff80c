"""Screening: near the hashes at full size, as careful with what it is given."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.image import ImageError, decode_shrunk
from heldout.overlap.images.fingerprint import fingerprint, screen
from heldout.overlap.images.hashes import PDQ, SLACK


def distance(left: bytes, right: bytes) -> int:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).bit_count()


def photograph(width: int, height: int, mode: str = "RGB", **options: object) -> bytes:
    noise = np.random.default_rng(width).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


def test_the_hash_stays_near_the_one_at_full_size_on_real_pictures(shared_data: Path):
    files = sorted(
        path
        for folder in ("vqa_rad", "slake", "pmc_articles", "copies")
        for path in (shared_data / folder).rglob("*.jpg")
    )[::40]
    assert len(files) > 20
    for path in files:
        data = path.read_bytes()
        found, full = screen(data), fingerprint(data)
        assert distance(found.pdq, full.pdq) <= SLACK[PDQ], path.name
        assert (found.phash ^ full.phash).bit_count() <= 6, path.name
        assert abs(found.quality - full.quality) <= 1
        assert (found.bytes, found.width, found.height) == (full.bytes, full.width, full.height)
        assert found.pixels == ""


@pytest.mark.parametrize("size", [(1601, 1203), (769, 1999), (385, 386), (150, 140)])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_odd_sizes_and_colour_models(size, mode):
    data = photograph(*size, mode)
    found, full = screen(data), fingerprint(data)
    assert distance(found.pdq, full.pdq) <= 4
    assert (found.width, found.height) == size


def test_a_turned_photograph_is_screened_as_a_viewer_shows_it():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = photograph(900, 500, exif=exif)
    found, full = screen(data), fingerprint(data)
    assert (found.width, found.height) == (500, 900) == (full.width, full.height)
    assert distance(found.pdq, full.pdq) <= 4


def test_shrinking_stops_before_a_side_gets_too_short():
    for size, expected in (((2000, 300), 1), ((2000, 400), 2), ((1600, 1536), 8), ((100, 90), 1)):
        image, shrunk = decode_shrunk(photograph(*size), 192)
        assert shrunk == expected
        assert image.size == (-(-size[0] // shrunk), -(-size[1] // shrunk))


def test_flat_pictures_are_not_usable_and_broken_ones_say_so():
    flat = io.BytesIO()
    Image.new("RGB", (900, 900), (7, 7, 7)).save(flat, "JPEG")
    assert not screen(flat.getvalue()).usable
    files = [photograph(500, 500), photograph(500, 500)[:-9000], b"no picture", b""]
    assert screen(files[0]).usable
    for broken in files[1:]:
        with pytest.raises(ImageError):
            screen(broken)
    with pytest.raises(ImageError, match="decompression bomb"):
        screen(files[0], max_pixels=1000)
