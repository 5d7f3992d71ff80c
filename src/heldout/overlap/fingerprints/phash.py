"""64-bit pHash, bit for bit as ``imagehash.phash`` computes it."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import dct

from heldout.overlap.fingerprints.fixed_point import is_compiled
from heldout.overlap.fingerprints.lanczos import (
    Floats,
    across,
    centred,
    grey_pixels,
    reduce_compiled,
    reduce_grey,
    weights,
)

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
