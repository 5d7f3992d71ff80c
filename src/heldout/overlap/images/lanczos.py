"""Pillow's 8-bit Lanczos reduction to a few columns and rows, value for value, by matrix products.

Pillow sums integer products one pixel at a time; that takes longer than decoding the JPEG did. Here
single-precision products give every sum with a known largest error, and the few sums that lie so
close to a rounding edge that the error could matter are taken again in integers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import grey_plane, to_rgb
from heldout.overlap.images._scratch import Scratch

# Weighted sums along the rows of a grey picture, in integers and compiled (``_sums.c``).
#
# There where the package was built with a C compiler; without it both hashes take their sums by matrix
# products, with the same result.


PRECISION = 22  # bits of a weight: those of Pillow's reductions
MIDDLE = 128  # grey that is taken off every pixel
_LANE = 16  # pixels that some processors multiply at once


class Windows(NamedTuple):
    """Whole weights of every output's window, and the window's first pixel."""

    starts: NDArray[np.int32]
    weights: NDArray[np.int32]  # (outputs, pixels of a window)


def windows_of(first: NDArray[np.integer], weights: NDArray[np.integer], length: int) -> Windows:
    """Of ``weights`` (outputs, taps) that begin at pixel ``first`` of rows of ``length``."""
    outputs, taps = weights.shape
    # Windows of whole lanes, where the row has room for them; at its right edge they begin earlier.
    width = min(-(-taps // _LANE) * _LANE, length)
    starts = np.minimum(first, length - width)
    wider = np.zeros((outputs, width), np.int32)
    np.put_along_axis(wider, (first - starts)[:, None] + np.arange(taps), weights, 1)
    return Windows(starts.astype(np.int32), wider)


def row_sums(grey: NDArray[np.uint8], windows: Windows) -> NDArray[np.int32]:
    """(outputs, rows) over pixels less ``MIDDLE``; ask ``is_compiled`` first."""
    take = _compiled()
    assert take is not None
    return _summed(take, grey, windows)


def is_compiled() -> bool:
    return _compiled() is not None


@functools.cache
def _compiled() -> Callable[..., bytes] | None:
    """The compiled sums, if they were built and are right on this processor."""
    try:
        from heldout.overlap.images._sums import row_sums as take
    except ImportError:
        return None
    chance = np.random.default_rng(0)
    for rows, length in ((7, 90), (5, 11)):  # whole lanes, and a row shorter than one
        grey = chance.integers(0, 256, (rows, length), dtype=np.uint8)
        weights = chance.integers(-(1 << 15), 1 << 15, (3, length))
        expected = weights @ (grey.astype(np.int64) - MIDDLE).T
        windows = windows_of(np.zeros(3, np.int64), weights, length)
        if not np.array_equal(_summed(take, grey, windows), expected):
            return None
    return take


def _summed(take: Callable[..., bytes], grey: NDArray[Any], windows: Windows) -> NDArray[np.int32]:
    (height, width), (outputs, taps) = grey.shape, windows.weights.shape
    sums = take(np.ascontiguousarray(grey), width, height, outputs, taps, *windows)
    return np.frombuffer(sums, np.int32).reshape(outputs, height)


# A thin banded matrix as a few dense blocks: products with it cost little more than its band.


Floats = NDArray[np.float32]


class Band(NamedTuple):
    """Outputs ``first`` to ``last`` look at samples ``low`` to ``high`` only."""

    first: int
    last: int
    low: int
    high: int
    weights: NDArray[np.floating]  # (last - first, high - low)


def bands_of(matrix: NDArray[np.floating], group: int) -> tuple[Band, ...]:
    """Blocks of ``group`` neighbouring rows, each cut to the columns it uses."""
    bands = []
    for first in range(0, len(matrix), group):
        rows = matrix[first : first + group]
        used = np.flatnonzero(rows.any(axis=0))
        low, high = int(used[0]), int(used[-1]) + 1
        weights = np.ascontiguousarray(rows[:, low:high])
        bands.append(Band(first, first + len(rows), low, high, weights))
    return tuple(bands)


def product(
    bands: tuple[Band, ...], samples: NDArray[np.floating], out: NDArray[np.floating]
) -> None:
    """``out = matrix @ samples`` for the matrix that the bands were cut from."""
    for band in bands:
        np.matmul(band.weights, samples[band.low : band.high], out=out[band.first : band.last])


# Tables that depend on the length of a side: kept for ordinary lengths, made anew for very long ones.


LONGEST = 4096  # beyond it a table is large, and little beside the picture it is for
KEPT = 1024  # of lengths; at the longest some 100 kB each

_Rest = ParamSpec("_Rest")
_Table = TypeVar("_Table")


def remembered(
    make: Callable[Concatenate[int, _Rest], _Table],
) -> Callable[Concatenate[int, _Rest], _Table]:
    """``make`` of a length; what is kept does not grow with the lengths a corpus has."""
    kept = functools.lru_cache(maxsize=KEPT)(make)

    @functools.wraps(make)
    def table(length: int, /, *rest: _Rest.args, **named: _Rest.kwargs) -> _Table:
        if length > LONGEST:
            return make(length, *rest, **named)
        return kept(length, *rest, **named)  # type: ignore[arg-type]  # numbers, all of them

    return table


_SUPPORT = 3.0
_GROUP = 8  # neighbouring outputs share most of their inputs: one product for all of them
_STEP = 2.0**-PRECISION
_UNIT = 2.0**-24  # rounding unit of single precision


@dataclass(frozen=True, slots=True)
class Weights:
    """Fixed-point weights from ``length`` samples to a few outputs."""

    start: NDArray[np.int64]  # first sample of each output's window
    # (outputs, widest window), zero where narrower; 255 times their sum is below 2^31
    window: NDArray[np.int32]
    offset: Floats  # what the middle grey, taken out before, contributes; one for each output
    margin: float  # largest error of a single-precision sum, in grey levels
    bands: tuple[Band, ...]


@remembered
def weights(length: int, outputs: int) -> Weights:
    start, window = _windows(length, outputs)
    width, total = window.shape[1], window.sum(axis=1)
    error = (width + 2) * _UNIT * 128 * float(np.abs(window).sum(axis=1).max()) / (1 << PRECISION)
    return Weights(
        start=start,
        window=window.astype(np.int32),
        offset=(total * MIDDLE / (1 << PRECISION)).astype(np.float32)[:, None],
        margin=error + 2 * 256 * _UNIT * 2,  # and the two operations that follow the sum
        # Whole numbers times a power of two: exact in single precision.
        bands=bands_of((_spread(start, window, length) * _STEP).astype(np.float32), _GROUP),
    )


def _windows(length: int, outputs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each output's window begins, and its weights: (outputs, widest window)."""
    scale = length / outputs
    stretch = max(scale, 1.0)
    reach = _SUPPORT * stretch
    centre = (np.arange(outputs) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), length)
    width = int((last - first).max())
    # A window at the right edge begins earlier instead of running over it; the weights move along.
    start = np.minimum(first, length - width)
    sample = start[:, None] + np.arange(width)
    inside = (sample >= first[:, None]) & (sample < last[:, None])
    place = (sample - centre[:, None] + 0.5) * (1.0 / stretch)
    raw = np.where(inside, _lanczos(place), 0.0)
    share = raw / raw.sum(axis=1, keepdims=True) * (1 << PRECISION)
    window = np.trunc(share + np.copysign(0.5, share)).astype(np.int64)
    window[~inside] = 0
    return start, window


