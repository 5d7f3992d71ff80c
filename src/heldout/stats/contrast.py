"""Means, differences of means and ranks, when items come in clusters.

Intervals are bootstrap-t over whole clusters: each draw is measured in its own cluster-robust
standard error, which covers far better than percentiles where a group has twenty clusters.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.grouping import holm
from heldout.stats.intervals import Interval

Floats = NDArray[np.float64]
DRAWS = 4_999
FEW = 5  # clusters in a group below which no interval is worth printing


class Contrast(NamedTuple):
    """Mean of the first group less that of the second; ``p`` two-sided by cluster t."""

    value: float
    error: float
    interval: Interval
    p: float
    n: tuple[int, int]
    clusters: tuple[int, int]


def cluster_mean(
    values: ArrayLike, clusters: Sequence[Hashable], *, level: float = 0.95
) -> tuple[float, float, Interval]:
    """Mean, cluster-robust standard error and t interval with clusters - 1 degrees of freedom."""
    numbers = np.asarray(values, dtype=np.float64)
    sums, sizes = _totals(numbers, _code(clusters), np.ones(len(numbers), dtype=bool))
    mean, error = _mean_and_error(sums, sizes)
    freedom = max(int((sizes > 0).sum()) - 1, 1)
    reach = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
    return mean, error, Interval(mean - reach, mean + reach, level, "cluster t")


def cluster_contrast(
    values: ArrayLike,
    first: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Contrast | None:
    """Items of ``first`` against the others. None where a group has fewer than FEW clusters."""
    numbers, chosen = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    codes = _code(clusters)
    groups = [_totals(numbers, codes, mask) for mask in (chosen, ~chosen)]
    counts = [int((sizes > 0).sum()) for _, sizes in groups]
    if min(counts) < FEW:
        return None
    value, error = _difference(groups)
    if error < 1e-12:
        flat = Interval(value, value, level, "no spread between clusters")
        return Contrast(
            value,
            error,
            flat,
            1.0 if value == 0 else 2.0 ** (1 - min(counts)),
            _items(groups),
            (counts[0], counts[1]),
        )
    pivots = _bootstrap_pivots(groups, value, draws, np.random.default_rng(seed))
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(pivots, [tail, 1.0 - tail])
    interval = Interval(
        value - float(high) * error, value - float(low) * error, level, "cluster bootstrap-t"
    )
    p = float(2 * special.stdtr(min(counts) - 1, -abs(value / error)))
    return Contrast(value, error, interval, p, _items(groups), (counts[0], counts[1]))


def _bootstrap_pivots(
    groups: list[tuple[Floats, Floats]], value: float, draws: int, rng: np.random.Generator
) -> Floats:
    """(draw's difference - observed) / draw's own error, over resampled clusters."""
    kinds = _strata_of_clusters(groups)
    weights = np.zeros((draws, len(groups[0][0])))
    for members in kinds:  # clusters of the first group, of the second, of both: each resampled
        weights[:, members] = rng.multinomial(
            len(members), np.full(len(members), 1.0 / len(members)), size=draws
        )
    difference, variance = np.zeros(draws), np.zeros(draws)
    parts: list[tuple[Floats, Floats]] = []
    for sign, (sums, sizes) in zip((1.0, -1.0), groups, strict=True):
        total = np.maximum(weights @ sizes, 1e-9)
        mean = weights @ sums / total
        difference += sign * mean
        parts.append((sign / total, mean))
    for index, (scale, mean) in enumerate(parts):
        sums, sizes = groups[index]
        squares = (
            weights @ (sums**2)
            - 2 * mean * (weights @ (sums * sizes))
            + mean**2 * (weights @ (sizes**2))
        )
        variance += scale**2 * squares
    (scale_a, mean_a), (scale_b, mean_b) = parts
    (sums_a, sizes_a), (sums_b, sizes_b) = groups
    cross = (
        weights @ (sums_a * sums_b)
        - mean_b * (weights @ (sums_a * sizes_b))
        - mean_a * (weights @ (sizes_a * sums_b))
        + mean_a * mean_b * (weights @ (sizes_a * sizes_b))
    )
    variance += 2 * scale_a * scale_b * cross  # clusters with items in both groups
    used = variance > 1e-18
    return np.asarray((difference[used] - value) / np.sqrt(variance[used]), dtype=np.float64)


def _difference(groups: list[tuple[Floats, Floats]]) -> tuple[float, float]:
    influence = np.zeros(len(groups[0][0]))
    value = 0.0
    for sign, (sums, sizes) in zip((1.0, -1.0), groups, strict=True):
        mean = sums.sum() / sizes.sum()
        value += sign * float(mean)
        influence += sign * (sums - mean * sizes) / sizes.sum()
    count = len(influence)
    return value, float(np.sqrt((influence**2).sum() * count / (count - 1)))


def _strata_of_clusters(groups: list[tuple[Floats, Floats]]) -> list[NDArray[np.int64]]:
    kinds = (groups[0][1] > 0).astype(int) + 2 * (groups[1][1] > 0)
    return [np.flatnonzero(kinds == kind) for kind in (1, 2, 3) if (kinds == kind).any()]


def _mean_and_error(sums: Floats, sizes: Floats) -> tuple[float, float]:
    total, count = float(sizes.sum()), int((sizes > 0).sum())
    mean = float(sums.sum() / total)
    if count < 2:
        return mean, float("inf")
    spread = float(((sums - mean * sizes) ** 2).sum()) * count / (count - 1)
    return mean, float(np.sqrt(spread)) / total


def _totals(
    values: Floats, codes: NDArray[np.int64], mask: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    clusters = int(codes.max()) + 1 if len(codes) else 0
    sums = np.bincount(codes[mask], weights=values[mask], minlength=clusters)
    return sums.astype(np.float64), np.bincount(codes[mask], minlength=clusters).astype(np.float64)


def _items(groups: list[tuple[Floats, Floats]]) -> tuple[int, int]:
    return int(groups[0][1].sum()), int(groups[1][1].sum())


def _code(clusters: Sequence[Hashable]) -> NDArray[np.int64]:
    known = {label: code for code, label in enumerate(dict.fromkeys(clusters))}
    return np.fromiter((known[label] for label in clusters), np.int64, len(clusters))


# Means of subsets and their differences, where subsets overlap and items come in clusters.
#
# "The whole benchmark less its clean part" compares a set with a part of itself: the two share items,
# and a cluster can lie in both. One cluster after the other is left out (the jackknife), and Student's
# t with clusters - 1 degrees of freedom makes the interval; bench/subset_means.py compares its
# coverage with bootstraps over clusters.


Mask = NDArray[np.bool_]
FEW_OF_A_SUBSET = 8  # clusters of either subset, and of what they do not share, for an interval
METHOD = "cluster jackknife t"
_FLAT = 1e-12


class Estimate(NamedTuple):
    value: float
    error: float | None  # jackknife standard error over clusters
    interval: Interval | None  # None where too few clusters carry it
    p: float | None = None  # two-sided, of no difference (or a mean of 0); None where no interval


def subset_mean(
    values: ArrayLike, chosen: ArrayLike, clusters: Sequence[str], *, level: float = 0.95
) -> Estimate | None:
    """Mean over ``chosen`` items; None where there are none."""
    return _estimate(values, [np.asarray(chosen, dtype=bool)], clusters, level)


def subset_difference(
    values: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
) -> Estimate | None:
    """Mean over ``first`` less mean over ``second``; the two may share items, or one hold the other.

    None where one of them is empty.
    """
    masks = [np.asarray(side, dtype=bool) for side in (first, second)]
    return _estimate(values, masks, clusters, level)


def _estimate(
    values: ArrayLike, masks: list[Mask], clusters: Sequence[str], level: float
) -> Estimate | None:
    if not all(mask.any() for mask in masks):
        return None
    numbers = np.asarray(values, dtype=np.float64)
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(numbers))
    present = np.unique(codes[np.logical_or.reduce(masks)])
    value, left_out = 0.0, np.zeros(len(present))
    for sign, mask in zip((1.0, -1.0), masks, strict=False):
        sums = np.bincount(codes, numbers * mask, len(names))[present]
        sizes = np.bincount(codes, mask.astype(np.float64), len(names))[present]
        value += sign * float(sums.sum() / sizes.sum())
        with np.errstate(divide="ignore", invalid="ignore"):  # a subset of a single cluster
            left_out += sign * (sums.sum() - sums) / (sizes.sum() - sizes)
    telling = [*masks, masks[0] ^ masks[1]] if len(masks) == 2 else masks
    count = len(present)
    enough = min(len(np.unique(codes[mask])) for mask in telling) >= FEW_OF_A_SUBSET
    if not enough:
        return Estimate(value, None, None)
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    error = float(np.sqrt((count - 1) / count * spread))
    if error < _FLAT:
        return Estimate(value, error, None)
    reach = float(special.stdtrit(count - 1, 0.5 + level / 2)) * error
    p = 2.0 * float(special.stdtr(count - 1, -abs(value) / error))
    return Estimate(value, error, Interval(value - reach, value + reach, level, METHOD), p)


# Ranks with intervals, and how far two rankings agree.
#
# A rank interval is made of paired differences: a model is surely below those that are significantly
# better on the same items (cluster jackknife, Holm over all pairs) and surely above those significantly
# worse. All intervals hold together with the level's probability (Mogstad, Romano, Shaikh and Wilhelm 2024).


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
