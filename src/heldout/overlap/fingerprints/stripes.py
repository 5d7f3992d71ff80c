"""One walk over a grey picture for both hashes, a stripe at a time.

A stripe of floats stays in the processor's cache; the whole picture as floats does not, and making
it takes longer than all the sums over it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.fingerprints.grey import centred
from heldout.overlap.fingerprints.lanczos import across, weights
from heldout.overlap.fingerprints.smoothing import GROUP, SIDE, row_bands

MINIMUM_SIDE = 5  # PDQ hashes nothing thinner

Floats = NDArray[np.float32]


def reduce_rows(grey: NDArray[np.uint8], sums: Floats | None = None) -> Floats:
    """(64, width): rows smoothed and thinned for PDQ; no rows of a picture too thin for it.

    Into ``sums``, if given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    if height < MINIMUM_SIDE or width < MINIMUM_SIDE:
        return np.zeros((0, width), np.float32)
    fit = None if sums is None else weights(width, sums.shape[1])
    rows = np.empty((SIDE, width), np.float32)
    done = 0
    for number, (low, high, matrix) in enumerate(row_bands(height)):
        start = min(low, done)
        stop = height if number == SIDE // GROUP - 1 else max(high, done)
        stripe = centred(grey[start:stop])
        np.matmul(matrix, stripe[low - start : high - start], out=rows[number * GROUP :][:GROUP])
        if sums is not None and fit is not None and stop > done:
            sums[done:stop] = across(stripe[done - start :], fit)
        done = stop
    return rows
