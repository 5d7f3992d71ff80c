"""Pictures of a few dozen pixels a side: where one lies on the other, and whether it is a copy.

At 32 pixels a window of detail is a quarter of the picture, an edge that was resampled differs by dozens
of grey levels, and neighbouring slices of one study correlate at .99. What tells a copy is that the
differences cancel: compression and resampling leave as much above as below in every spot of a few pixels,
whereas something that moved or was changed is lighter or darker there; and that neither shows a fine
pattern that the other lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images._agreement import Frame
from heldout.overlap.images._registration import Registration
from heldout.overlap.images.features import (
    Floats,
    Hypothesis,
    PictureFeatures,
    Warp,
    frame_warp,
    pose_array,
)

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
UNEXPLAINED = 0.25  # share of the finest detail
# Grey levels that compression and resampling leave of a copy in one spot, together at most: by how much it is
# lighter or darker over 3 x 3 and over 5 x 5 pixels, a pattern of single pixels, any difference, and colour. Where
# both pictures show detail (the second number: a share of it) they leave more.
LIGHT_3, LIGHT_5 = 8.5, 5.5
PATTERN = (6.0, 2.4)
ANY = (11.5, 0.18)
COLOUR = (16.0, 1.45)
CLIPPED = (200.0, 255.0)  # grey levels between which highlights lose their colour
# The spot that differs most, against nine tenths of all spots and a tenth of what a copy may leave: compression and
# resampling differ in many spots, a fill that was changed in one.
STANDS_OUT, USUAL, LEAST_USUAL = 1.6, 90, 0.1
OTHER_WAY = 3.0  # times as much, where the softer picture is what the sharper one is explained by
OTHER_COLOUR = 1.9  # the same of colours, which JPEG stores at half the resolution
OF_CONTRAST = 0.17
QUIET = 0.3  # grey levels of most spots, below which nothing was compressed or resampled
EDITED = 6.0  # grey levels of a pixel that was changed there
KNEES = (160.0, 208.0)  # grey levels at which a tone curve may bend: highlights are clipped
PULLS = 2  # times that pictures are laid anew after a look at how they differ
PULLED = (0.1, 3.0)  # of the scale, and pixels, at most


@dataclass(frozen=True)
class SmallAgreement:
    """How well two small pictures agree that lie on each other."""

    detail: float  # correlation of detail
    left: float  # share of the finest detail that the other does not explain
    spot: float  # of the worst spot what is unexplained, in shares of what it may be
    colour: float  # the same of colour alone; 0 where greys are compared
    other_spot: float  # … where the other picture is explained, worse
    other_colour: float
    stands_out: (
        float  # how far the worst spot stands out from the others; the same of the other way
    )
    other_stands_out: float
    patch: float  # grey levels, of the spot of 5 x 5 that differs most
    usual: float  # grey levels that most spots of 3 x 3 differ by
    peak: float  # grey levels, of the pixel that differs most
    contrast: float  # of the duller of the two

    @property
    def is_copy(self) -> bool:
        return (
            self.detail >= SAME_DETAIL
            and self.left <= UNEXPLAINED
            and self.spot <= 1.0
            and self.other_spot <= OTHER_WAY
            and max(self.colour, self.other_colour) <= OTHER_COLOUR
            and self.other_stands_out <= STANDS_OUT
            and self.patch <= OF_CONTRAST * self.contrast
            and (self.usual > QUIET or self.peak <= EDITED)
        )


NO_AGREEMENT = SmallAgreement(0.0, 1.0, 99.0, 99.0, 99.0, 99.0, 99.0, 99.0, 255.0, 0.0, 255.0, 0.0)


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
    likeness = _correlation(cv2, frame.query, frame.candidate, frame.inside)
    return -likeness if inverted else likeness


def _correlation(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]) -> float:
    ours, theirs = ((each - _blur(cv2, each, DETAIL))[mask] for each in (first, second))
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    length = float(np.sqrt((ours * ours).sum() * (theirs * theirs).sum()))
    return float((ours * theirs).sum()) / length if length > 1e-6 else 0.0


def small_agreement(
    cv2: Any,
    query: Sequence[NDArray[np.uint8]],
    candidate: Sequence[NDArray[np.uint8]],
    warp: Warp,
    inverted: bool,
) -> SmallAgreement:
    """Each picture explained by the other, through a tone curve and a filter; the better one counts most.

    Pictures are their light, or light and two bands of colour.
    """
    laid = _laid(cv2, query, candidate, warp, inverted)
    if laid is None:
        return NO_AGREEMENT
    ours, theirs, mask = laid
    better, worse = sorted(
        (
            _explained(cv2, target, source, mask)
            for target, source in ((ours, theirs), (theirs, ours))
        ),
        key=lambda each: each.spot,
    )
    return replace(
        better,
        detail=_correlation(cv2, ours[0], theirs[0], mask),
        other_spot=worse.spot,
        other_colour=worse.colour,
        other_stands_out=worse.stands_out,
        contrast=min(float(picture[0][mask].std()) for picture in (ours, theirs)),
    )


Bands = list[Floats]


def _laid(
    cv2: Any,
    query: Sequence[NDArray[np.uint8]],
    candidate: Sequence[NDArray[np.uint8]],
    warp: Warp,
    inverted: bool,
) -> tuple[Bands, Bands, NDArray[np.bool_]] | None:
    """Both on the grid of the coarser, as sharp as they are, and pulled onto each other; None where too
    little overlaps. Between pixels that were interpolated linearly, edges would differ by dozens of levels."""
    height, width = query[0].shape
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2]))))
    step = max(1.0, 1.0 / zoom)  # pixels of the query from one of the grid to the next
    size = (max(8, round(width / step)), max(8, round(height / step)))
    to_query = np.array([[step, 0, step / 2 - 0.5], [0, step, step / 2 - 0.5], [0, 0, 1]])
    ours, ours_inside = _sharp(cv2, query, to_query, size, step)
    pulled = np.eye(3)
    for turn in range(PULLS + 1):
        theirs, inside = _sharp(cv2, candidate, warp @ to_query @ pulled, size, zoom * step)
        theirs = [255.0 - band for band in theirs] if inverted else theirs
        inside &= ours_inside
        mask = _without_rim(cv2, inside)
        area = float(inside.sum()) * step**2
        overlap = min(area / query[0].size, area * zoom**2 / candidate[0].size)
        if mask.sum() < FEWEST or overlap < COVERED:
            return None
        pull = _pull(cv2, ours[0], theirs[0], mask) if turn < PULLS else None
        if pull is None:
            break
        pulled = pulled @ pull
    return ours, theirs, mask


def _sharp(
    cv2: Any,
    bands: Sequence[NDArray[np.uint8]],
    matrix: Warp,
    size: tuple[int, int],
    step: float,
) -> tuple[Bands, NDArray[np.bool_]]:
    sharp = []
    for band in bands:
        values = band.astype(np.float32)
        if step > 1.2:  # reading every step-th pixel needs what lies between averaged first
            values = _blur(cv2, values, 0.45 * float(np.sqrt(step**2 - 1)))
        sharp.append(
            cv2.warpPerspective(
                values,
                matrix,
                size,
                flags=cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP,
                borderMode=cv2.BORDER_REPLICATE,
            )
        )
    inside = cv2.warpPerspective(
        np.ones(bands[0].shape, np.uint8),
        matrix,
        size,
        flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
    )
    return sharp, inside > 0


def _pull(cv2: Any, target: Floats, source: Floats, mask: NDArray[np.bool_]) -> Warp | None:
    """How the source has to be moved on the grid to lie on the target; None where it is too far."""
    tones = _tones(cv2, source)
    columns = np.stack([part[mask] for part in (*tones, *_moves(source))], axis=1)
    weights = _weights(columns.astype(np.float64), target[mask])
    level = source[mask].astype(np.float64) - float(source[mask].mean())
    curve = columns[:, : len(tones)] @ weights[: len(tones)]
    gain = float(level @ curve) / max(float(level @ level), 1e-6)
    x, x_across, x_down, y, y_across, y_down = 2.0 * weights[len(tones) :] / max(gain, 1e-3)
    height, width = source.shape
    across, down = 2.0 / (width - 1), 2.0 / (height - 1)
    pull = np.array(
        [
            [1 + x_across * across, x_down * down, x - x_across - x_down],
            [y_across * across, 1 + y_down * down, y - y_across - y_down],
            [0.0, 0.0, 1.0],
        ]
    )
    off = np.abs(pull - np.eye(3))
    return None if off[:2, :2].max() > PULLED[0] or off[:2, 2].max() > PULLED[1] else pull


def _tones(cv2: Any, source: Floats) -> Bands:
    """One tone curve and one filter."""
    curve = [np.full_like(source, 64.0), source * source / np.float32(128.0)]
    curve += [np.maximum(source - np.float32(knee), 0) for knee in KNEES]
    return curve + [_blur(cv2, source, sigma) for sigma in BLURS]


def _moves(source: Floats) -> Bands:
    """What a fraction of a pixel moves: six ways to move a plane."""
    height, width = source.shape
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    down, across = (np.asarray(2 * slope, np.float32) for slope in np.gradient(source))
    return [slope * place for slope in (across, down) for place in (np.ones_like(x), x, y)]


def _explained(cv2: Any, target: Bands, source: Bands, mask: NDArray[np.bool_]) -> SmallAgreement:
    light = target[0]
    fine = light - _blur(cv2, light, FINE)
    coarse = _blur(cv2, source[0], FINE)
    filtered = _fitted(fine, [_blur(cv2, source[0], sigma) - coarse for sigma in BLURS], mask)
    power = float((fine[mask] ** 2).sum())
    left = float(((fine - filtered)[mask] ** 2).sum()) / max(power, 1e-6)
    fitted = _fitted(light, [*_tones(cv2, source[0]), *_moves(source[0])], mask)
    apart = light - fitted
    spots = mask & (_share(cv2, mask, 3) > 0.6)
    small, large = (np.abs(_mean(cv2, apart, mask, side)) for side in (3, 5))
    detail, pattern = (
        np.minimum(*(_level(cv2, look(cv2, each), mask, 5) for each in (light, fitted)))
        for look in (_detail, _pattern)
    )
    parts = [
        small / LIGHT_3,
        large / LIGHT_5,
        _level(cv2, _pattern(cv2, apart * mask), mask, 3) / (PATTERN[0] + PATTERN[1] * pattern),
        _level(cv2, apart, mask, 3) / (ANY[0] + ANY[1] * detail),
    ]
    coloured = len(target) == 3
    colour = _colour(cv2, target, source, mask) if coloured else np.zeros_like(light)
    together = np.sqrt(np.square(np.stack([*parts, colour])).sum(axis=0))
    return replace(
        NO_AGREEMENT,
        left=left,
        spot=float(together[spots].max(initial=0.0)),
        colour=float(colour[spots].max(initial=0.0)),
        stands_out=_stands_out(parts[-1][spots]),
        patch=float(large[spots].max(initial=0.0)),
        usual=float(np.percentile(small[spots], 70)) if spots.any() else 0.0,
        peak=float(np.abs(apart[mask]).max()),
    )


def _stands_out(shares: NDArray[np.floating[Any]]) -> float:
    if not len(shares):
        return 0.0
    return float(shares.max() / (np.percentile(shares, USUAL) + LEAST_USUAL))


def _colour(cv2: Any, target: Bands, source: Bands, mask: NDArray[np.bool_]) -> Floats:
    """What its light and the whole picture's colours leave of a spot's colour, in shares of what it may be."""
    ours, theirs = ([band - np.float32(128.0) for band in bands] for bands in (target, source))
    # The two bands share one gain and one filter, and differ by what light adds to them. With weights of its own for
    # each, a picture of three things could be brought to another colour of one of them.
    plain = np.zeros_like(theirs[0])
    basis = [
        pair
        for added in (np.full_like(plain, 64.0), theirs[0])
        for pair in ((added, plain), (plain, added))
    ]
    clipped = np.clip((source[0] - CLIPPED[0]) / (CLIPPED[1] - CLIPPED[0]), 0, 1)
    basis.append((theirs[1] * clipped, theirs[2] * clipped))
    basis += [
        (_blur(cv2, theirs[1], sigma), _blur(cv2, theirs[2], sigma)) for sigma in COLOUR_BLURS
    ]
    both = np.concatenate(
        [np.stack([pair[band][mask] for pair in basis], axis=1) for band in (0, 1)]
    )
    wanted = np.concatenate([band[mask] for band in ours[1:]])
    weights = _weights(both.astype(np.float64), wanted).astype(np.float32)
    fitted = [
        np.tensordot(weights, np.stack([pair[band] for pair in basis]), axes=1) for band in (0, 1)
    ]
    apart = [
        _mean(cv2, band - guess, mask, 3) for band, guess in zip(ours[1:], fitted, strict=True)
    ]
    detail = np.minimum(
        *(
            np.hypot(*(_level(cv2, _detail(cv2, band), mask, 5) for band in bands))
            for bands in (ours[1:], fitted)
        )
    )
    return np.asarray(np.hypot(*apart) / (COLOUR[0] + COLOUR[1] * detail), np.float32)


def _detail(cv2: Any, values: Floats) -> Floats:
    return values - _blur(cv2, values, 1.0)


def _pattern(cv2: Any, values: Floats) -> Floats:
    """What changes from pixel to pixel both across and down, as fills of small things do."""
    second = np.array([0.25, -0.5, 0.25], np.float32)
    return np.asarray(cv2.sepFilter2D(values, -1, second, second))


def _share(cv2: Any, mask: NDArray[np.bool_], side: int) -> Floats:
    inside = mask.astype(np.float32)
    return np.asarray(cv2.boxFilter(inside, -1, (side, side), borderType=cv2.BORDER_CONSTANT))


def _mean(cv2: Any, values: Floats, mask: NDArray[np.bool_], side: int) -> Floats:
    means = cv2.boxFilter(values * mask, -1, (side, side), borderType=cv2.BORDER_CONSTANT)
    return np.asarray(means / np.maximum(_share(cv2, mask, side), 1e-6))


def _level(cv2: Any, values: Floats, mask: NDArray[np.bool_], side: int) -> Floats:
    return np.sqrt(np.maximum(_mean(cv2, values * values, mask, side), 0))


def _fitted(wanted: Floats, basis: Bands, mask: NDArray[np.bool_]) -> Floats:
    columns = np.stack([part[mask] for part in basis], axis=1).astype(np.float64)
    fitted = np.zeros_like(wanted)
    for weight, part in zip(_weights(columns, wanted[mask]), basis, strict=True):
        fitted += np.float32(weight) * part
    return fitted


def _weights(columns: NDArray[np.float64], wanted: Floats) -> NDArray[np.float64]:
    """Least squares, then once more without the pixels that fit worst: what was changed shapes nothing."""
    values = wanted.astype(np.float64)
    error = np.abs(values - columns @ _solved(columns, values))
    kept = error <= np.partition(error, KEPT * len(error) // 100)[KEPT * len(error) // 100]
    return _solved(columns[kept], values[kept])


def _solved(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    normal = columns.T @ columns + 1e-3 * len(values) * np.eye(columns.shape[1])
    return np.asarray(np.linalg.solve(normal, columns.T @ values))


def _without_rim(cv2: Any, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    square = np.ones((3, 3), np.uint8)
    return np.asarray(cv2.erode(inside.astype(np.uint8), square, borderValue=0) > 0)


def _blur(cv2: Any, values: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma)) if sigma > 0 else values


def is_recoloured(query: Image.Image, candidate: Image.Image, registration: Registration) -> bool:
    """Whether a small picture that is a copy by its light is none by light and colour together."""
    import cv2

    ours, theirs = (
        [np.asarray(band) for band in to_rgb(picture).convert("YCbCr").split()]
        for picture in (query, candidate)
    )
    warp = np.array(registration.warp)
    return not small_agreement(cv2, ours, theirs, warp, registration.inverted).is_copy
