"""One walk over a grey picture for both hashes, a stripe at a time.

Only a stripe is ever there as floats: four times the memory of the picture would be, for a very
large one, more than a worker has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from heldout.overlap.fingerprints.bands import Floats
from heldout.overlap.fingerprints.grey import centred
from heldout.overlap.fingerprints.lanczos import across, weights

STRIPE = 1 << 22  # pixels of a stripe: most pictures are one


def reduce_rows(
    grey: NDArray[np.uint8],
    sums: Floats | None = None,
    *,
    down: csr_array,
    stripe: int = STRIPE,
) -> Floats:
    """(64, width): rows smoothed and thinned for PDQ by ``down``.

    Into ``sums``, if given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    step = max(1, stripe // width)
    rows: Floats | None = None
    for start in range(0, height, step):
        stop = min(start + step, height)
        floats = centred(grey[start:stop])
        part = (down if step >= height else down[:, start:stop]) @ floats
        rows = part if rows is None else rows + part
        if sums is not None:
            across(floats, weights(width, len(sums)), sums[:, start:stop])
    assert rows is not None  # the picture has rows
    return rows
