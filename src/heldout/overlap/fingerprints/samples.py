"""PDQ's 64 x 64 smoothed samples of a grey picture: compiled where it can be, by products elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.fingerprints.bands import Floats, product
from heldout.overlap.fingerprints.fixed_point import PRECISION, is_compiled, row_sums
from heldout.overlap.fingerprints.smoothing import SIDE, smoothing, thinning, whole_smoothing
from heldout.overlap.fingerprints.stripes import reduce_rows

MINIMUM_SIDE = 5  # PDQ hashes nothing thinner
_STEP = np.float32(2.0**-PRECISION)


def pdq_samples(
    grey: NDArray[np.uint8],
    sums: Floats | None = None,
    *,
    native: tuple[int, int] | None = None,
    shrunk: int = 1,
) -> Floats:
    """(64, 64) around 0; nothing of a picture too thin for it.

    ``native`` is the width and height of the picture that this one was ``shrunk`` from. Into ``sums``, if
    given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    if min(height, width) < MINIMUM_SIDE:
        return np.zeros((0, 0), np.float32)
    wide, high = native or (width, height)
    samples = np.empty((SIDE, SIDE), np.float32)
    if sums is None and is_compiled():
        across = row_sums(grey, whole_smoothing(wide, shrunk)).astype(np.float32)
        product(smoothing(high, shrunk), across.T, samples)
        return samples * _STEP
    rows = reduce_rows(grey, sums, down=thinning(high, shrunk))
    product(smoothing(wide, shrunk), rows.T, samples)
    return samples.T
