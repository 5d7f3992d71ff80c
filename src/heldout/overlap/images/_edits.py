"""Grey levels from which on a difference shows an edit, where two pictures lie exactly on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images._tone import CELLS, PLACE
from heldout.overlap.images.features import Floats

EDITED = 2.5  # grey levels, where most of both is the same to the last level
STORED_AGAIN = 8.0  # … where a JPEG was stored once more, as what differs is
SCATTERED = 0.6  # share of it in one place, at most,
BOTH_WAYS = 0.95  # and of what is lighter, or darker
EDITED_TONED = 7.0  # … through a tone curve, which is not known of every level
EDITED_USUAL = 2.0  # times the most that nine tenths of all cells differ by
CELL = 16  # pixels


def edited_levels(difference: Floats, mask: NDArray[np.bool_]) -> float:
    """The grey levels of a picture most of which is the same to the last level.

    A JPEG that is stored once more keeps most of its pixels; what it changes is lighter here and darker
    there, all over the picture. An edit is in one place.
    """
    changed = mask & (np.abs(difference) >= 1)
    lighter = float((difference[changed] > 0).mean()) if changed.any() else 0.0
    if not 1 - BOTH_WAYS <= lighter <= BOTH_WAYS:
        return EDITED
    rows, columns = np.nonzero(mask)
    bounds = [(int(axis.min()), int(axis.max()) + 1) for axis in (rows, columns)]
    down, across = np.nonzero(changed)
    cells, _, _ = np.histogram2d(down, across, bins=CELLS, range=bounds)
    places = np.lib.stride_tricks.sliding_window_view(cells, (PLACE, PLACE)).sum(axis=(2, 3))
    return EDITED if float(places.max()) > SCATTERED * float(cells.sum()) else STORED_AGAIN


def edited_in_tone(cv2: Any, apart: Floats, mask: NDArray[np.bool_]) -> float:
    """The grey levels of a picture in the tone of the other: more than nearly everywhere in it."""
    peaks = cv2.dilate(cv2.blur(apart, (3, 3)) * mask, np.ones((CELL, CELL), np.uint8))
    some = np.s_[CELL // 2 :: CELL, CELL // 2 :: CELL]
    inside = peaks[some][mask[some]]
    usual = float(np.percentile(inside, 90)) if len(inside) else 0.0
    return max(EDITED_TONED, EDITED_USUAL * usual)
