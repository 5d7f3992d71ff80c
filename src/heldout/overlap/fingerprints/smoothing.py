"""PDQ's smoothing and thinning along one axis, as a matrix."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SIDE = 64
GROUP = 8

Floats = NDArray[np.float32]


@functools.lru_cache(maxsize=256)
def smoothing(length: int) -> Floats:
    """(64, length): two passes of a running mean of length/128 samples, at 64 evenly spaced places."""
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
    return weights


@functools.lru_cache(maxsize=256)
def row_bands(length: int) -> tuple[tuple[int, int, Floats], ...]:
    """``smoothing`` in groups of outputs, each cut to the samples it looks at: (from, to, matrix)."""
    full = smoothing(length)
    bands = []
    for start in range(0, SIDE, GROUP):
        group = full[start : start + GROUP]
        used = np.flatnonzero(np.abs(group).max(axis=0) > 1e-9)
        low, high = int(used[0]), int(used[-1]) + 1
        bands.append((low, high, np.ascontiguousarray(group[:, low:high])))
    return tuple(bands)
