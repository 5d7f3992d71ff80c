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
        from heldout.overlap.fingerprints._sums import row_sums as take
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
