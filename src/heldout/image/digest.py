"""What identifies a picture exactly: its original bytes, and its native-resolution pixels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image.buffer import grey_jpeg, grey_plane
from heldout.image.decode import REDUCED, decode
from heldout.image.location import ImageRef
from heldout.image.problem import MAX_PIXELS, image_error

# An image whose every channel spans at most this many levels, and in which hardly a pixel differs from
# the others, shows nothing that could identify it. A label map spans few levels and shows a lot.
BLANK_RANGE = 3
BLANK_SHARE = 0.01
# What a pixel digest is taken of; part of the identity of everything that stores one.
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
    extrema = image.getextrema()
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
