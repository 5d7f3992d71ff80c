"""A registration's warp as an SVG transform: the corpus' picture laid on the benchmark's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_STILL = 1e-6
_FLAT = 1e-9


def laid_on(warp: Sequence[Sequence[float]] | None, size: tuple[int, int]) -> str | None:
    """``matrix(…)`` from the candidate's native pixels to the query's; None where nothing moves.

    SVG has no perspective: a homography is drawn by what it does in the middle of the candidate, which has
    ``size``.
    """
    if warp is None:
        return None
    matrix = np.asarray(warp, dtype=np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        return None
    if abs(np.linalg.det(matrix)) < _FLAT:
        return None
    # Warps speak of the middles of pixels, SVG of their corners.
    half = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    back = half @ np.linalg.inv(matrix) @ np.linalg.inv(half)
    middle = np.array([size[0] / 2, size[1] / 2])
    x, y, depth = back @ np.array([*middle, 1.0])
    if abs(depth) < _FLAT:
        return None
    there = np.array([x / depth, y / depth])
    linear = (back[:2, :2] - np.outer(there, back[2, :2])) / depth
    shift = there - linear @ middle
    if np.abs(linear - np.eye(2)).max() < _STILL and np.abs(shift).max() < _STILL:
        return None
    (a, c), (b, d) = linear
    numbers = " ".join(f"{value:.6g}" for value in (a, b, c, d, *shift))
    return f"matrix({numbers})"
