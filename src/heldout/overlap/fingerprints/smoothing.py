"""PDQ's smoothing and thinning along one axis, as a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from heldout.overlap.fingerprints.bands import Band, Floats
from heldout.overlap.fingerprints.fixed_point import PRECISION, Windows, windows_of
from heldout.overlap.fingerprints.remembered import remembered

SIDE = 64
GROUP = 8  # neighbouring outputs share samples: few enough to waste little, enough for one product
_NOTHING = 1e-9  # what the differences of running sums leave outside the windows


@remembered
def smoothing(length: int, shrunk: int = 1) -> tuple[Band, ...]:
    """Of (64, length): two running means of length/128 samples, at 64 evenly spaced places.

    For a picture that was ``shrunk`` from ``length``, each of whose samples is the mean of that many,
    the weights of those add up.
    """
    first, windows = _windows(length, shrunk)
    taps = windows.shape[1]
    bands = []
    for start in range(0, SIDE, GROUP):
        low, high = int(first[start]), int(first[start + GROUP - 1]) + taps
        block = np.zeros((GROUP, high - low), np.float32)
        places = first[start : start + GROUP, None] - low + np.arange(taps)
        np.put_along_axis(block, places, windows[start : start + GROUP], 1)
        bands.append(Band(start, start + GROUP, low, high, block))
    return tuple(bands)


@remembered
def whole_smoothing(length: int, shrunk: int = 1) -> Windows:
    """The same matrix in whole numbers, of which 2^22 are one."""
    first, windows = _windows(length, shrunk)
    whole = np.rint(windows * (1 << PRECISION)).astype(np.int32)
    return windows_of(first, whole, -(-length // shrunk))


@remembered
def thinning(length: int, shrunk: int = 1) -> csr_array:
    """The same matrix for products with whole rows of a picture.

    Nearly every row goes into one output only. Adding it there takes less than half the time of a dense
    product, which copies all rows into an order of its own first.
    """
    first, windows = _windows(length, shrunk)
    used = windows != 0
    columns = first[:, None] + np.arange(windows.shape[1])
    ends = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    shape = (SIDE, -(-length // shrunk))
    return csr_array((windows[used], columns[used], ends), shape=shape)


def _windows(length: int, shrunk: int) -> tuple[NDArray[np.int64], Floats]:
    """The first sample of each place's window, and the weights from there: (64, widest window)."""
    mean = -(-length // (2 * SIDE))
    ahead = (mean + 2) // 2 - 1
    behind = mean - ahead - 1
    place = np.arange(length)
    low, high = np.maximum(place - behind, 0), np.minimum(place + ahead + 1, length)
    kept = ((np.arange(SIDE) + 0.5) * length / SIDE).astype(np.int64)
    # The second mean is over places from low to high, the first one around each over as many samples.
    low_kept, high_kept = low[kept][:, None], high[kept][:, None]
    begin = np.maximum(low[kept] - behind, 0)[:, None]
    sample = begin + np.arange(2 * mean)
    # Sample l is in the window of place j when j is within [l - ahead, l + behind].
    total = np.concatenate([[0.0], np.cumsum(1.0 / (high - low))])
    last = np.clip(sample + behind + 1, low_kept, high_kept)
    weights = total[last] - total[np.clip(sample - ahead, low_kept, last)]
    weights /= high_kept - low_kept
    # Samples of a shrunk picture stand for several: their weights add up.
    group = sample // shrunk - begin // shrunk
    width = min(int(group.max()) + 1, -(-length // shrunk))
    first = np.minimum(begin[:, 0] // shrunk, -(-length // shrunk) - width)
    folded = np.zeros((SIDE, width))
    inside = sample < length
    row = np.broadcast_to(np.arange(SIDE)[:, None], sample.shape)
    column = sample // shrunk - first[:, None]
    np.add.at(folded, (row[inside], column[inside]), weights[inside])
    folded[np.abs(folded) < _NOTHING] = 0
    return first, folded.astype(np.float32)
