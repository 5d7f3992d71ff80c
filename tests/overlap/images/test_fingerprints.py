"""Fingerprints: equal to the reference implementations, usable only where there is something to see."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.image import (
    byte_digest,
    decode,
    digest_bytes,
    to_rgb,
)
from heldout.overlap.images._pdq import pdq, pdq_poses, reduce_rows, thinning
from heldout.overlap.images.fingerprint import (
    agrees_with_pillow,
    fingerprint,
    phash,
)
from heldout.overlap.images.lanczos import across, centred, grey_pixels, reduce_grey, weights


def distance(left: bytes, right: bytes) -> int:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).bit_count()


def encoded(image: Image.Image, format: str = "PNG", **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def real_files(shared_data: Path, count: int) -> list[Path]:
    """Every n-th real picture: radiographs of two sources, figures, a photograph under changes."""
    files = sorted(
        path
        for folder in ("vqa_rad", "slake", "pmc_articles", "copies")
        for path in (shared_data / folder).rglob("*")
        if path.suffix in (".jpg", ".png")
    )
    return files[:: max(1, len(files) // count)]


def noise(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def smooth(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(noise(12, 12, seed)).resize((width, height), Image.Resampling.BICUBIC)


def test_phash_is_imagehash_bit_for_bit_on_real_pictures(shared_data):
    imagehash = pytest.importorskip("imagehash")
    for path in real_files(shared_data, 40):
        image = decode(path.read_bytes())
        assert phash(image) == int(str(imagehash.phash(image)), 16), path.name


def test_pdq_and_its_quality_are_the_reference_on_real_pictures(shared_data):
    pdqhash = pytest.importorskip("pdqhash")
    for path in real_files(shared_data, 25):
        image = decode(path.read_bytes())
        found, quality = pdq(image)
        bits, expected = pdqhash.compute(np.asarray(to_rgb(image)))
        reference = np.packbits(bits.astype(np.uint8)).tobytes()
        assert distance(found, reference) <= 2, path.name
        assert abs(quality - expected) <= 1


def test_the_fingerprint_of_a_real_file_is_what_the_references_say_of_it(shared_data):
    imagehash, pdqhash = pytest.importorskip("imagehash"), pytest.importorskip("pdqhash")
    files = (
        real_files(shared_data, 8) + sorted((shared_data / "vqa_med_2019").rglob("*.jpg"))[::800]
    )
    for path in files:
        data = path.read_bytes()
        found = fingerprint(data)
        with Image.open(path) as opened:
            assert found.phash == int(str(imagehash.phash(opened)), 16), path.name
            bits, quality = pdqhash.compute(np.asarray(opened.convert("RGB")))
        assert distance(found.pdq, np.packbits(bits.astype(np.uint8)).tobytes()) <= 2, path.name
        assert abs(found.quality - quality) <= 1
        assert found.bytes == hashlib.sha256(data).hexdigest()
        image = decode(data)
        copy = fingerprint(encoded(image, "PNG", compress_level=1))
        assert copy.pixels == found.pixels
        assert (copy.phash, copy.pdq, copy.quality) == (found.phash, found.pdq, found.quality)
        changed = image.copy()
        corner = image.width - 1, image.height - 1
        changed.paste(
            image.crop((*corner, image.width, image.height)).point(lambda v: v ^ 1), corner
        )
        assert fingerprint(encoded(changed, "PNG", compress_level=1)).pixels != found.pixels


@pytest.mark.parametrize(
    "size",
    [(32, 32), (32, 90), (700, 32), (300, 129), (181, 190), (513, 257), (1024, 768), (40, 3)],
)
def test_the_reduction_is_pillows_to_the_last_level(size):
    for grey in (noise(*size), np.asarray(smooth(*size))):
        expected = np.asarray(Image.fromarray(grey).resize((32, 32), Image.Resampling.LANCZOS))
        sums = np.empty((32, size[1]), np.float32)
        across(centred(grey), weights(size[0], 32), sums)
        assert np.array_equal(reduce_grey(grey, sums, 32), expected)
        # Sums as wrong as they are allowed to be change nothing.
        error = 0.9 * weights(size[0], 32).margin
        for wrong in (sums - error, sums + error):
            if size[0] != 32:
                assert np.array_equal(reduce_grey(grey, wrong.astype(np.float32), 32), expected)
                view = np.asfortranarray(grey)  # the same picture, its pixels in another order
                assert np.array_equal(reduce_grey(view, wrong.astype(np.float32), 32), expected)


def test_stripes_of_any_size_give_the_same_numbers():
    grey = np.asarray(smooth(300, 257))
    whole, parts = np.empty((32, 257), np.float32), np.empty((32, 257), np.float32)
    down = thinning(257)
    expected = reduce_rows(grey, whole, down=down)
    for stripe in (1, 7000, 30000):
        parts.fill(np.nan)
        assert np.allclose(reduce_rows(grey, parts, down=down, stripe=stripe), expected, atol=1e-3)
        assert np.array_equal(reduce_grey(grey, parts, 32), reduce_grey(grey, whole, 32))


def test_the_fast_reduction_is_in_use_with_this_pillow():
    assert agrees_with_pillow()


@pytest.mark.parametrize("size", [(5, 4000), (100, 1200), (4000, 5), (1, 1), (31, 33), (200, 300)])
def test_phash_is_imagehash_for_odd_shapes(size):
    imagehash = pytest.importorskip("imagehash")
    image = Image.fromarray(noise(*size))
    assert phash(image) == int(str(imagehash.phash(image)), 16)


def test_phash_is_imagehash_where_frequencies_tie():
    imagehash = pytest.importorskip("imagehash")
    stripes = np.tile(np.repeat(np.array([0, 255], np.uint8), 16), (256, 8))
    half = np.asarray(smooth(256, 256))
    pictures = [
        np.full((200, 300), 7, np.uint8),
        stripes,
        stripes.T,
        np.minimum(half, half[:, ::-1]),  # mirrored: the odd frequencies are nothing but rounding
        np.minimum(half, half[::-1]),
        np.kron(np.eye(2, dtype=np.uint8) * 255, np.ones((150, 150), np.uint8)),
    ]
    for grey in pictures:
        image = Image.fromarray(np.ascontiguousarray(grey))
        assert phash(image) == int(str(imagehash.phash(image)), 16)


def test_a_fingerprint_holds_the_digests_of_the_file_and_its_native_pixels(picture):
    data = picture(3, (40, 30))
    found, digests = fingerprint(data), digest_bytes(data)
    assert found.bytes == digests.bytes == byte_digest(data)
    assert (found.pixels, found.width, found.height) == (digests.pixels, 40, 30)


def test_pixels_are_digested_only_for_sizes_that_are_looked_for(picture):
    data = picture(3, (40, 30))
    assert fingerprint(data, sizes={(30, 40)}).pixels == ""
    assert fingerprint(data, sizes={(40, 30)}).pixels == digest_bytes(data).pixels


def test_hashes_survive_what_digests_do_not():
    image = smooth(400, 300).convert("RGB")
    original = fingerprint(encoded(image))
    copy = fingerprint(encoded(image.resize((256, 192)), "JPEG", quality=60))
    other = fingerprint(encoded(smooth(400, 300, seed=1)))
    assert original.pixels != copy.pixels
    assert distance(original.pdq, copy.pdq) <= 31  # PDQ's threshold for "the same"
    assert (original.phash ^ copy.phash).bit_count() <= 6
    assert distance(original.pdq, other.pdq) > 90


def test_flat_and_faint_pictures_are_not_usable():
    flat = Image.new("RGB", (300, 200), (7, 7, 7))
    gradient = Image.fromarray(np.tile(np.linspace(100, 140, 300).astype(np.uint8), (200, 1)))
    assert not fingerprint(encoded(flat)).usable
    assert not fingerprint(encoded(gradient)).usable
    assert not fingerprint(encoded(Image.fromarray(noise(4, 400)))).usable  # too thin for PDQ
    assert fingerprint(encoded(smooth(400, 300))).usable


def test_hashes_of_poses_come_from_one_transform():
    image = Image.fromarray(noise(32, 32)).resize((576, 576), Image.Resampling.BICUBIC)
    grey = grey_pixels(image)
    found, _ = pdq_poses(image)
    for pose, expected in enumerate(found):
        turned = np.rot90(grey[:, ::-1] if pose >= 4 else grey, pose % 4)
        hashed, _ = pdq(Image.fromarray(np.ascontiguousarray(turned)))
        # The reference's filter leans by half a pixel to one side, so a few bits may differ.
        assert distance(expected, hashed) <= 24, pose
        others = [distance(hashed, other) for number, other in enumerate(found) if number != pose]
        assert distance(expected, hashed) < min(others) / 2


def test_poses_are_the_references_dihedral_hashes():
    pdqhash = pytest.importorskip("pdqhash")
    image = smooth(300, 200).convert("RGB")
    bits, _ = pdqhash.compute_dihedral(np.asarray(image))
    reference = [np.packbits(one.astype(np.uint8)).tobytes() for one in bits]
    found, _ = pdq_poses(image)
    # The same eight, in another order and with turns the other way round.
    assert all(min(distance(one, other) for other in found) <= 2 for one in reference)


def test_wide_greys_and_transparency_are_seen_as_a_viewer_shows_them():
    shown = smooth(200, 160)
    wide = Image.fromarray(np.asarray(shown).astype(np.uint16) * 257)
    assert distance(pdq(wide)[0], pdq(to_rgb(wide))[0]) == 0
    layer = shown.convert("RGBA")
    layer.putalpha(Image.new("L", shown.size, 0))
    assert not fingerprint(encoded(layer)).usable  # nothing of it is visible
