"""Whether the detail of two aligned pictures is the same, window by window.

Two radiographs of one view correlate highly whoever they show, and so do neighbouring slices of one
study. What differs is the detail. One picture is explained by the other through one filter for the
whole frame (a copy may be blurred, sharpened, softened by compression), white noise is allowed for,
and what then remains unexplained in a window, as a share of the detail there, is its residual.
A copy is explained nearly everywhere; a neighbouring slice is not wherever anatomy has moved on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.features import Floats, PictureFeatures, Warp

# Two pictures on one grid: the query's coordinates, the resolution of the coarser picture.


GRID_SIDE = 352  # largest side of the grid


@dataclass(frozen=True, eq=False)
class Frame:
    """Both pictures on one grid; ``inside`` where both exist."""

    query: Floats
    candidate: Floats
    inside: NDArray[np.bool_]
    query_overlap: float
    candidate_overlap: float
    to_query: Warp  # grid to the query's greys
    query_step: float  # pixels of the query's greys from one of the grid to the next
    candidate_step: float


def lay(
    cv2: Any,
    query: PictureFeatures,
    candidate: PictureFeatures,
    warp: Warp,
    side: int = GRID_SIDE,
) -> Frame | None:
    """The candidate warped onto the query, or None where hardly anything overlaps."""
    box = _common_box(query, candidate, warp)
    if box is None:
        return None
    left, top, right, bottom = box
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2]))))
    factor = min(1.0, zoom, side / max(right - left, bottom - top))
    size = (max(8, round((right - left) * factor)), max(8, round((bottom - top) * factor)))
    step = 1.0 / factor
    to_query = np.array([[step, 0, left + step / 2], [0, step, top + step / 2], [0, 0, 1]])
    ours, ours_inside = resample(cv2, query.grey, to_query, size, step)
    theirs, theirs_inside = resample(cv2, candidate.grey, warp @ to_query, size, zoom * step)
    inside = ours_inside & theirs_inside
    area = float(inside.sum()) * step**2
    return Frame(
        query=ours,
        candidate=theirs,
        inside=inside,
        query_overlap=min(1.0, area / query.grey.size),
        candidate_overlap=min(1.0, area * zoom**2 / candidate.grey.size),
        to_query=to_query,
        query_step=step,
        candidate_step=zoom * step,
    )


def _common_box(
    query: PictureFeatures, candidate: PictureFeatures, warp: Warp
) -> tuple[float, float, float, float] | None:
    """The part of the query's frame the candidate's outline reaches."""
    zoom = abs(float(np.linalg.det(warp[:2, :2])))
    if not 0.0004 < zoom < 2500:
        return None
    height, width = query.grey.shape
    outline = outline_of(candidate.grey.shape, np.asarray(np.linalg.inv(warp), np.float64))
    if outline is None:
        return None
    left, top = (float(value) for value in np.maximum(outline.min(axis=0), -0.5))
    right, bottom = (
        float(value) for value in np.minimum(outline.max(axis=0), [width - 0.5, height - 0.5])
    )
    if right - left < 8 or bottom - top < 8:
        return None
    return left, top, right, bottom


def outline_of(shape: tuple[int, ...], warp: Warp) -> NDArray[np.float64] | None:
    """The four corners of a picture under a warp; None where the warp turns it inside out."""
    tall, wide = shape[:2]
    corners = np.array([[0, 0, 1], [wide, 0, 1], [wide, tall, 1], [0, tall, 1]], np.float64)
    corners[:, :2] -= 0.5
    moved = corners @ warp.T
    if (moved[:, 2] * moved[0, 2] <= 0).any():
        return None
    return np.asarray(moved[:, :2] / moved[:, 2:])


def resample(
    cv2: Any, grey: NDArray[np.uint8], matrix: Warp, size: tuple[int, int], step: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """A picture on the grid, and where on the grid it is."""
    picture = grey
    if step > 1.2:  # reading every step-th pixel needs what lies between averaged first
        picture = cv2.GaussianBlur(grey, (0, 0), 0.45 * float(np.sqrt(step**2 - 1)))
    laid = cv2.warpPerspective(
        picture,
        matrix,
        size,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    ).astype(np.float32)
    inside = cv2.warpPerspective(
        np.ones(grey.shape, np.uint8), matrix, size, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    )
    return laid, inside > 0


# What a warp does to a picture, in numbers and in words.


POSES = (
    "upright",
    "rotated 90°",
    "rotated 180°",
    "rotated 270°",
    "flipped horizontally",
    "flipped horizontally and rotated 90°",
    "flipped vertically",
    "flipped horizontally and rotated 270°",
)
SLANTED = 4.0  # degrees off the nearest pose from which a rotation is named by its angle


@dataclass(frozen=True)
class Geometry:
    """A warp taken apart: pose, remaining angle, scale across and down."""

    pose: int  # 0-3 turned counter-clockwise by 90° each, 4-7 mirrored first
    angle: float  # degrees counter-clockwise, 0 to 360, after mirroring
    slanted: bool
    scale: tuple[float, float]

    @property
    def words(self) -> list[str]:
        if self.slanted:
            mirrored = ["flipped horizontally"] if self.pose >= 4 else []
            return [*mirrored, f"rotated {round(self.angle)}°"]
        return [POSES[self.pose]] if self.pose else []


def geometry(warp: Warp, size: tuple[int, int]) -> Geometry:
    """How the query lies in the candidate; of a homography, what it does in the query's middle."""
    linear = _linear(warp, size)
    mirrored = float(np.linalg.det(linear)) < 0
    turn = linear @ np.diag([-1.0, 1.0]) if mirrored else linear
    angle = math.degrees(math.atan2(turn[0, 1] - turn[1, 0], turn[0, 0] + turn[1, 1])) % 360.0
    quarter = round(angle / 90.0) % 4
    off = abs((angle - 90.0 * quarter + 180.0) % 360.0 - 180.0)
    scale = (float(np.hypot(*linear[:, 0])), float(np.hypot(*linear[:, 1])))
    return Geometry(quarter + 4 * mirrored, angle, off > SLANTED, scale)


