"""Pictures of a few dozen pixels a side: where one lies on the other, and whether it is a copy.

At 32 pixels a window of detail is a quarter of the picture, an edge that was resampled differs by dozens
of grey levels, and neighbouring slices of one study correlate at .99. What tells a copy is that the
differences cancel: compression and resampling leave as much above as below in every spot of a few pixels,
whereas something that moved or was changed is lighter or darker there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images.agreement import Frame, resample
from heldout.overlap.images.features import (
    Floats,
    Hypothesis,
    PictureFeatures,
    Warp,
    frame_warp,
    pose_array,
)
from heldout.overlap.images.registration import Registration

SMALL_SIDE = 64  # pixels; below, the rules of this module hold
MIDDLE = 0.7  # of the sides: the part of one picture that is looked for in the other
SCALES = (0.84, 0.9, 0.96, 1.0, 1.04, 1.1, 1.18)
STARTS = 3
NEAR_SCALE = 0.1  # by which places differ that lead to one
LIKELY = 0.3  # correlation of the middle's detail, where it fits best
DISTORTED = 1.35  # times as wide as high, of a square, at most
COVERED = 0.6  # of both pictures
FEWEST = 100  # pixels that are compared

DETAIL = 3.2  # pixels: what is coarser is shading
SHADING = 4.0  # the same where a place is looked for
FINE = 2.4
KEPT = 97  # per cent of the pixels that a fit rests on
BLURS = (0.0, 0.7, 1.4)  # the filter between two copies is a mixture of these Gaussians
COLOUR_BLURS = (0.0, 1.0, 2.0)  # JPEG halves the resolution of colours

SAME_DETAIL = 0.9
ALIKE_DETAIL = 0.8  # correlation of detail, from which on a pair may be a copy
UNEXPLAINED = 0.2  # share of the finest detail
# Grey levels of a spot of 3 x 3 and of 5 x 5, and times what most spots of 3 x 3 have: where nothing was
# compressed, anything that was changed stands out. Neighbouring slices of one volume begin at 7.1, 3.5 and 9.2 at
# 32 pixels, compressed ones at 8.1, 4.4 and 4.6. A coloured picture is no such slice.
SPOTS, STANDS_OUT = (6.5, 3.3), 6.5
COLOURED_SPOTS, COLOURED_STANDS_OUT = (11.0, 5.5), 9.0
OF_CONTRAST = 0.17
ROUNDED = 2.0  # grey levels
QUIET = 0.3  # grey levels of most spots, below which nothing was compressed or resampled
EDITED = 6.0  # grey levels of a pixel that was changed there
CHROMA_SPOTS = (11.0, 6.5)


@dataclass(frozen=True)
class SmallAgreement:
    """How well two small pictures agree that lie on each other."""

    detail: float  # correlation of detail
    left: float  # share of the finest detail that the other does not explain
    spots: tuple[float, float]  # grey levels, of the spots of 3 x 3 and of 5 x 5 that differ most
    usual: float  # grey levels that most spots of 3 x 3 differ by
    peak: float  # grey levels, of the pixel that differs most
    contrast: float  # of the duller of the two

    def is_copy(self, coloured: bool) -> bool:
        bars = COLOURED_SPOTS if coloured else SPOTS
        times = COLOURED_STANDS_OUT if coloured else STANDS_OUT
        return (
            self.detail >= SAME_DETAIL
            and self.left <= UNEXPLAINED
            and all(spot <= bar for spot, bar in zip(self.spots, bars, strict=True))
            and self.spots[1] <= OF_CONTRAST * self.contrast
            and self.spots[0] <= max(ROUNDED, times * self.usual)
            and (self.usual > QUIET or self.peak <= EDITED)
        )


def is_small(query: PictureFeatures, candidate: PictureFeatures) -> bool:
    return min(*query.size, *candidate.size) < SMALL_SIDE


def from_middles(cv2: Any, query: PictureFeatures, candidate: PictureFeatures) -> list[Hypothesis]:
    """Where the middle of one picture is found in the other, in any pose and at several scales.

    Small pictures have too few local features, and frames that were cut differently do not correlate;
    but all places of so small a picture can be tried.
    """
    side = min(max(query.grey.shape), max(candidate.grey.shape))
    ours, to_ours = _reduced(cv2, query.grey, side)
    theirs, to_theirs = _reduced(cv2, candidate.grey, side)
    places = []
    for pose in range(8):
        places += _places(cv2, ours, theirs, pose)
    places.sort(key=lambda place: -abs(place.likeness))
    best: list[_Place] = []
    for place in places:
        if abs(place.likeness) < LIKELY or len(best) == STARTS:
            break
        if not any(place.is_near(other) for other in best):
            best.append(place)
    back = np.linalg.inv(to_theirs)
    return [
        Hypothesis(back @ place.warp @ to_ours, place.likeness < 0, 0, abs(place.likeness))
        for place in best
    ]


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a middle lies; ``likeness`` is below 0 where it is the negative that fits."""

    likeness: float
    pose: int
    scale: float
    warp: Warp

    def is_near(self, other: _Place) -> bool:
        same = self.pose == other.pose and (self.likeness < 0) == (other.likeness < 0)
        return same and abs(self.scale - other.scale) <= NEAR_SCALE


