"""One walk over a grey picture for both hashes, a stripe at a time.

Only a stripe is ever there as floats: four times the memory of the picture would be, for a very
large one, more than a worker has.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.fingerprints.bands import Band, Floats
from heldout.overlap.fingerprints.grey import centred
from heldout.overlap.fingerprints.lanczos import across, weights
from heldout.overlap.fingerprints.smoothing import SIDE, smoothing

MINIMUM_SIDE = 5  # PDQ hashes nothing thinner
STRIPE = 1 << 22  # pixels after which a stripe ends: most pictures are one


def reduce_rows(
    grey: NDArray[np.uint8],
    sums: Floats | None = None,
    *,
    bands: tuple[Band, ...] | None = None,
    stripe: int = STRIPE,
) -> Floats:
    """(64, width): rows smoothed and thinned for PDQ; no rows of a picture too thin for it.

    ``bands`` are the ``smoothing`` of its height, unless the picture was shrunk from another. Into
    ``sums``, if given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    if height < MINIMUM_SIDE or width < MINIMUM_SIDE:
        return np.zeros((0, width), np.float32)
    rows = np.empty((SIDE, width), np.float32)
    done = 0
    for run, last in _stripes(bands or smoothing(height), width, stripe):
        start = min(run[0].low, done)
        stop = height if last else max(run[-1].high, done)
        floats = centred(grey[start:stop])
        for band in run:
            part = floats[band.low - start : band.high - start]
            np.matmul(band.weights, part, out=rows[band.first : band.last])
        if sums is not None and stop > done:
            across(floats[done - start :], weights(width, len(sums)), sums[:, done:stop])
        done = stop
    return rows


def _stripes(bands: tuple[Band, ...], width: int, stripe: int) -> Iterator[tuple[list[Band], bool]]:
    """PDQ's bands in runs that span ``stripe`` pixels or a little more; whether it is the last."""
    run: list[Band] = []
    for band in bands:
        run.append(band)
        last = band is bands[-1]
        if last or (band.high - run[0].low) * width >= stripe:
            yield run, last
            run = []
