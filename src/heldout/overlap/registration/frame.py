"""Two pictures on one grid: the query's coordinates, the resolution of the coarser picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.registration.features import Features, Floats
from heldout.overlap.registration.hypotheses import Warp

SIDE = 352  # largest side of the grid


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


def lay(cv2: Any, query: Features, candidate: Features, warp: Warp) -> Frame | None:
    """The candidate warped onto the query, or None where hardly anything overlaps."""
    box = _common_box(query, candidate, warp)
    if box is None:
        return None
    left, top, right, bottom = box
    zoom = float(np.sqrt(abs(np.linalg.det(warp[:2, :2]))))
    factor = min(1.0, zoom, SIDE / max(right - left, bottom - top))
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
    query: Features, candidate: Features, warp: Warp
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
