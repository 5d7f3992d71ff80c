"""Weighted sums along the rows of a grey picture, in integers and compiled (``_sums.c``).

There where the package was built with a C compiler; without it both hashes take their sums by matrix
products, with the same result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PRECISION = 22  # bits of a weight: those of Pillow's reductions
MIDDLE = 128  # grey that is taken off every pixel
_LANE = 16  # pixels that are multiplied at once


class Digits(NamedTuple):
    """Whole weights as signed bytes, lowest first: w = d0 + 256 d1 + 65536 d2."""

    starts: NDArray[np.int32]  # first pixel of each output's window
    digits: NDArray[np.int8]  # (outputs, 3, pixels of a window)


def digits_of(first: NDArray[np.integer], windows: NDArray[np.integer], length: int) -> Digits:
    """Of ``windows`` (outputs, taps) that begin at pixel ``first`` of rows of ``length``."""
    outputs, taps = windows.shape
    # Windows of whole lanes, where the row has room for them; at its right edge they begin earlier.
    width = min(-(-taps // _LANE) * _LANE, length)
    starts = np.minimum(first, length - width)
    rest = np.zeros((outputs, width), np.int32)
    np.put_along_axis(rest, (first - starts)[:, None] + np.arange(taps), windows, 1)
    digits = np.empty((outputs, 3, width), np.int8)
    for place in range(3):
        digits[:, place] = rest  # its lowest byte, with a sign
        rest = (rest - digits[:, place]) >> 8
    return Digits(starts.astype(np.int32), digits)


def row_sums(grey: NDArray[np.uint8], digits: Digits) -> NDArray[np.int32]:
    """(outputs, rows) over pixels less ``MIDDLE``; ask ``is_compiled`` first."""
    take = _compiled()
    assert take is not None
    return _summed(take, grey, digits)


def is_compiled() -> bool:
    return _compiled() is not None


@functools.cache
def _compiled() -> Callable[..., bytes] | None:
    """The compiled sums, if they were built and are right on this processor."""
    try:
        from heldout.overlap.fingerprints._sums import row_sums as take
    except ImportError:
        return None
    chance = np.random.default_rng(0)
    for rows, length in ((7, 90), (5, 11)):  # whole lanes, and a row shorter than one
        grey = chance.integers(0, 256, (rows, length), dtype=np.uint8)
        weights = chance.integers(-(1 << 15), 1 << 15, (3, length))
        expected = weights @ (grey.astype(np.int64) - MIDDLE).T
        digits = digits_of(np.zeros(3, np.int64), weights, length)
        if not np.array_equal(_summed(take, grey, digits), expected):
            return None
    return take


def _summed(take: Callable[..., bytes], grey: NDArray[Any], digits: Digits) -> NDArray[np.int32]:
    (height, width), (outputs, _, taps) = grey.shape, digits.digits.shape
    sums = take(np.ascontiguousarray(grey), width, height, outputs, taps, *digits)
    return np.frombuffer(sums, np.int32).reshape(outputs, height)
