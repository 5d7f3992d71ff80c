"""screen: what a scan asks of every corpus picture first, from a picture decoded small.

The weights of PDQ's filter for the native size are folded onto the shrunk picture, so the hashes stay
within a few bits of those at full size (``bench/fingerprints.py`` counts them). They say which pictures
deserve a ``fingerprint``.
"""

from __future__ import annotations

import numpy as np

from heldout.image import MAX_PIXELS, byte_digest, decode_shrunk, native_size
from heldout.overlap.fingerprints.fingerprint import QUALITY_FLOOR, Fingerprint, is_flat
from heldout.overlap.fingerprints.grey import grey_pixels
from heldout.overlap.fingerprints.pdq import hash_bytes, pdq_coefficients
from heldout.overlap.fingerprints.phash import SIDE, phash_of, takes_sums
from heldout.overlap.fingerprints.samples import pdq_samples

# Three samples for each of PDQ's 64 places: with two, some hashes move by a dozen bits.
LEAST_SIDE = 192
# The quality of a shrunk picture may be a point or two off.
QUALITY_SLACK = 3


def screen(data: bytes, digest: str | None = None, *, max_pixels: int = MAX_PIXELS) -> Fingerprint:
    """First look at ``data``, whose digest the caller may know; raises ImageError where ``decode`` does.

    The hashes are near, the pixels are not digested, and ``usable`` is said of all that may be.
    """
    width, height = native_size(data, max_pixels=max_pixels)
    image, shrunk = decode_shrunk(data, LEAST_SIDE, max_pixels=max_pixels)
    grey = grey_pixels(image)
    sums = np.empty((SIDE, len(grey)), np.float32) if takes_sums(grey) else None
    samples = pdq_samples(grey, sums, native=(width, height), shrunk=shrunk)
    coefficients, quality = pdq_coefficients(samples)
    return Fingerprint(
        pdq=hash_bytes(coefficients),
        phash=phash_of(grey, sums),
        quality=quality,
        usable=quality >= QUALITY_FLOOR - QUALITY_SLACK and not is_flat(grey),
        bytes=byte_digest(data) if digest is None else digest,
        pixels="",
        width=width,
        height=height,
    )
