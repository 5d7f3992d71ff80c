"""The one way a reported similarity is computed, and how far a fast product may be from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError

UNIT_ROUNDOFF = 2.0**-24  # of float32
NORM_TOLERANCE = 0.01  # a row stored in half precision is not exactly of length one
_NUMBERS = 2**18  # finished at a time: what they need stays in a core's cache


def rounding(terms: int, roundoff: float = UNIT_ROUNDOFF) -> float:
    """γ: the largest relative error of a sum of ``terms`` products, in any order, fused or not."""
    return terms * roundoff / (1.0 - terms * roundoff)


def fold(products: Any) -> Any:
    """Row sums by halving, in place: additions happen in the same order on every backend.

    Works on NumPy arrays and torch tensors alike. Products of float16, bfloat16 or float32 numbers
    are exact in float64, so the result is the same to the last bit wherever it is computed.
    """
    width = products.shape[1]
    while width > 1:
        half = (width + 1) // 2
        products[:, : width - half] += products[:, half:width]
        width = half
    return products[:, 0]


def exact_similarity(
    queries: NDArray[np.float32],
    rows: NDArray[Any],
    query: NDArray[np.intp],
    row: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Inner products of the given pairs as they are reported."""
    similarity = np.empty(len(query), np.float64)
    # Written into the same memory again and again: fresh pages cost more than the arithmetic.
    most = max(1, _NUMBERS // queries.shape[1])
    products, other = np.empty((2, min(most, len(query)), queries.shape[1]), np.float64)
    for first in range(0, len(query), most):
        pairs = slice(first, first + most)
        count = len(query[pairs])
        products[:count] = queries[query[pairs]]
        other[:count] = rows[row[pairs]]
        products[:count] *= other[:count]
        similarity[pairs] = fold(products[:count])
    return similarity


def quick_similarity(
    queries: NDArray[np.float32],
    rows: NDArray[np.float32],
    query: NDArray[np.intp],
    row: NDArray[np.intp],
) -> NDArray[np.float32]:
    """The same in float32: off by at most ``rounding(d)`` times both lengths."""
    similarity = np.empty(len(query), np.float32)
    most = max(1, _NUMBERS // queries.shape[1])
    ours, theirs = np.empty((2, min(most, len(query)), queries.shape[1]), np.float32)
    for first in range(0, len(query), most):
        pairs = slice(first, first + most)
        count = len(query[pairs])
        # "clip" only skips a check, and with it a second buffer: the places are all inside.
        queries.take(query[pairs], axis=0, out=ours[:count], mode="clip")
        rows.take(row[pairs], axis=0, out=theirs[:count], mode="clip")
        np.einsum("ij,ij->i", ours[:count], theirs[:count], out=similarity[pairs])
    return similarity


def unit_queries(queries: NDArray[Any]) -> NDArray[np.float32]:
    """Queries scaled to length one, as float32."""
    wide = np.asarray(queries, np.float64)
    if wide.ndim != 2 or wide.shape[1] == 0:
        raise InputError(f"embeddings are a table of rows, these have the shape {wide.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise InputError(
            f"{len(bad)} of {len(wide)} query embeddings are zero or not finite, first row {bad[0]}; "
            "leave these images out or embed them again"
        )
    return np.ascontiguousarray((wide / lengths[:, None]).astype(np.float32))


def not_unit(squares: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows, by their squared lengths, are not unit vectors (NaN is not)."""
    low, high = (1 - NORM_TOLERANCE) ** 2, (1 + NORM_TOLERANCE) ** 2
    return np.asarray(~((squares >= low) & (squares <= high)))
