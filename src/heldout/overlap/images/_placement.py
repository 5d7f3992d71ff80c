"""Where one picture lies on the other: places that are tried, and pulled or snapped to where they fit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from heldout.overlap.images._agreement import Frame, PixelAgreement, compare, lay
from heldout.overlap.images._marks import is_untouched
from heldout.overlap.images._small import SMALL_SIDE
from heldout.overlap.images.features import Hypothesis, PictureFeatures

SETTLED = 0.9995  # correlation of detail with which they lie where they should, whatever differs elsewhere
NEARLY_EXACT = 0.02  # by which turn and scale of a warp may be off a flip or whole quarters
UNSURE = 0.25  # pixels about a half, where rounding a shift may lead to the wrong side

Tried = tuple[Hypothesis, Frame, PixelAgreement]


def unlike(tried: Tried) -> float:
    """Under a large mark a window in five differs however well they lie: then the median counts."""
    agreement = tried[2]
    if agreement.detail >= SETTLED:
        return -1.0 - agreement.detail
    return agreement.residual - agreement.detail


def compare_at(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures, hypothesis: Hypothesis
) -> list[Tried]:
    frame = lay(cv2, query, candidate, hypothesis.warp)
    if frame is None:
        return []
    return [(hypothesis, frame, compare(cv2, frame, hypothesis.inverted))]


def refine(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures, start: Hypothesis, frame: Frame
) -> list[Tried]:
    pulled = pull(cv2, start, frame)
    return compare_at(cv2, query, candidate, pulled) if pulled is not None else []


def pull(cv2: Any, start: Hypothesis, frame: Frame) -> Hypothesis | None:
    """Let the pixels themselves pull the warp into place (Evangelidis and Psarakis 2008)."""
    theirs = 255.0 - frame.candidate if start.inverted else frame.candidate
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 25, 1e-4)
    still = np.eye(2, 3, dtype=np.float32)
    mask = frame.inside.astype(np.uint8)
    try:
        softened = 5 if min(mask.shape) >= SMALL_SIDE else 1
        _, correction = cv2.findTransformECC(
            frame.query, theirs, still, cv2.MOTION_AFFINE, criteria, mask, softened
        )
    except cv2.error:  # it does not converge on pictures that do not fit
        return None
    nudge = np.vstack([correction.astype(np.float64), [0.0, 0.0, 1.0]])
    warp = start.warp @ frame.to_query @ nudge @ np.linalg.inv(frame.to_query)
    return replace(start, warp=warp)


def snap(
    cv2: Any,
    query: PictureFeatures,
    candidate: PictureFeatures,
    start: Tried,
) -> Tried | None:
    """The same by whole pixels, if they are the same pixels: a crop that nobody resized or compressed."""
    hypothesis, frame, _ = start
    linear = hypothesis.warp[:2, :2]
    exact = np.rint(linear)
    if np.abs(linear - exact).max() > NEARLY_EXACT or abs(np.linalg.det(exact)) != 1:
        return None
    rows, columns = np.nonzero(frame.inside)
    middle = frame.to_query @ np.array([columns.mean(), rows.mean(), 1.0])
    middle = middle / middle[2]
    reached = hypothesis.warp @ middle
    offset = reached[:2] / reached[2] - exact @ middle[:2]
    # A panel that was cut a line too wide is laid half a pixel off: then either side may be right.
    ways = [sorted({round(shift - UNSURE), round(shift + UNSURE)}) for shift in offset]
    for across, down in itertools.product(*ways):
        warp = np.eye(3)
        warp[:2, :2] = exact
        warp[:2, 2] = across, down
        for moved in compare_at(cv2, query, candidate, replace(hypothesis, warp=warp)):
            if is_untouched(cv2, moved[1], hypothesis.inverted):
                return moved
    return None
