"""What a warp does to a picture, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heldout.overlap.registration.frame import outline_of
from heldout.overlap.registration.hypotheses import Warp

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