def _linear(warp: Warp, size: tuple[int, int]) -> Warp:
    middle = np.array([size[0] / 2, size[1] / 2, 1.0])
    x, y, depth = warp @ middle
    row = warp[2, :2]
    return np.asarray((warp[:2, :2] - np.outer([x / depth, y / depth], row)) / depth)


def box_in(
    warp: Warp, query: tuple[int, int], candidate: tuple[int, int]
) -> tuple[int, int, int, int]:
    """x, y, width and height of the query's outline in the candidate."""
    outline = outline_of((query[1], query[0]), warp)
    if outline is None:
        return 0, 0, candidate[0], candidate[1]
    left, top = np.clip(np.rint(outline.min(axis=0) + 0.5), 0, candidate).astype(int)
    right, bottom = np.clip(np.rint(outline.max(axis=0) + 0.5), 0, candidate).astype(int)
    return int(left), int(top), int(right - left), int(bottom - top)


BLURS = (0.0, 0.8, 1.6, 3.2)  # the filter is a mixture of these Gaussians
SHADING = 6.4  # coarser than this is shading: tone curves and windows change it
BAND = (1.6, 3.2)  # the detail that is compared, in pixels of the frame
MARGIN = 13  # pixels left out at the outline, where the filters see beyond it
FLAT = 0.035  # share of the contrast below which a window says nothing
NOISE_SPREAD = 1.6  # noise power in one window against its mean
CLIPPED = 3.0  # black swallows half of all noise: it is that much stronger where there is light
QUANTILE = 80  # of the windows' residuals: a fifth may hold marks, arrows, letters
SPREAD = 92
WORST = 99