def across(shifted: Floats, fit: Weights, out: Floats) -> None:
    """Unrounded sums along every row of ``centred`` greys, right to within ``fit.margin``.

    ``out`` has a row for each output and a column for each row of the picture.
    """
    product(fit.bands, shifted.T, out)


def reduce_grey(grey: NDArray[np.uint8], sums: Floats, side: int) -> NDArray[np.uint8]:
    """``Image.resize((side, side), LANCZOS)`` of a grey picture; ``sums`` are its ``across``."""
    height, width = grey.shape
    rows = grey if width == side else _settled(grey, sums, weights(width, side)).T
    if height == side:
        return rows.astype(np.uint8, copy=False)
    # Few enough numbers for double precision, in which sums of these integers are exact.
    exact = np.empty((side, side))
    product(_down(height, side), rows.astype(np.float64), exact)
    # Truncation is the floor of what is not negative.
    reduced: NDArray[np.uint8] = np.clip(exact * _STEP + 0.5, 0, 255).astype(np.uint8)
    return reduced


def reduce_compiled(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The same by compiled sums, which are Pillow's own integers."""
    return _reduced_and_turned(_reduced_and_turned(grey, side), side)


def _reduced_and_turned(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Rows reduced to ``side``, and columns for rows."""
    width = grey.shape[1]
    if width == side:
        return grey.T
    windows, offset = _whole_windows(width, side)
    levels = row_sums(grey, windows) + offset
    levels >>= PRECISION
    return np.clip(levels, 0, 255, out=levels).astype(np.uint8)


def _settled(grey: NDArray[np.uint8], sums: Floats, fit: Weights) -> Floats:
    """Sums rounded as Pillow rounds them: whole numbers from 0 to 255."""
    sums = sums + fit.offset
    result = np.rint(sums)
    sums -= result
    np.abs(sums, out=sums)
    # Pillow rounds a half up and ``rint`` to the even number: but a half is close to the edge, too.
    column, row = np.divmod(np.flatnonzero(sums > 0.5 - fit.margin), sums.shape[1])
    if len(row):
        # Every stretch of the picture that is as long as a window, none of them copied: taking whole
        # stretches is several times faster than taking their pixels one by one.
        length = fit.window.shape[1]
        stretches: NDArray[np.uint8] = np.ndarray(
            (grey.size - length + 1, length),
            np.uint8,
            np.ascontiguousarray(grey),
            strides=(1, 1),
        )
        taken = stretches[row * grey.shape[1] + fit.start[column]].astype(np.int32)
        exact = np.einsum("ij,ij->i", taken, fit.window[column])
        result[column, row] = (exact + (1 << (PRECISION - 1))) >> PRECISION
    np.maximum(result, 0, out=result)
    return np.minimum(result, 255, out=result)


@remembered
def _whole_windows(length: int, outputs: int) -> tuple[Windows, NDArray[np.int32]]:
    """Weights along a row; what puts back the grey that was taken off, and rounds: (outputs, 1)."""
    start, window = _windows(length, outputs)
    offset = MIDDLE * window.sum(axis=1) + (1 << (PRECISION - 1))
    return windows_of(start, window, length), offset.astype(np.int32)[:, None]


@remembered
def _down(length: int, outputs: int) -> tuple[Band, ...]:
    fit = weights(length, outputs)
    return bands_of(_spread(fit.start, fit.window, length).astype(np.float64), _GROUP)


def _spread(
    start: NDArray[np.int64], window: NDArray[np.signedinteger], length: int
) -> NDArray[np.int64]:
    """(outputs, length): every window at its place."""
    full = np.zeros((len(start), length), np.int64)
    np.put_along_axis(full, start[:, None] + np.arange(window.shape[1]), window, 1)
    return full


def _lanczos(place: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = (place >= -_SUPPORT) & (place < _SUPPORT)
    return np.where(inside, _sinc(place) * _sinc(place / _SUPPORT), 0.0)


def _sinc(place: NDArray[np.float64]) -> NDArray[np.float64]:
    angle = place * math.pi
    at_zero = angle == 0.0
    return np.where(at_zero, 1.0, np.sin(angle) / np.where(at_zero, 1.0, angle))


# The grey picture both hashes start from, made once.


_scratch = Scratch()


def grey_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Pillow's "L" of the picture as 8-bit RGB: what ``imagehash`` sees."""
    plane = grey_plane(image)
    return grey_of_colours(image) if plane is None else plane


def grey_of_colours(image: Image.Image) -> NDArray[np.uint8]:
    """The same for a picture that is known to have no single plane."""
    plane = grey_plane(to_rgb(image).convert("L"))
    assert plane is not None  # its mode is "L"
    return plane


def centred(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Greys around 0: half the magnitude, so half the rounding error of every sum over them.

    Overwritten by the next call.
    """
    # With the highest bit turned over, the byte of v reads as v - 128: cheaper than a subtraction.
    turned = np.bitwise_xor(grey, 128, out=_scratch.take("turned", grey.shape, np.uint8))
    floats: NDArray[np.float32] = _scratch.take("floats", grey.shape, np.float32)
    np.copyto(floats, turned.view(np.int8))
    return floats
