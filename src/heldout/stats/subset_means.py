"""Means of subsets and their differences, where subsets overlap and items come in clusters.

"The whole benchmark less its clean part" compares a set with a part of itself: the two share items,
and a cluster can lie in both. Whole clusters are drawn again, and every draw is measured in its own
linearised standard error (bootstrap-t), which stays honest where percentiles of few clusters do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.intervals import Interval

Floats = NDArray[np.float64]
DRAWS = 1_999
FEW = 8  # clusters of either subset, and of what they do not share, for an interval
_CELLS = 4_000_000  # of the matrix of draws × clusters that is held at a time
_FLAT = 1e-12


class Estimate(NamedTuple):
    value: float
    error: float  # cluster-robust standard error
    interval: Interval | None  # None where too few clusters carry it


def subset_mean(
    values: ArrayLike,
    chosen: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate | None:
    """Mean over ``chosen`` items; None where there are none."""
    mask = np.asarray(chosen, dtype=bool)
    nothing = np.zeros_like(mask)
    return _estimate(values, mask, nothing, clusters, level, draws, seed)


def subset_difference(
    values: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate | None:
    """Mean over ``first`` less mean over ``second``; the two may share items, or one hold the other."""
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if not other.any():
        return None
    return _estimate(values, one, other, clusters, level, draws, seed)


def _estimate(
    values: ArrayLike,
    first: NDArray[np.bool_],
    second: NDArray[np.bool_],
    clusters: Sequence[str],
    level: float,
    draws: int,
    seed: int,
) -> Estimate | None:
    if not first.any():
        return None
    numbers = np.asarray(values, dtype=np.float64)
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(numbers))
    used = first | second
    present = np.unique(codes[used])
    weights = (numbers * first, first, numbers * second, second)
    sums = [np.bincount(codes, one.astype(np.float64), len(names))[present] for one in weights]
    table: Floats = np.stack(sums, axis=1).astype(np.float64)
    single = not second.any()
    whole = _measure(table.sum(0)[None], _squares(table).sum(0)[None], single)
    value, error = float(whole[0][0]), float(whole[1][0])
    error *= float(np.sqrt(len(present) / max(len(present) - 1, 1)))
    subsets = [mask for mask in (first, second, first ^ second) if mask.any()]
    if min(len(np.unique(codes[mask])) for mask in subsets) < FEW or error < _FLAT:
        return Estimate(value, error, None)
    pivots = _pivots(table, value, single, draws, np.random.default_rng(seed))
    tail = (1.0 - level) / 2.0
    if len(pivots) < 0.9 * draws:  # draws in which a subset vanished tell nothing
        reach = float(special.stdtrit(len(present) - 1, 1.0 - tail)) * error
        return Estimate(value, error, Interval(value - reach, value + reach, level, "cluster t"))
    low, high = np.quantile(pivots, [tail, 1.0 - tail])
    method = "cluster bootstrap-t"
    bounds = Interval(value - float(high) * error, value - float(low) * error, level, method)
    return Estimate(value, error, bounds)


def _pivots(
    table: Floats, value: float, single: bool, draws: int, rng: np.random.Generator
) -> Floats:
    """(draw - observed) / draw's own error, over draws of whole clusters."""
    count = len(table)
    squares = _squares(table)
    correction = np.sqrt(count / (count - 1))
    found: list[Floats] = []
    step = max(1, _CELLS // count)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        times = rng.multinomial(count, np.full(count, 1.0 / count), size).astype(np.float64)
        drawn, errors = _measure(times @ table, times @ squares, single)
        errors = errors * correction
        good = np.isfinite(drawn) & (errors > _FLAT)
        found.append((drawn[good] - value) / errors[good])
    return np.concatenate(found)


def _squares(table: Floats) -> Floats:
    """Products of every two columns, so that any linearised variance is a sum over clusters."""
    return (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)


def _measure(totals: Floats, squares: Floats, single: bool) -> tuple[Floats, Floats]:
    """Difference of the two means and its linearised error, for one sample of clusters per row.

    ``single``: there is no second subset, and the first mean is meant.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [totals[:, k] / totals[:, k + 1] for k in (0, 2)]
        gradient = np.stack(
            [
                1.0 / totals[:, 1],
                -means[0] / totals[:, 1],
                -1.0 / totals[:, 3],
                means[1] / totals[:, 3],
            ],
            axis=1,
        )
        if single:
            gradient[:, 2:] = 0.0
        difference = means[0] if single else means[0] - means[1]
        variance = np.einsum("ki,kij,kj->k", gradient, squares.reshape(-1, 4, 4), gradient)
    return difference, np.sqrt(np.maximum(variance, 0.0))
