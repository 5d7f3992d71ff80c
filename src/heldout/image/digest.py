"""What identifies a picture exactly: its original bytes, and its native-resolution pixels."""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image, _imaging
from PIL import __version__ as pillow_version

from heldout.image._dicom import is_dicom
from heldout.image.decode import ORIENTATION, REDUCED, decode, open_image
from heldout.image.location import ImageRef
from heldout.image.problem import JPEG, MAX_PIXELS, image_error

# The decoder's own memory as an array, and the one plane of a picture whose channels are equal.


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
    radiographs are published like that. Nothing is copied where Pillow's memory can be looked at directly.
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
    """Pillow's memory; None if it has no such interface or keeps the picture in several pieces."""
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


# The one plane of a JPEG that was saved in colour and holds none, without making its colours.
#
# The compiled part (``_jpeg.c``) is there where the package was built with a C compiler and the headers of
# libjpeg-turbo; it calls the decoder that Pillow has loaded. What it gives up, and everything where it is
# missing, ``decode`` does.


def grey_jpeg(data: bytes, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8] | None:
    """``grey_plane(decode(data))`` of such a file; None of any other, and where nothing is compiled.

    Raises ImageError where a JPEG cannot be opened at all or is too large, as ``decode`` does.
    """
    luminance = compiled() if data.startswith(JPEG) and not is_dicom(data) else None
    if luminance is None:
        return None
    image = open_image(data, max_pixels)
    if image.format != "JPEG" or image.mode != "RGB" or not _lies_straight(image):
        return None
    try:
        plane = luminance(data, image.width, image.height)
    except MemoryError:  # ``decode`` raises the error, as for any picture
        return None
    if plane is None:
        return None
    return np.frombuffer(plane, np.uint8).reshape(image.height, image.width)


@functools.cache
def compiled() -> Callable[[bytes, int, int], bytes | None] | None:
    """The compiled decoder, if it was built and gives the same greys as this build of Pillow."""
    try:
        from heldout.image._jpeg import luminance, use_library
    except ImportError:
        return None
    if not use_library(str(_imaging.__file__)):
        return None
    greys = np.random.default_rng(0).integers(0, 256, (5, 7), dtype=np.uint8)
    picture = Image.fromarray(greys).resize((75, 43), Image.Resampling.BICUBIC).convert("RGB")
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    with Image.open(file) as opened:
        expected = opened.getchannel("R").tobytes()
    return luminance if luminance(file.getvalue(), 75, 43) == expected else None


def _lies_straight(image: Image.Image) -> bool:
    try:
        return bool(image.getexif().get(ORIENTATION, 1) == 1)
    except Exception:  # a broken EXIF block, which decode handles
        return False


# An image whose every channel spans at most this many levels, and in which hardly a pixel differs from
# the others, shows nothing that could identify it. A label map spans few levels and shows a lot.
BLANK_RANGE = 3
_FEW = 32  # pixels a side
BLANK_SHARE = 0.01
# How a pixel digest is computed; part of the identity of everything that stores one.
PIXEL_DIGEST = "sha256/2"


@dataclass(frozen=True, slots=True)
class Digests:
    """Exact identity of one image; ``blank`` images identify nothing and must never match."""

    bytes: str
    pixels: str
    width: int
    height: int
    mode: str
    blank: bool


def byte_digest(data: bytes) -> str:
    """SHA-256 of the file as it was published: ``sha256sum`` prints the same."""
    return hashlib.sha256(data).hexdigest()


def pixel_digest(image: Image.Image, plane: NDArray[np.uint8] | None = None) -> str:
    """SHA-256 of mode, shape and native pixels: equal for a PNG and a lossless WebP of one picture.

    Of an RGB picture whose channels are equal in every pixel one channel is digested, and the header
    says so: three times the bytes would identify it no better. ``plane`` is its ``grey_plane`` where
    the caller has it already.

    Where decoding lost bits (16-bit colours), the file's own digest joins in: two pictures that
    differ only in what was lost are two, and only the same file is the same.
    """
    plane = grey_plane(image) if plane is None else plane
    if plane is not None and image.mode == "RGB":
        return grey_digest(plane, str(image.info.get(REDUCED, "")))
    hasher = hashlib.sha256(f"{image.mode} {image.width}x{image.height}\n".encode())
    hasher.update(str(image.info.get(REDUCED, "")).encode())
    hasher.update(image.tobytes() if plane is None else plane.data)
    return hasher.hexdigest()


def grey_digest(plane: NDArray[np.uint8], reduced: str = "") -> str:
    """``pixel_digest`` of the RGB picture whose three channels are ``plane``."""
    height, width = plane.shape
    hasher = hashlib.sha256(f"RGB {width}x{height} grey\n{reduced}".encode())
    hasher.update(plane.data)
    return hasher.hexdigest()


def decoded_digest(data: bytes) -> str:
    """``pixel_digest(decode(data))``, sooner where the file is a JPEG without colour."""
    plane = grey_jpeg(data)
    return pixel_digest(decode(data)) if plane is None else grey_digest(plane)


def is_blank(image: Image.Image) -> bool:
    """True if the image is flat but for a speck: narrow in every channel and nearly of one colour."""
    if image.mode == "F":
        # Pillow's extrema are those of the first pixel where that is NaN.
        pixels = np.asarray(image)
        finite = pixels[np.isfinite(pixels)]
        return finite.size == 0 or bool(finite.min() == finite.max())
    bands: list[tuple[float, float]] = []
    # A few pixels tell most pictures; only one that looks flat in them is looked at whole.
    few = (min(image.width, _FEW), min(image.height, _FEW))
    first = (image.resize(few, Image.Resampling.NEAREST),) if image.mode in ("L", "RGB") else ()
    for shown in (*first, image):
        extrema = shown.getextrema()
        bands = [extrema] if isinstance(extrema[0], int | float) else list(extrema)
        if any(high - low > BLANK_RANGE for low, high in bands):
            return False
    # At most four levels a channel: two bits each tell every colour apart.
    levels = np.asarray(image, dtype=np.int64).reshape(image.width * image.height, len(bands))
    codes = np.zeros(len(levels), dtype=np.int64)
    for channel, (low, _) in enumerate(bands):
        codes = codes * (BLANK_RANGE + 1) + levels[:, channel] - int(low)
    return bool(len(codes) - np.bincount(codes).max() < BLANK_SHARE * len(codes))


def digest_bytes(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Digests:
    image = decode(data, max_pixels=max_pixels)
    try:
        return Digests(
            bytes=byte_digest(data),
            pixels=pixel_digest(image),
            width=image.width,
            height=image.height,
            mode=image.mode,
            blank=is_blank(image),
        )
    except MemoryError as error:
        raise image_error(error) from error


def digest_image(ref: ImageRef, *, max_pixels: int = MAX_PIXELS) -> Digests:
    return digest_bytes(ref.read(), max_pixels=max_pixels)
