"""What identifies a picture exactly: its original bytes, and its native-resolution pixels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from PIL import Image

from heldout.image.decode import MAX_PIXELS, decode
from heldout.image.reference import ImageRef

# An image whose every channel spans at most this many levels shows nothing that could identify it.
BLANK_RANGE = 3


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


def pixel_digest(image: Image.Image) -> str:
    """SHA-256 of mode, shape and native pixels: equal for a PNG and a lossless WebP of one picture."""
    hasher = hashlib.sha256(f"{image.mode} {image.width}x{image.height}\n".encode())
    hasher.update(image.tobytes())
    return hasher.hexdigest()


def is_blank(image: Image.Image) -> bool:
    extrema = image.getextrema()
    bands = [extrema] if isinstance(extrema[0], int | float) else list(extrema)
    scale = 256 if image.mode.startswith("I") else 1  # 16-bit greys: the same share of the range
    return all(high - low <= BLANK_RANGE * scale for low, high in bands)


def digest_bytes(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Digests:
    image = decode(data, max_pixels=max_pixels)
    return Digests(
        bytes=byte_digest(data),
        pixels=pixel_digest(image),
        width=image.width,
        height=image.height,
        mode=image.mode,
        blank=is_blank(image),
    )


def digest_image(ref: ImageRef, *, max_pixels: int = MAX_PIXELS) -> Digests:
    return digest_bytes(ref.read(), max_pixels=max_pixels)
