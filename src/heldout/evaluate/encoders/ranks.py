"""Ranks: at which place the right candidate stands for every query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
TIE = 1e-6  # of a cosine; candidates this near count as equal, and a tie is lost
_CELLS = 1 << 24  # similarities held at a time


def best_ranks(
    queries: Floats, candidates: Floats, right: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Per query 1 + the wrong candidates that are at least as near as the best of its ``right`` ones."""
    found = np.zeros(len(queries), np.int64)
    size = max(1, _CELLS // max(1, len(candidates)))
    for start in range(0, len(queries), size):
        near = queries[start : start + size] @ candidates.T
        for row, similarities in enumerate(near):
            own = right[start + row]
            bound = similarities[own].max() - TIE
            ahead = int((similarities >= bound).sum()) - int((similarities[own] >= bound).sum())
            found[start + row] = 1 + ahead
    return found


def hits_at(ranks: NDArray[np.int64], cut: int) -> NDArray[np.float64]:
    return (ranks <= cut).astype(np.float64)
