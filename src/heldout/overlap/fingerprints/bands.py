"""A thin banded matrix as a few dense blocks: products with it cost little more than its band."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    found = []
    for first in range(0, len(matrix), group):
        rows = matrix[first : first + group]
        used = np.flatnonzero(rows.any(axis=0))
        low, high = int(used[0]), int(used[-1]) + 1
        weights = np.ascontiguousarray(rows[:, low:high])
        found.append(Band(first, first + len(rows), low, high, weights))
    return tuple(found)


def product(
    bands: tuple[Band, ...], samples: NDArray[np.floating], out: NDArray[np.floating]
) -> None:
    """``out = matrix @ samples`` for the matrix that the bands were cut from."""
    for band in bands:
        np.matmul(band.weights, samples[band.low : band.high], out=out[band.first : band.last])
