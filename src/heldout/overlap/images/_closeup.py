"""Small print: is something else written in a copy, too small to be seen where registration compares?

Registration compares on a grid of a few hundred pixels, on which a word of a page or a figure in a table is
a grey smear. What it calls a copy is therefore compared once more, close up: strokes that only one of the
two has are an edit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images._agreement import GRID_SIDE, resample, without_margin
from heldout.overlap.images._marks import left_unexplained, stand_for_others
from heldout.overlap.images._registration import Rows
from heldout.overlap.images._tone import in_tone_of
from heldout.overlap.images.features import Floats

SIDE = 1600  # longest side of the grid: letters of a scanned page have a dozen pixels there
CLOSER = 1.2  # times the grid of registration, from which on there is more to see
PULLS = 20  # steps of pulling one picture onto the other
STROKE_LEVELS = 45.0  # grey levels that compression leaves unexplained at no stroke
STROKE_PIXELS = 14  # that hang together; dithering to a few colours leaves some


def is_rewritten(
    query: Image.Image, candidate: Image.Image, warp: Rows, *, inverted: bool, marked: bool
) -> bool:
    """Whether strokes that registration could not see are in only one of two pictures it calls copies.

    ``marked``: one of the two has a mark, whose strokes are its own; then only letters count that
    stand in the place of others.
    """
    import cv2

    frame = _frame(cv2, query, candidate, np.array(warp, np.float64))
    if frame is None:
        return False
    ours, theirs, mask = frame
    fitted = in_tone_of(255.0 - theirs if inverted else theirs, ours, mask)
    strong = _strokes(cv2, ours, fitted, mask)
    return bool(strong.any()) and (not marked or stand_for_others(strong, ours, fitted))


def _strokes(cv2: Any, ours: Floats, theirs: Floats, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    left = left_unexplained(cv2, theirs, ours, mask)
    strong = ((left > STROKE_LEVELS) & mask).astype(np.uint8)
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(strong, connectivity=8)
    large = statistics[:, cv2.CC_STAT_AREA] >= STROKE_PIXELS
    large[0] = False
    return np.asarray(large[labels])


def _frame(
    cv2: Any, query: Image.Image, candidate: Image.Image, warp: NDArray[np.float64]
) -> tuple[Floats, Floats, NDArray[np.bool_]] | None:
    """Both in greys on one grid; None where they show no more on it than registration has seen."""
    ours, theirs = (np.asarray(to_rgb(each).convert("L")) for each in (query, candidate))
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2] / warp[2, 2]))))
    seen = min(max(query.size), max(candidate.size) / zoom)  # of the query's pixels
    factor = min(1.0, zoom, SIDE / seen)
    if factor * seen < CLOSER * GRID_SIDE:
        return None
    height, width = ours.shape
    size = (round(width * factor), round(height * factor))
    step = 1.0 / factor
    middle = (step - 1.0) / 2
    grid = np.array([[step, 0.0, middle], [0.0, step, middle], [0.0, 0.0, 1.0]])
    first, in_first = resample(cv2, ours, grid, size, step)
    second, in_second = resample(cv2, theirs, warp @ grid, size, zoom * step)
    inside = in_first & in_second
    if not np.array_equal(warp, np.eye(3)):
        nudge = _pulled(cv2, first, second, inside)
        if nudge is None:
            return None
        second, in_second = resample(cv2, theirs, warp @ grid @ nudge, size, zoom * step)
        inside = in_first & in_second
    mask = without_margin(cv2, inside)
    return (first, second, mask) if mask.sum() >= 256 else None


def _pulled(
    cv2: Any, first: Floats, second: Floats, inside: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, PULLS, 1e-4)
    still = np.eye(2, 3, dtype=np.float32)
    try:
        _, nudge = cv2.findTransformECC(
            first, second, still, cv2.MOTION_AFFINE, criteria, inside.astype(np.uint8), 5
        )
    except cv2.error:  # it does not converge where there is nothing to hold on to
        return None
    return np.vstack([nudge.astype(np.float64), [0.0, 0.0, 1.0]])