@dataclass(frozen=True)
class PixelAgreement:
    """How well aligned pixels agree."""

    correlation: float  # of greys
    residual: float  # share of detail unexplained, in the window at QUANTILE
    spread: float  # the same at SPREAD: what is left out may be marks, not a patient
    worst: float  # the same at WORST
    detail: float  # median over windows of the correlation of detail
    windows: int  # windows (not overlapping) that hold detail
    noise: float  # white noise one picture has over the other, as share of contrast
    noisy_query: bool
    sharpness: float  # fine detail of the candidate over the query's
    marked: float  # share of the frame under opaque marks; 0 unless they were set aside
    veiled: float  # … under a veil of black or white; 0 unless it was lifted
    query_overlap: float
    candidate_overlap: float
    apart: float = 255.0  # grey levels between the two where they differ most; 255 unless measured
    shades: float = 255.0  # … between the means of blocks; 255 unless measured
    toned: bool = False  # one was brought to the tone of the other through a curve


NOTHING = PixelAgreement(0.0, 1.0, 1.0, 1.0, 0.0, 0, 0.0, False, 1.0, 0.0, 0.0, 0.0, 0.0)


def compare(cv2: Any, frame: Frame, inverted: bool) -> PixelAgreement:
    """Explain each picture by the other and keep the better explanation."""
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return replace(
            NOTHING, query_overlap=frame.query_overlap, candidate_overlap=frame.candidate_overlap
        )
    shades = shading(cv2, frame.query, theirs)
    forth = explained(cv2, frame.query, theirs, mask, frame.query_step, shades)
    back = explained(cv2, theirs, frame.query, mask, frame.candidate_step, shades[::-1])
    best = min(forth, back, key=lambda each: each.residual)
    return PixelAgreement(
        correlation=_correlation(frame.query[frame.inside], theirs[frame.inside]),
        residual=best.residual,
        spread=best.spread,
        worst=best.worst,
        detail=best.detail,
        windows=best.windows,
        noise=best.noise,
        noisy_query=best is forth,
        sharpness=_sharpness(cv2, (frame.query, theirs), mask, shades),
        marked=0.0,
        veiled=0.0,
        query_overlap=frame.query_overlap,
        candidate_overlap=frame.candidate_overlap,
    )


@dataclass(frozen=True)
class _Explanation:
    residual: float
    spread: float
    worst: float
    detail: float
    windows: int
    noise: float


