"""Ranks: the rank of the right candidate for every query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
TIE = 1e-6  # of a cosine; candidates this near count as equal, and a tie is lost
_CELLS = 1 << 24  # similarities held at a time


def best_ranks(
    queries: Floats, candidates: Floats, right: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Per query 1 + the wrong candidates that are at least as near as the best of its ``right`` ones.

    A similarity that is not a number never helps: of a right candidate the rank is behind all others.
    """
    zeros = np.zeros(len(queries), np.int64)
    size = max(1, _CELLS // max(1, len(candidates)))
    for start in range(0, len(queries), size):
        near = queries[start : start + size] @ candidates.T
        for row, similarities in enumerate(near):
            own = right[start + row]
            bound = similarities[own].max() - TIE
            if not np.isfinite(bound):
                zeros[start + row] = len(candidates) + 1
                continue
            near_ones = ~(similarities < bound)  # candidates that cannot be compared rank ahead
            zeros[start + row] = 1 + int(near_ones.sum()) - int(near_ones[own].sum())
    return zeros


def usable(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows point anywhere: all numbers finite, and not all of them zero."""
    array: NDArray[np.bool_] = np.isfinite(rows).all(axis=-1) & rows.any(axis=-1)
    return array


def alike(rows: Floats) -> int:
    """How many rows equal the one that more than half of them are; 0 where there is none.

    Where more than half are equal, that row is the median of every column.
    """
    middle = np.median(rows, axis=0) if len(rows) else np.zeros(0)
    length = float(np.linalg.norm(middle))
    if len(rows) < 2 or not length:
        return 0
    count = int((rows @ (middle / length).astype(np.float32) >= 1 - TIE).sum())
    return count if 2 * count > len(rows) else 0


def tied(rows: Floats) -> int:
    """How many rows have an equal among the others."""
    count, size = 0, max(1, _CELLS // max(1, len(rows)))
    for start in range(0, len(rows), size):
        near = rows[start : start + size] @ rows.T >= 1 - TIE
        count += int((near.sum(axis=1) > 1).sum())
    return count


def hits_at(ranks: NDArray[np.int64], cut: int) -> NDArray[np.float64]:
    return (ranks <= cut).astype(np.float64)
