"""Ranks with intervals, and how far two rankings agree.

A rank interval is made of paired differences: a model is surely below those that are significantly
better on the same items (cluster jackknife, Holm over all pairs) and surely above those significantly
worse. All intervals hold together with the level's probability (Mogstad, Romano, Shaikh and Wilhelm 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.grouping import holm
from heldout.stats.subset_means import subset_mean


class Rank(NamedTuple):
    """1 is the best; equal means share the smaller rank."""

    rank: int
    low: int
    high: int


def rank_intervals(
    values: Mapping[str, ArrayLike],
    chosen: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
) -> dict[str, Rank]:
    """``values`` by name, aligned with ``clusters``; ranks of their means over the ``chosen`` items."""
    columns = {
        name: np.asarray(array_like, dtype=np.float64) for name, array_like in values.items()
    }
    mask = np.asarray(chosen, dtype=bool)
    if not mask.any():
        return {}
    means = {name: float(column[mask].mean()) for name, column in columns.items()}
    tested: list[tuple[str, str, float]] = []
    p_values: list[float] = []
    for first, second in combinations(columns, 2):
        estimate = subset_mean(columns[first] - columns[second], mask, clusters)
        if estimate is not None and estimate.p is not None:
            tested.append((first, second, estimate.value))
            p_values.append(estimate.p)
    pairs = [(*pair, p) for pair, p in zip(tested, p_values, strict=True)]
    return ranks_of(means, pairs, level=level)


def ranks_of(
    means: Mapping[str, float],
    tested: Sequence[tuple[str, str, float, float]],
    *,
    level: float = 0.95,
) -> dict[str, Rank]:
    """Ranks of ``means`` from tests of pairs: (first, second, difference, p before correction)."""
    better: dict[str, int] = dict.fromkeys(means, 0)
    worse: dict[str, int] = dict.fromkeys(means, 0)
    for (first, second, value, _), p in zip(tested, holm([one[3] for one in tested]), strict=True):
        if p <= 1 - level and value != 0:
            winner, loser = (first, second) if value > 0 else (second, first)
            better[loser] += 1
            worse[winner] += 1
    return {
        name: Rank(
            1 + sum(other > mean for other in means.values()),
            1 + better[name],
            len(means) - worse[name],
        )
        for name, mean in means.items()
    }


def kendall_tau_b(first: ArrayLike, second: ArrayLike) -> float | None:
    """Agreement of two rankings from -1 to 1, corrected for ties; None where one ranks nothing."""
    a, b = _signs(first), _signs(second)
    within = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / within if within else None


def _signs(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    signs = np.sign(numbers[:, None] - numbers[None, :])
    return np.asarray(signs[np.triu_indices(len(numbers), 1)], dtype=np.float64)