def _places(cv2: Any, ours: Floats, theirs: Floats, pose: int) -> list[_Place]:
    tall, wide = theirs.shape
    posed = pose_array(ours, pose)
    top, left = (round(length * (1 - MIDDLE) / 2) for length in posed.shape)
    middle = posed[top : posed.shape[0] - top, left : posed.shape[1] - left]
    turn = frame_warp(ours.shape, posed.shape, pose)
    places = []
    for scale in SCALES:
        size = (max(4, round(MIDDLE * wide * scale)), max(4, round(MIDDLE * tall * scale)))
        if size[0] > wide or size[1] > tall:
            continue
        across, down = size[0] / middle.shape[1], size[1] / middle.shape[0]
        way = cv2.INTER_AREA if across < 1 else cv2.INTER_LINEAR
        shown = cv2.resize(middle, size, interpolation=way)
        likeness = cv2.matchTemplate(theirs, shown, cv2.TM_CCOEFF_NORMED)
        for place in (int(likeness.argmax()), int(likeness.argmin())):
            y, x = divmod(place, likeness.shape[1])
            moved = np.array(
                [
                    [across, 0.0, x + (0.5 - left) * across - 0.5],
                    [0.0, down, y + (0.5 - top) * down - 0.5],
                    [0.0, 0.0, 1.0],
                ]
            )
            places.append(_Place(float(likeness.flat[place]), pose, scale, moved @ turn))
    return places


def _reduced(cv2: Any, grey: NDArray[np.uint8], side: int) -> tuple[Floats, Warp]:
    """The detail of a picture of at most ``side`` pixels, and the way from its greys there."""
    factor = min(1.0, side / max(grey.shape))
    size = (max(8, round(grey.shape[1] * factor)), max(8, round(grey.shape[0] * factor)))
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    across, down = size[0] / grey.shape[1], size[1] / grey.shape[0]
    warp = np.array(
        [[across, 0, across / 2 - 0.5], [0, down, down / 2 - 0.5], [0, 0, 1]], np.float64
    )
    return small - _blur(cv2, small, SHADING), warp


def is_plausible(query: PictureFeatures, candidate: PictureFeatures, warp: Warp) -> bool:
    """Whether most of the pictures overlap without being stretched: pulled at, any two fit somewhere."""
    (height, width), (tall, wide) = query.grey.shape, candidate.grey.shape
    linear = np.diag([1 / wide, 1 / tall]) @ warp[:2, :2] @ np.diag([width, height])
    long, short = np.linalg.svd(linear, compute_uv=False)
    return bool(short > 0 and long <= DISTORTED * short)


def same_detail(cv2: Any, frame: Frame, inverted: bool) -> float:
    """Correlation of detail; 0 where too little overlaps."""
    if min(frame.query_overlap, frame.candidate_overlap) < COVERED:
        return 0.0
    ours, theirs = (
        (picture - _blur(cv2, picture, DETAIL))[frame.inside]
        for picture in (frame.query, frame.candidate)
    )
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    length = float(np.sqrt((ours * ours).sum() * (theirs * theirs).sum()))
    product = float((ours * theirs).sum())
    return (-product if inverted else product) / length if length > 1e-6 else 0.0


def small_agreement(cv2: Any, frame: Frame, inverted: bool) -> SmallAgreement:
    """Each picture explained by the other, through a tone curve and a filter; the better one counts."""
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = _without_rim(cv2, frame.inside)
    if mask.sum() < FEWEST or min(frame.query_overlap, frame.candidate_overlap) < COVERED:
        return SmallAgreement(0.0, 1.0, (255.0, 255.0), 0.0, 255.0, 0.0)
    explained = [
        _explained(cv2, target, source, mask)
        for target, source in ((frame.query, theirs), (theirs, frame.query))
    ]
    left, spots, usual, peak = min(explained, key=lambda each: each[1][1])
    contrast = min(float(picture[mask].std()) for picture in (frame.query, theirs))
    return SmallAgreement(same_detail(cv2, frame, inverted), left, spots, usual, peak, contrast)