def shading(cv2: Any, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Either picture without its detail: the widest filter here, so it is applied once to each."""
    return _blur(cv2, first, SHADING), _blur(cv2, second, SHADING)


def explained(
    cv2: Any,
    target: Floats,
    source: Floats,
    mask: NDArray[np.bool_],
    step: float,
    shades: tuple[Floats, Floats],
) -> _Explanation:
    """How much of the target's detail one filter on the source leaves unexplained."""
    wanted = target - shades[0]
    basis = [_blur(cv2, source, sigma) - shades[1] for sigma in BLURS]
    explained = _fitted(wanted, basis, mask)
    window = max(9, (min(mask.shape) // 10) | 1)
    share = _boxes(cv2, mask.astype(np.float32), window)
    full = share > 0.5
    left = (wanted - explained) * mask
    finest = (left - _blur(cv2, left, 0.8)) * mask
    bands = [_band(cv2, part) * mask for part in (wanted, explained, left)]
    area = np.maximum(share, 1e-6)
    wanted_power, explained_power, left_power, finest_power = (
        _boxes(cv2, part * part, window) / area for part in (*bands, finest)
    )
    product = _boxes(cv2, bands[0] * bands[1], window) / area
    contrast = max(float(target[mask].std()), 2.0)
    floor = (FLAT * contrast) ** 2
    signal = full & (explained_power > floor)
    if signal.sum() < 8:
        return _Explanation(1.0, 1.0, 1.0, 0.0, 0, 0.0)
    # Noise is everywhere, moved anatomy is not: the quieter windows tell how much noise there is.
    white, banded = _noise_gains(cv2, round(min(max(step, 1.0), 4.0), 1))
    noise = float(np.percentile(finest_power[signal], 30)) / white
    here = np.clip(finest_power / white, noise, CLIPPED * noise)
    allowed = NOISE_SPREAD * here * banded
    power = np.maximum(np.maximum(wanted_power - allowed, explained_power), floor)
    chosen = full & (np.maximum(wanted_power - allowed, explained_power) > floor)
    residual = (np.maximum(left_power - allowed, 0.0) / power)[chosen]
    agreement = product / np.sqrt(
        np.maximum(wanted_power, floor) * np.maximum(explained_power, floor)
    )
    return _Explanation(
        residual=float(np.percentile(residual, QUANTILE)),
        spread=float(np.percentile(residual, SPREAD)),
        worst=float(np.percentile(residual, WORST)),
        detail=float(np.median(agreement[chosen])),
        windows=int(chosen.sum()) // 4,
        noise=float(np.sqrt(noise)) / contrast,
    )


def unexplained(
    cv2: Any,
    target: Floats,
    source: Floats,
    mask: NDArray[np.bool_],
    shades: tuple[Floats, Floats],
) -> Floats:
    """Grey levels of the target's detail that one filter on the source leaves, over spots of 3 x 3."""
    wanted = target - shades[0]
    fitted = _fitted(wanted, [_blur(cv2, source, sigma) - shades[1] for sigma in BLURS], mask)
    return np.asarray(cv2.blur(np.abs(wanted - fitted) * mask, (3, 3)))


def _fitted(wanted: Floats, basis: list[Floats], mask: NDArray[np.bool_]) -> Floats:
    """Least squares over every second pixel, then once more without the pixels that fit worst."""
    some = mask[::2, ::2]
    columns = np.stack([part[::2, ::2][some] for part in basis], axis=1).astype(np.float64)
    values = wanted[::2, ::2][some].astype(np.float64)
    weights = _solve(columns, values)
    error = np.abs(values - columns @ weights)
    kept = error <= np.percentile(error, 90)
    weights = _solve(columns[kept], values[kept])
    fitted = np.zeros_like(wanted)
    for weight, part in zip(weights, basis, strict=True):
        fitted += np.float32(weight) * part
    return fitted


def _solve(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    # A little ridge: the blurs of a smooth picture are nearly the same column.
    normal = columns.T @ columns + 1e-3 * len(values) * np.eye(columns.shape[1])
    return np.asarray(np.linalg.solve(normal, columns.T @ values))


@cache
def _noise_gains(cv2: Any, step: float) -> tuple[float, float]:
    """Power of unit white noise in the finest band and in BAND, once it was brought on the grid.

    Noise that came with a larger picture is softened with it: there is less in the finest band.
    """
    side = 256
    drawn = np.random.default_rng(0).normal(128.0, 20.0, (round(side * step) + 1,) * 2)
    noise, _ = resample(cv2, drawn.astype(np.uint8), np.diag([step, step, 1.0]), (side, side), step)
    noise = (noise - noise.mean()) / 20.0
    return float((noise - _blur(cv2, noise, 0.8)).var()), float(_band(cv2, noise).var())


def without_margin(cv2: Any, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    margin = min(MARGIN, (min(inside.shape) // 5) | 1)
    square = np.ones((margin, margin), np.uint8)
    return np.asarray(cv2.erode(inside.astype(np.uint8), square, borderValue=0) > 0)


def _boxes(cv2: Any, values: Floats, window: int) -> Floats:
    """Means over windows that overlap by half."""
    step = max(1, window // 2)
    return np.asarray(cv2.boxFilter(values, -1, (window, window))[step::step, step::step])


def _blur(cv2: Any, values: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma)) if sigma > 0 else values


def _band(cv2: Any, values: Floats) -> Floats:
    return _blur(cv2, values, BAND[0]) - _blur(cv2, values, BAND[1])


def _sharpness(
    cv2: Any,
    pictures: tuple[Floats, Floats],
    mask: NDArray[np.bool_],
    shades: tuple[Floats, Floats],
) -> float:
    """Of the second picture against the first."""

    def ratio(picture: Floats, shade: Floats) -> float:
        fine = picture - _blur(cv2, picture, 0.8)
        coarse = _blur(cv2, picture, BAND[1]) - shade
        return float(fine[mask].std()) / max(float(coarse[mask].std()), 1e-3)

    query, candidate = (ratio(*pair) for pair in zip(pictures, shades, strict=True))
    return candidate / max(query, 1e-3)


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    length = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / length if length > 1e-6 else 0.0
