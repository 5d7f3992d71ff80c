"""screen: what a scan asks of every corpus picture first, from a picture decoded small.

The weights of PDQ's filter for the native size are folded onto the shrunk picture, so the hash stays
within a few bits of the one at full size (``bench/fingerprints.py`` counts them). It says which
pictures deserve a look; those get a ``fingerprint``.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from heldout.image import MAX_PIXELS, byte_digest, decode_shrunk, native_size
from heldout.overlap.fingerprints.fingerprint import QUALITY_FLOOR, fingerprint, is_flat
from heldout.overlap.fingerprints.grey import grey_pixels
from heldout.overlap.fingerprints.pdq import hash_bytes, pdq_coefficients
from heldout.overlap.fingerprints.smoothing import smoothing
from heldout.overlap.fingerprints.stripes import reduce_rows

# Three samples for each of PDQ's 64 places: with two, some hashes move by a dozen bits.
LEAST_SIDE = 192


@dataclass(frozen=True, slots=True)
class Screened:
    """``exact`` says whether the hash and the pixel digest are those of a ``Fingerprint``."""

    pdq: bytes  # before the field named bytes, which hides the type for those after it
    quality: int
    usable: bool
    exact: bool
    bytes: str
    pixels: str  # empty unless a picture of this size is looked for
    width: int
    height: int


def screen(
    data: bytes, *, sizes: Container[tuple[int, int]] = (), max_pixels: int = MAX_PIXELS
) -> Screened:
    """First look at ``data``; raises ImageError where ``decode`` does.

    A picture of one of ``sizes``, the native sizes on the other side, may have the same pixels: it is
    decoded whole and its pixels are digested.
    """
    size = native_size(data, max_pixels=max_pixels)
    if size in sizes:
        full = fingerprint(data, max_pixels=max_pixels)
        return Screened(full.pdq, full.quality, full.usable, True, full.bytes, full.pixels, *size)
    image, shrunk = decode_shrunk(data, LEAST_SIDE, max_pixels=max_pixels)
    width, height = size
    grey = grey_pixels(image)
    rows = reduce_rows(grey, bands=smoothing(height, shrunk))
    coefficients, quality = pdq_coefficients(rows, smoothing(width, shrunk))
    return Screened(
        pdq=hash_bytes(coefficients),
        quality=quality,
        usable=quality >= QUALITY_FLOOR and not is_flat(grey),
        exact=False,
        bytes=byte_digest(data),
        pixels="",
        width=width,
        height=height,
    )