def _explained(
    cv2: Any, target: Floats, source: Floats, mask: NDArray[np.bool_]
) -> tuple[float, tuple[float, float], float, float]:
    fine = target - _blur(cv2, target, FINE)
    coarse = _blur(cv2, source, FINE)
    filtered = _fitted(fine, [_blur(cv2, source, sigma) - coarse for sigma in BLURS], mask)
    power = float((fine[mask] ** 2).sum())
    left = float(((fine - filtered)[mask] ** 2).sum()) / max(power, 1e-6)
    down, across = np.gradient(source)
    # One tone curve, one filter, and what a fraction of a pixel moves.
    basis: list[Floats] = [np.full_like(source, 64.0), source * source / np.float32(128.0)]
    basis += [np.asarray(2 * slope, np.float32) for slope in (across, down)]
    basis += [_blur(cv2, source, sigma) for sigma in BLURS]
    apart = target - _fitted(target, basis, mask)
    spots, usual = _spots(cv2, apart, mask)
    return left, spots, usual, float(np.abs(apart[mask]).max())


def _spots(cv2: Any, apart: Floats, mask: NDArray[np.bool_]) -> tuple[tuple[float, float], float]:
    """Of spots of 3 x 3 and 5 x 5 pixels the level of the most different, and that of most of 3 x 3."""
    levels = []
    for side in (3, 5):
        size, rim = (side, side), cv2.BORDER_CONSTANT
        share = cv2.boxFilter(mask.astype(np.float32), -1, size, borderType=rim)
        means = cv2.boxFilter(apart * mask, -1, size, borderType=rim) / np.maximum(share, 1e-6)
        levels.append(np.abs(means)[mask & (share > 0.6)])
    if not all(len(values) for values in levels):
        return (255.0, 255.0), 0.0
    most = (float(levels[0].max()), float(levels[1].max()))
    return most, float(np.percentile(levels[0], 70))


def _fitted(wanted: Floats, basis: list[Floats], mask: NDArray[np.bool_]) -> Floats:
    """Least squares, then once more without the pixels that fit worst: what was changed shapes nothing."""
    columns = np.stack([part[mask] for part in basis], axis=1).astype(np.float64)
    values = wanted[mask].astype(np.float64)
    error = np.abs(values - columns @ _solved(columns, values))
    kept = error <= np.partition(error, KEPT * len(error) // 100)[KEPT * len(error) // 100]
    fitted = np.zeros_like(wanted)
    for weight, part in zip(_solved(columns[kept], values[kept]), basis, strict=True):
        fitted += np.float32(weight) * part
    return fitted


def _solved(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    normal = columns.T @ columns + 1e-3 * len(values) * np.eye(columns.shape[1])
    return np.asarray(np.linalg.solve(normal, columns.T @ values))


def _without_rim(cv2: Any, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    square = np.ones((3, 3), np.uint8)
    return np.asarray(cv2.erode(inside.astype(np.uint8), square, borderValue=0) > 0)


def _blur(cv2: Any, values: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma)) if sigma > 0 else values


def is_recoloured(query: Image.Image, candidate: Image.Image, registration: Registration) -> bool:
    """Whether some spot of a small copy has other colours than its light and the whole picture say."""
    import cv2

    warp = np.array(registration.warp)
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2]))))
    step = max(1.0, 1.0 / zoom)  # pixels of the query from one of the grid to the next
    size = (max(8, round(query.width / step)), max(8, round(query.height / step)))
    to_query = np.array([[step, 0, step / 2 - 0.5], [0, step, step / 2 - 0.5], [0, 0, 1]])
    sides = []
    inside = np.ones(size[::-1], bool)
    for picture, matrix, reach in (
        (query, to_query, step),
        (candidate, warp @ to_query, zoom * step),
    ):
        bands = np.asarray(to_rgb(picture).convert("YCbCr"))
        laid = [resample(cv2, bands[..., band], matrix, size, reach) for band in range(3)]
        inside &= laid[0][1]
        sides.append([values - np.float32(128.0) for values, _ in laid])
    if registration.inverted:
        sides[1] = [-values for values in sides[1]]
    mask = _without_rim(cv2, inside)
    if mask.sum() < FEWEST:
        return False
    ours, theirs = sides
    worst = [
        _colour_spots(cv2, target, source, mask)
        for target, source in ((ours, theirs), (theirs, ours))
    ]
    spots = min(worst, key=lambda each: each[1])
    return any(spot > bar for spot, bar in zip(spots, CHROMA_SPOTS, strict=True))


def _colour_spots(
    cv2: Any, target: list[Floats], source: list[Floats], mask: NDArray[np.bool_]
) -> tuple[float, float]:
    light = source[0]
    shared = [np.full_like(light, 64.0), light, _blur(cv2, light, 1.0)]
    worst = (0.0, 0.0)
    for band, other in ((1, 2), (2, 1)):
        blurred = [_blur(cv2, source[band], sigma) for sigma in COLOUR_BLURS]
        fitted = _fitted(target[band], [*shared, source[other], *blurred], mask)
        (small, large), _ = _spots(cv2, target[band] - fitted, mask)
        worst = (max(worst[0], small), max(worst[1], large))
    return worst
