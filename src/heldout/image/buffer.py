"""The decoder's own memory as an array, and the one plane of a picture whose channels are equal."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from PIL import __version__ as pillow_version

# v * _SPREAD mod 2^32 is 256 times v's lower 24 bits divided by 0x010101 in the ring modulo 2^24. Division
# by an odd number is one to one there, so the quotient is below 256 just for the 256 multiples
# 0x000000, 0x010101, ... 0xffffff: the pixels whose three channels are equal. The fourth byte falls out.
_SPREAD = np.uint32(pow(0x010101, -1, 1 << 24) << 8)
_LIMIT = 256 << 8
_BLOCK = 1 << 16  # pixels at a time: stays in the cache, and colour shows early
# From 11.2 to 12 Pillow shows its memory to Arrow, too, and crashes on pictures made of an array.
_SAFE_PILLOW = 13


def grey_plane(image: Image.Image) -> NDArray[np.uint8] | None:
    """The picture as one read-only plane of 8-bit greys, or None if it is anything else.

    That is a picture of mode "L", or one of mode "RGB" whose channels are equal in every pixel: most
    radiographs are published so. Nothing is copied where Pillow's memory can be looked at directly.
    """
    if image.mode == "L":
        return _bytes(image)
    if image.mode != "RGB":
        return None
    pixels = _words(image)
    if pixels is None:
        packed = np.asarray(image)
        first = packed[..., 0]
        if np.array_equal(first, packed[..., 1]) and np.array_equal(first, packed[..., 2]):
            return np.ascontiguousarray(first)
        return None
    scratch = np.empty(min(_BLOCK, pixels.size), np.uint32)
    for start in range(0, pixels.size, _BLOCK):
        block = pixels[start : start + _BLOCK]
        if np.multiply(block, _SPREAD, out=scratch[: block.size]).max() >= _LIMIT:
            return None
    return pixels.astype(np.uint8).reshape(image.height, image.width)  # the lowest byte is red


def _bytes(image: Image.Image) -> NDArray[np.uint8]:
    memory = _arrow(image)
    if memory is None:
        return np.asarray(image)
    return np.frombuffer(memory.buffers()[1], np.uint8, image.width * image.height).reshape(
        image.height, image.width
    )


def _words(image: Image.Image) -> NDArray[np.uint32] | None:
    """One little-endian word a pixel: red is its lowest byte, the fourth byte means nothing."""
    memory = _arrow(image)
    if memory is None:
        return None
    return np.frombuffer(
        memory.values.buffers()[1], np.dtype("<u4"), image.width * image.height
    ).astype(np.uint32, copy=False)


def _arrow(image: Image.Image) -> pa.Array | None:
    """Pillow's memory; None where it has no such door or keeps the picture in several pieces."""
    if not _door_is_sound():
        return None
    try:
        return pa.array(image)
    except (ValueError, MemoryError):  # more than one piece
        return None


@functools.cache
def _door_is_sound() -> bool:
    """Whether this build shows its memory as expected: lines without padding, four bytes a colour."""
    major = pillow_version.partition(".")[0]
    if not major.isdigit() or int(major) < _SAFE_PILLOW:
        return False
    colours = np.arange(45, dtype=np.uint8).reshape(3, 5, 3)
    grey, coloured = Image.fromarray(colours[..., 1]), Image.fromarray(colours)
    try:
        flat, listed = pa.array(grey), pa.array(coloured)
        plane = np.frombuffer(flat.buffers()[1], np.uint8, 15)
        words = np.frombuffer(listed.values.buffers()[1], np.uint8, 60)
    except (ValueError, TypeError, AttributeError, pa.ArrowException):
        return False
    return np.array_equal(plane.reshape(3, 5), colours[..., 1]) and np.array_equal(
        words.reshape(3, 5, 4)[..., :3], colours
    )
