"""Ranks with intervals, and how far two rankings agree.

A rank interval is made of paired differences: a model is surely below those that are significantly
better on the same items (cluster jackknife, Holm over all pairs) and surely above those significantly
worse. All intervals hold together with the level's probability (Mogstad, Romano, Shaikh and Wilhelm 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.contrast import subset_mean
from heldout.stats.grouping import holm


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
    for (first, second, value, _), p in zip(
        tested, holm([pair[3] for pair in tested]), strict=True
    ):
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


# A family of tests corrected as a whole: Bonferroni, Benjamini–Hochberg, Benjamini–Yekutieli.
#
# Holm's step-down lives in ``grouping``; ``adjust`` calls all four by name.


Method = Literal["holm", "bonferroni", "bh", "by"]
METHODS: tuple[Method, ...] = ("holm", "bonferroni", "bh", "by")


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Every p times the number of tests: valid under any dependence, with the least power."""
    p = _checked(p_values)
    return [float(number) for number in np.minimum(1.0, p * len(p))]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """q-values: the expected share of false discoveries. Valid under positive dependence."""
    return _step_up(_checked(p_values), 1.0)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """The same guarantee under any dependence between the tests, for a factor of Σ 1/i."""
    p = _checked(p_values)
    return _step_up(p, float((1.0 / np.arange(1, len(p) + 1)).sum()))


def adjust(p_values: Sequence[float], method: Method) -> list[float]:
    if method == "holm":
        return holm([float(number) for number in _checked(p_values)])
    if method == "bonferroni":
        return bonferroni(p_values)
    if method == "bh":
        return benjamini_hochberg(p_values)
    if method == "by":
        return benjamini_yekutieli(p_values)
    raise ValueError(f"'{method}' is no correction; there are {', '.join(METHODS)}")


def _step_up(p: NDArray[np.float64], factor: float) -> list[float]:
    count = len(p)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * count / np.arange(1, count + 1) * factor
    adjusted = np.empty_like(p)
    # From the largest down: a smaller p never gets a larger q than one above it.
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return [float(number) for number in adjusted]


def _checked(p_values: Sequence[float]) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.size and not ((p >= 0) & (p <= 1)).all():  # NaN fails this too
        raise ValueError("p-values lie between 0 and 1")
    return p
