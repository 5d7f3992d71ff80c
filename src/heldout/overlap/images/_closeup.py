"""Small print: is something else written in a copy, too small to be seen where registration compares?

Registration compares on a grid of a few hundred pixels, on which a word of a page or a figure in a table is
a grey smear. What it calls a copy is therefore compared once more, close up: strokes that only one of the
two has are an edit, and so is a spot that differs far more than print does elsewhere in the same two pictures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images._agreement import resample, without_margin
from heldout.overlap.images._marks import (
    added_label,
    left_unexplained,
    stand_for_others,
    steepness,
    unexplained_by_either,
)
from heldout.overlap.images._registration import Rows
from heldout.overlap.images._tone import in_tone_of, tone_curve
from heldout.overlap.images.features import Floats

SIDE = 1600  # longest side of the grid: letters of a scanned page have a dozen pixels there
LEAST_SIDE = 176  # of the grid, on which print can be read
SLANT = (0.25, 2.0)  # pixels at the rim, that a warp may have by mistake
PULLS = 20  # steps of pulling one picture onto the other
STROKE_LEVELS = 45.0  # grey levels that compression leaves unexplained at no stroke
STROKE_PIXELS = 14  # that hang together; dithering to a few colours leaves some
DIFFERS = 0.5  # share of the levels, by which the greys themselves differ somewhere in a stroke
SOFT = 0.7  # pixels: what resampling makes of the finest detail depends on where its pixels fall
CELL = 16  # pixels: about a figure
STEEP, STEEP_SHARE = (
    16.0,
    0.5,
)  # grey levels a pixel, and share of the steepest: edges of print have at least as many
USUAL = 90  # per cent of the cells with such edges, which differ by no more than is usual
FEW_CELLS = 8  # of which all are usual
BESIDE = 2  # cells that may belong to the same spot
SPOT_LEVELS = 20.0  # grey levels, softened, that compression leaves unexplained at no spot
SPOT_TIMES = 2.5  # what is usual: copies stay below, one figure for another is beyond
SPOT_PIXELS = 6


def is_rewritten(
    query: Image.Image, candidate: Image.Image, warp: Rows, *, inverted: bool, marked: bool
) -> bool:
    """Whether strokes that registration could not see are in only one of two pictures it calls copies.

    ``marked``: one of the two has a mark, whose strokes are its own; then only letters count that
    stand in the place of others.
    """
    import cv2

    frame = _frame(cv2, query, candidate, np.array(warp, np.float64), inverted)
    if frame is None:
        return False
    ours, theirs, inside = frame
    mask = without_margin(cv2, inside)
    fitted = in_tone_of(theirs, ours, mask)
    if marked:
        strong = _strokes(cv2, ours, fitted, mask, STROKE_LEVELS)
        return bool(strong.any()) and stand_for_others(strong, ours, fitted)
    if not _is_edited(cv2, ours, fitted, mask):
        return False
    # A page of panels is made smaller before registration compares it: the letter of a panel may show only here.
    label = added_label(cv2, ours, fitted, inside)
    if label is not None:
        mask = mask & ~label
        if not _is_edited(cv2, ours, fitted, mask):
            return False
    curve = tone_curve(ours, theirs, mask)
    if curve is None:
        return True
    # A tone that was flattened cannot be brought back: what was changed shows the way that was gone, too.
    toned = np.interp(ours, np.arange(len(curve)), curve).astype(np.float32)
    flattened = min(1.0, _contrast(theirs, mask) / _contrast(ours, mask))
    return _is_edited(cv2, toned, theirs, mask, flattened)


def _is_edited(
    cv2: Any, ours: Floats, theirs: Floats, mask: NDArray[np.bool_], flattened: float = 1.0
) -> bool:
    strokes = _strokes(cv2, ours, theirs, mask, STROKE_LEVELS * flattened)
    return bool(strokes.any()) or _stands_out(cv2, ours, theirs, mask, SPOT_LEVELS * flattened)


def _stands_out(
    cv2: Any, ours: Floats, theirs: Floats, mask: NDArray[np.bool_], levels: float
) -> bool:
    """Whether a spot differs far more than print does elsewhere.

    A copy that was resized lies a fraction of a pixel off at all edges alike. An allowance for the worst of that at
    every edge would be an allowance for one figure in the place of another, whose strokes lie beside its own.
    """
    ours, theirs = (cv2.GaussianBlur(each, (0, 0), SOFT) for each in (ours, theirs))
    left = unexplained_by_either(cv2, theirs, ours, mask) * mask
    steep = np.maximum(steepness(cv2, ours), steepness(cv2, theirs)) * mask
    some, square = np.s_[CELL // 2 :: CELL, CELL // 2 :: CELL], np.ones((CELL, CELL), np.uint8)
    inside = mask[some]
    peaks, edges = (cv2.dilate(each, square)[some] * inside for each in (left, steep))
    bar = max(STEEP, STEEP_SHARE * float(np.percentile(edges[inside], 99.5)))
    row, column = np.unravel_index(np.argmax(peaks), peaks.shape)
    elsewhere = inside & (edges >= bar)
    elsewhere[
        max(0, row - BESIDE) : row + BESIDE + 1, max(0, column - BESIDE) : column + BESIDE + 1
    ] = False
    others = peaks[elsewhere]
    share = USUAL if len(others) >= FEW_CELLS else 100
    usual = float(np.percentile(others, share)) if len(others) else 0.0
    bar = max(levels, SPOT_TIMES * usual)
    return bool(_pieces(cv2, left > bar, np.abs(ours - theirs), bar, SPOT_PIXELS).any())


def _strokes(
    cv2: Any, ours: Floats, theirs: Floats, mask: NDArray[np.bool_], levels: float
) -> NDArray[np.bool_]:
    left = left_unexplained(cv2, theirs, ours, mask)
    return _pieces(cv2, (left > levels) & mask, np.abs(ours - theirs), levels, STROKE_PIXELS)


def _pieces(
    cv2: Any, strong: NDArray[np.bool_], apart: Floats, levels: float, pixels: int
) -> NDArray[np.bool_]:
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(
        strong.astype(np.uint8), connectivity=8
    )
    large = statistics[:, cv2.CC_STAT_AREA] >= pixels
    # Beside a large mark a filter rings: what it leaves there is no stroke, and the greys are the same.
    large &= np.bincount(labels[apart > DIFFERS * levels], minlength=count) > 0
    large[0] = False
    return np.asarray(large[labels])


def _frame(
    cv2: Any, query: Image.Image, candidate: Image.Image, warp: NDArray[np.float64], inverted: bool
) -> tuple[Floats, Floats, NDArray[np.bool_]] | None:
    """Both in greys on one grid, and where both lie on it; None where it is too small for print."""
    ours, theirs = (np.asarray(to_rgb(each).convert("L")) for each in (query, candidate))
    theirs = 255 - theirs if inverted else theirs
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2] / warp[2, 2]))))
    seen = min(max(query.size), max(candidate.size) / zoom)  # of the query's pixels
    factor = min(1.0, zoom, SIDE / seen)
    if factor * seen < LEAST_SIDE:
        return None
    height, width = ours.shape
    size = (round(width * factor), round(height * factor))
    step = 1.0 / factor
    middle = (step - 1.0) / 2
    grid = np.array([[step, 0.0, middle], [0.0, step, middle], [0.0, 0.0, 1.0]])
    first, in_first = resample(cv2, ours, grid, size, step)
    laid = []
    for way in (warp, *_upright(warp, ours.shape)):
        second, in_second = resample(cv2, theirs, way @ grid, size, zoom * step)
        inside = in_first & in_second
        if not np.array_equal(way, np.eye(3)):
            nudge = _pulled(cv2, *_in_one_tone(first, second, inside), inside)
            second, in_second = resample(cv2, theirs, way @ grid @ nudge, size, zoom * step)
            inside = in_first & in_second
        laid.append((second, inside))
    if len(laid) > 1:
        laid.sort(key=lambda each: _apart(*_in_one_tone(first, *each), each[1]))
    second, inside = laid[0]
    return (first, second, inside) if without_margin(cv2, inside).sum() >= 256 else None


def _upright(warp: NDArray[np.float64], shape: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """The same warp without a slant of a pixel or two, if it has one: local features lay a page a little askew."""
    linear = warp[:2, :2] / warp[2, 2]
    straight = np.where(np.abs(linear) >= np.abs(linear).max() / 2, linear, 0.0)
    height, width = shape
    off = np.abs(linear - straight).sum(axis=0) * (width, height) / 2
    if not SLANT[0] <= off.max() <= SLANT[1] or np.count_nonzero(straight) != 2:
        return []
    centre = np.array([width / 2, height / 2])
    upright = np.eye(3)
    upright[:2, :2] = straight
    upright[:2, 2] = warp[:2, 2] / warp[2, 2] + (linear - straight) @ centre
    return [upright]


def _in_one_tone(first: Floats, second: Floats, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """One of the two in the tone of the other, the way that leads closer: in two tones, edges of one are
    pulled to where the other has none."""
    ways = [
        (first, in_tone_of(second, first, inside)),
        (in_tone_of(first, second, inside), second),
    ]
    aims = (first, second)
    apart = [
        _apart(*way, inside) / _contrast(aim, inside) for way, aim in zip(ways, aims, strict=True)
    ]
    return ways[int(np.argmin(apart))]


def _pulled(
    cv2: Any, first: Floats, second: Floats, inside: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """How the second is laid more closely on the first; not at all where it lies more closely as it is.

    Where pulling does not converge, it is compared as registration laid it: a copy that was never looked at close
    up would be called one whatever is written in it.
    """
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, PULLS, 1e-4)
    still = np.eye(2, 3, dtype=np.float32)
    try:
        _, nudge = cv2.findTransformECC(
            first, second, still, cv2.MOTION_AFFINE, criteria, inside.astype(np.uint8), 5
        )
    except cv2.error:  # it does not converge where there is nothing to hold on to
        return np.eye(3)
    laid = cv2.warpAffine(
        second,
        nudge,
        (second.shape[1], second.shape[0]),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    if _apart(first, laid, inside) >= _apart(first, second, inside):
        return np.eye(3)
    return np.vstack([nudge.astype(np.float64), [0.0, 0.0, 1.0]])


def _apart(first: Floats, second: Floats, mask: NDArray[np.bool_]) -> float:
    return float(np.abs(first - second)[mask].mean())


def _contrast(picture: Floats, mask: NDArray[np.bool_]) -> float:
    return max(float(picture[mask].std()), 1.0)
