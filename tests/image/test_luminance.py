"""JPEGs without colour, read by their luminance: the pixels of ``decode``, or nothing at all."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from heldout.image import ImageError, decode, decoded_digest, grey_jpeg, grey_plane, pixel_digest
from heldout.image.digest import compiled

needs_compiler = pytest.mark.skipif(
    compiled() is None, reason="built without a C compiler or libjpeg-turbo's headers"
)


def smooth(width: int, height: int, seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (9, 9), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return buffer.getvalue()


@needs_compiler
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (16, 16), (17, 33), (64, 40), (301, 200)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_the_plane_is_that_of_the_decoded_picture(size, subsampling):
    for options in ({}, {"quality": 30}, {"optimize": True}, {"restart_marker_blocks": 3}):
        data = encoded(smooth(*size).convert("RGB"), subsampling=subsampling, **options)
        plane = grey_jpeg(data)
        assert plane is not None
        assert np.array_equal(plane, np.asarray(decode(data))[..., 0])
        assert decoded_digest(data) == pixel_digest(decode(data))


@needs_compiler
def test_one_coloured_block_is_left_to_pillow():
    for corner in ((0, 0), (84, 84), (0, 84), (84, 0)):
        for subsampling in (0, 1, 2):
            image = smooth(100, 100).convert("RGB")
            image.paste((90, 80, 80), (*corner, corner[0] + 16, corner[1] + 16))
            data = encoded(image, subsampling=subsampling, quality=95)
            assert grey_jpeg(data) is None
            assert decoded_digest(data) == pixel_digest(decode(data))


@needs_compiler
def test_what_is_not_plain_is_left_to_pillow():
    grey = smooth(60, 50)
    turned = Image.Exif()
    turned[0x0112] = 6
    others = [
        encoded(grey),  # one channel: Pillow is as fast
        encoded(grey.convert("CMYK")),
        encoded(grey.convert("RGB"), progressive=True),
        encoded(grey.convert("RGB"), exif=turned),
        encoded(grey.convert("RGB"), keep_rgb=True),
    ]
    for data in others:
        assert grey_jpeg(data) is None
        assert decoded_digest(data) == pixel_digest(decode(data))
    buffer = io.BytesIO()
    grey.convert("RGB").save(buffer, "PNG")
    assert grey_jpeg(buffer.getvalue()) is None


def flat_with(sampling: tuple[int, int, int]) -> bytes:
    """A sound JPEG of one grey whose components have these factors, a byte each as in its header."""
    data = bytearray(encoded(Image.new("RGB", (48, 48), (128, 128, 128)), subsampling=0))
    frame = data.index(b"\xff\xc0")
    for component, factors in enumerate(sampling):
        data[frame + 11 + 3 * component] = factors
    scan = data.index(b"\xff\xda")
    del data[scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big") :]
    blocks = [(factors >> 4) * (factors & 15) for factors in sampling]
    high, wide = max(f & 15 for f in sampling), max(f >> 4 for f in sampling)
    # Nothing but zeros, in the standard codes: a difference of 0, and the end of the block.
    unit = "001010" * blocks[0] + "0000" * (blocks[1] + blocks[2])
    bits = unit * (-(-48 // (8 * high)) * -(-48 // (8 * wide)))
    bits += "1" * (-len(bits) % 8)
    codes = bytes(int(bits[k : k + 8], 2) for k in range(0, len(bits), 8))
    return bytes(data) + codes.replace(b"\xff", b"\xff\0") + b"\xff\xd9"


@needs_compiler
def test_factors_that_pillow_refuses_are_not_shown():
    shown = 0
    for luminance in (0x11, 0x21, 0x12, 0x22, 0x31, 0x41):
        for colour in (0x11, 0x21, 0x12):
            data = flat_with((luminance, colour, colour))
            plane = grey_jpeg(data)
            if plane is None:
                continue
            shown += 1
            assert np.array_equal(plane, grey_plane(decode(data)))
    assert shown == 4  # 4:4:4, 4:2:2, 4:4:0 and 4:2:0
    with pytest.raises(ImageError):
        decode(flat_with((0x31, 0x21, 0x21)))  # sound, and refused


@needs_compiler
def test_a_file_that_also_reads_as_dicom_is_left_to_decode():
    data = bytearray(encoded(smooth(60, 50).convert("RGB")))
    words = b" " * (128 - 6) + b"DICM"
    data[2:2] = b"\xff\xfe" + (len(words) + 2).to_bytes(2, "big") + words
    assert grey_jpeg(bytes(data)) is None


def test_what_cannot_be_opened_is_said_as_decode_says_it():
    for data, limit in ((b"\xff\xd8\xff\xe0 no", 100), (encoded(smooth(60, 50)), 100)):
        with pytest.raises(ImageError) as expected:
            decode(data, max_pixels=limit)
        with pytest.raises(ImageError) as found:
            grey_jpeg(data, max_pixels=limit)
            raise expected.value  # nothing is compiled here
        assert found.value.reason == expected.value.reason


@needs_compiler
def test_real_files_without_colour_are_read_by_their_luminance(shared_data):
    files = sorted((shared_data / "vqa_rad").rglob("*.jpg"))[::25]
    files += sorted((shared_data / "pmc_articles").rglob("*.jpg"))[::60]
    read = 0
    for path in files:
        data = path.read_bytes()
        expected, plane = grey_plane(decode(data)), grey_jpeg(data)
        if plane is None:  # colours, or several scans
            continue
        read += 1
        assert np.array_equal(plane, expected), path.name
    assert read > len(files) // 2


@needs_compiler
@pytest.mark.parametrize("subsampling", [0, 2])
def test_damaged_files_are_read_as_pillow_reads_them_or_not_at_all(subsampling):
    """A shortcut may give up; it may not show what Pillow would refuse, or other pixels."""
    sound = encoded(smooth(70, 45).convert("RGB"), subsampling=subsampling, restart_marker_blocks=4)
    chance = np.random.default_rng(subsampling)
    shown = 0
    for trial in range(700):
        data = bytearray(sound)
        if trial % 5 == 0:
            del data[chance.integers(2, len(data)) :]
        elif trial % 5 == 1:
            start = chance.integers(2, len(data))
            del data[start : start + chance.integers(1, 40)]
        else:
            for _ in range(chance.integers(1, 4)):
                data[chance.integers(2, len(data))] = chance.integers(0, 256)
        try:
            plane = grey_jpeg(bytes(data), max_pixels=1 << 20)
        except ImageError:
            continue
        if plane is not None:
            shown += 1
            image = decode(bytes(data), max_pixels=1 << 20)
            assert image.mode == "RGB"
            assert np.array_equal(plane, grey_plane(image))
    assert shown > 20  # damage that nobody can see


@needs_compiler
def test_the_compiled_part_does_not_trust_its_caller():
    from heldout.image._jpeg import luminance, use_library

    data = encoded(smooth(40, 30).convert("RGB"))
    assert luminance(data, 40, 30) is not None
    for size in ((30, 40), (41, 30), (40, 16), (0, 30), (-40, -30), (1 << 30, 1 << 30)):
        assert luminance(data, *size) is None
    assert luminance(b"", 40, 30) is None
    assert not use_library("no such library")
    assert luminance(data, 40, 30) is not None  # the one that was found before stays
