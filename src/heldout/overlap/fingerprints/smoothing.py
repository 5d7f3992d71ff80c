"""PDQ's smoothing and thinning along one axis, as a matrix."""

from __future__ import annotations

import functools

import numpy as np
from scipy.sparse import csr_array

from heldout.overlap.fingerprints.bands import Band, Floats, bands_of

SIDE = 64
GROUP = 8  # neighbouring outputs share samples: few enough to waste little, enough for one product
_NOTHING = 1e-9  # what the differences of running sums leave outside the windows


@functools.lru_cache(maxsize=256)
def smoothing(length: int, shrunk: int = 1) -> tuple[Band, ...]:
    """Of (64, length): two running means of length/128 samples, at 64 evenly spaced places.

    For a picture that was ``shrunk`` from ``length``, each of whose samples is the mean of that many,
    the weights of those add up.
    """
    return bands_of(_weights(length, shrunk), GROUP)


@functools.lru_cache(maxsize=256)
def thinning(length: int, shrunk: int = 1) -> csr_array:
    """The same matrix for products with whole rows of a picture.

    Nearly every row goes into one output only. Adding it there takes less than half the time of a dense
    product, which copies all rows into an order of its own first.
    """
    return csr_array(_weights(length, shrunk))


def _weights(length: int, shrunk: int) -> Floats:
    window = -(-length // (2 * SIDE))
    ahead = (window + 2) // 2 - 1
    behind = window - ahead - 1
    place = np.arange(length)
    low, high = np.maximum(place - behind, 0), np.minimum(place + ahead + 1, length)
    size = high - low
    kept = ((np.arange(SIDE) + 0.5) * length / SIDE).astype(np.int64)
    outer = (place >= low[kept][:, None]) & (place < high[kept][:, None])
    weight = outer / (size[kept][:, None] * size)
    # Sample l is in the window of place j when j is within [l - ahead, l + behind].
    total = np.concatenate([np.zeros((SIDE, 1)), np.cumsum(weight, axis=1)], axis=1)
    first, last = np.maximum(place - ahead, 0), np.minimum(place + behind + 1, length)
    weights: Floats = (total[:, last] - total[:, first]).astype(np.float32)
    weights[np.abs(weights) < _NOTHING] = 0
    return np.add.reduceat(weights, np.arange(0, length, shrunk), axis=1)
