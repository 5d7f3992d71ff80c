"""fingerprint: everything that identifies one picture without a model, from one decoding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import dct

from heldout.image import (
    BLANK_RANGE,
    MAX_PIXELS,
    byte_digest,
    decode,
    decode_shrunk,
    grey_digest,
    grey_jpeg,
    grey_plane,
    native_size,
    pixel_digest,
)
from heldout.overlap.images._pdq import hash_bytes, pdq_coefficients, pdq_samples
from heldout.overlap.images._scratch import keep_freed_memory
from heldout.overlap.images.lanczos import (
    Floats,
    across,
    centred,
    grey_of_colours,
    grey_pixels,
    is_compiled,
    reduce_compiled,
    reduce_grey,
    weights,
)

# 64-bit pHash, bit for bit as ``imagehash.phash`` computes it.


SIDE = 32
HASH_SIDE = 8
# Sums of 1,024 greys, up to a million: double precision is right to far less than this.
CLEAR = 1e-6
# Below this many pixels Pillow's own reduction is faster than preparing ours.
SMALL = 1 << 15
# Beyond this the tables of ours are larger than the picture.
LONG = 1 << 16
# Pillow reduces across first, then down, except in tall pictures, where some versions do not.
TALL = 1.5


def phash(image: Image.Image) -> int:
    """The hash whose hexadecimal digits ``str(imagehash.phash(image))`` prints."""
    pixels = grey_pixels(image)
    return phash_of(pixels, _sums(pixels) if takes_sums(pixels) else None)


def takes_sums(pixels: NDArray[np.uint8]) -> bool:
    """Whether ``phash_of`` wants the sums along the rows of a picture of this shape."""
    return not is_compiled() and _is_ours(pixels)


def phash_of(pixels: NDArray[np.uint8], sums: Floats | None) -> int:
    """``phash`` of a grey picture, from the sums along its rows where it ``takes_sums``."""
    if sums is not None:
        small = reduce_grey(pixels, sums, SIDE)
    elif is_compiled() and _is_ours(pixels):
        small = reduce_compiled(pixels, SIDE)
    else:
        small = _pillow(pixels)
    greys = small.astype(np.float64)
    above = _above_the_median(_cosines() @ greys @ _cosines().T)
    if np.abs(above).min() < CLEAR:
        # Flat pictures have ties, which other sums break otherwise: the transform of imagehash decides.
        above = _above_the_median(dct(dct(greys, axis=0)[:HASH_SIDE], axis=1)[:, :HASH_SIDE])
    return int.from_bytes(np.packbits(above > 0).tobytes(), "big")


def _above_the_median(low: NDArray[np.float64]) -> NDArray[np.float64]:
    ordered = np.sort(low, axis=None)
    half = len(ordered) // 2
    above: NDArray[np.float64] = low - (ordered[half - 1] + ordered[half]) / 2
    return above


@functools.cache
def _cosines() -> NDArray[np.float64]:
    """The lowest frequencies of SciPy's transform as a matrix."""
    frequency, place = np.arange(HASH_SIDE)[:, None], np.arange(SIDE)
    cosines: NDArray[np.float64] = 2 * np.cos(np.pi * frequency * (2 * place + 1) / (2 * SIDE))
    return cosines


def _is_ours(pixels: NDArray[np.uint8]) -> bool:
    """Whether a reduction of ours is both right and faster for a picture of this shape."""
    height, width = pixels.shape
    return (
        pixels.size >= SMALL
        and height <= TALL * width
        and SIDE <= width <= LONG
        and agrees_with_pillow()
    )


@functools.cache
def agrees_with_pillow() -> bool:
    """Whether this build of Pillow rounds as ours does; if one day it does not, it is asked instead."""
    noise = np.random.default_rng(0).integers(0, 256, (240, 240), dtype=np.uint8)
    shapes = (noise, noise[:90], np.ascontiguousarray(noise[:, :160]))
    return all(np.array_equal(_reduced(grey), _pillow(grey)) for grey in shapes)


def _reduced(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return (
        reduce_compiled(pixels, SIDE) if is_compiled() else reduce_grey(pixels, _sums(pixels), SIDE)
    )


def _sums(pixels: NDArray[np.uint8]) -> Floats:
    height, width = pixels.shape
    sums = np.empty((SIDE, height), np.float32)
    across(centred(pixels), weights(width, SIDE), sums)
    return sums


def _pillow(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    small = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.asarray(small)


# PDQ's own advice: below this quality a picture has too little texture for its hash to mean much.
QUALITY_FLOOR = 50


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """``usable`` says whether the two hashes may take part in a match at all."""

    pdq: bytes  # before the field named bytes, which hides the type for those after it
    phash: int
    quality: int
    usable: bool
    bytes: str
    pixels: str  # empty where the caller knew that no picture of this size is looked for
    width: int
    height: int


def fingerprint(
    data: bytes,
    digest: str | None = None,
    *,
    sizes: Container[tuple[int, int]] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Fingerprint:
    """Fingerprint of the first frame of ``data``, whose digest the caller may know; raises ImageError
    where ``decode`` does.

    ``sizes`` are the native sizes that occur on the other side. Pictures of different size have
    different pixels, so the digest of a picture of any other size is not taken.
    """
    keep_freed_memory()
    digest = byte_digest(data) if digest is None else digest
    plane = grey_jpeg(data, max_pixels=max_pixels)
    if plane is None:
        return fingerprint_image(decode(data, max_pixels=max_pixels), digest, sizes=sizes)
    return _fingerprint(plane, digest, lambda: grey_digest(plane), sizes)


def fingerprint_image(
    image: Image.Image, digest: str, *, sizes: Container[tuple[int, int]] | None = None
) -> Fingerprint:
    """The same for a picture that is decoded already; ``digest`` is that of its file."""
    plane = grey_plane(image)
    grey = grey_of_colours(image) if plane is None else plane
    return _fingerprint(grey, digest, lambda: pixel_digest(image, plane), sizes)


def _fingerprint(
    grey: NDArray[np.uint8],
    digest: str,
    pixels: Callable[[], str],
    sizes: Container[tuple[int, int]] | None,
) -> Fingerprint:
    height, width = grey.shape
    sums = np.empty((SIDE, height), np.float32) if takes_sums(grey) else None
    coefficients, quality = pdq_coefficients(pdq_samples(grey, sums))
    return Fingerprint(
        bytes=digest,
        pixels=pixels() if sizes is None or (width, height) in sizes else "",
        width=width,
        height=height,
        phash=phash_of(grey, sums),
        pdq=hash_bytes(coefficients),
        quality=quality,
        usable=quality >= QUALITY_FLOOR and not is_flat(grey),
    )


def is_flat(grey: NDArray[np.uint8]) -> bool:
    # A few pixels tell most pictures; only one that looks flat in them is looked at whole.
    return all(
        int(part.max()) - int(part.min()) <= BLANK_RANGE for part in (grey[::16, ::16], grey)
    )


# Fingerprints of many pictures: what one worker of an engine does.


# screen: what a scan asks of every corpus picture first, from a picture decoded small.
#
# The weights of PDQ's filter for the native size are folded onto the shrunk picture, so the hashes stay
# within a few bits of those at full size (``bench/fingerprints.py`` counts them). They say which pictures
# deserve a ``fingerprint``.


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
