"""How strongly a released order is grouped or sorted, against the order being random.

This decides which order tests are valid later: a test that permutes items freely needs the items to
be exchangeable, and items that were released image by image, or topic by topic, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.permutation import PERMUTATIONS, Permuted, shuffle_test

DRAWS = 1999
_NEVER = 1e-12  # of one random order: none of the drawn ones would be as extreme
_PLAIN = 60  # orders at least as extreme, from which on the p-value only gets larger


class Grouping(NamedTuple):
    """``strength`` is 0 for a random order and 1 for fully grouped (or sorted); ``p`` two-sided."""

    strength: float
    z: float
    p: float
    n: int


def order_grouping(labels: Sequence[Hashable], *, draws: int = DRAWS, seed: int = 0) -> Grouping:
    """Do neighbours share a label more often than in a random order?

    Strength is the excess of equal neighbours over chance, as a share of the largest possible
    excess; z uses the exact permutation moments (Wald–Wolfowitz runs). The p-value counts random
    orders, because with a rare label the number of equal neighbours is nothing like normal.
    """
    n = len(labels)
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    # As wide as a pointer: NumPy shuffles these twice as fast as narrower ones.
    sequence = np.fromiter((codes[label] for label in labels), dtype=np.intp, count=n)
    counts = np.bincount(sequence).astype(np.float64)
    if n < 3 or len(counts) < 2 or len(counts) == n:
        return Grouping(0.0, 0.0, 1.0, n)  # one label, or all different: there is nothing to group
    equal = float((sequence[1:] == sequence[:-1]).sum())
    expected = float((counts * (counts - 1)).sum() / n)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    strength = (equal - expected) / (n - len(counts) - expected)
    z = (equal - expected) / np.sqrt(variance) if variance > 0 else 0.0
    rng = np.random.default_rng(seed)

    def shuffled() -> float:
        rng.shuffle(sequence)
        return float(np.count_nonzero(sequence[1:] == sequence[:-1]))

    # Two labels that change places touch at most four pairs of neighbours (Azuma–Hoeffding): where no order
    # could come near, none is drawn.
    chance = 2.0 * np.exp(-((equal - expected) ** 2) / (32.0 * n))
    if chance < _NEVER:
        return Grouping(float(strength), float(z), 1.0 / (draws + 1), n)
    p = _permutation_p(equal - expected, lambda: shuffled() - expected, draws)
    return Grouping(float(strength), float(z), p, n)


def order_trend(
    values: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Grouping:
    """Does a quantity rise or fall along the order? Spearman's ρ with position, as strength.

    With ``clusters``, neighbours of one cluster are one observation (their mean value at their
    mean position): ten questions on one image that stands early are not ten pieces of evidence.
    """
    numbers = np.asarray(values, dtype=np.float64)
    places = np.arange(len(numbers), dtype=np.float64)
    if clusters is not None:
        starts = [i == 0 or name != clusters[i - 1] for i, name in enumerate(clusters)]
        members = np.cumsum(starts) - 1
        sizes = np.bincount(members)
        numbers = np.bincount(members, weights=numbers) / sizes
        places = np.bincount(members, weights=places) / sizes
    n = len(numbers)
    if n < 3 or numbers.min() == numbers.max():
        return Grouping(0.0, 0.0, 1.0, n)
    ranks, order = _standard(_ranks(numbers)), _standard(_ranks(places))
    rho = float(ranks @ order)
    rng = np.random.default_rng(seed)
    p = _permutation_p(rho, lambda: float(rng.permutation(ranks) @ order), draws)
    return Grouping(rho, rho * float(np.sqrt(n - 1)), p, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: the family as a whole errs no more often than one test."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return [float(number) for number in adjusted]


def _permutation_p(observed: float, draw: Callable[[], float], draws: int) -> float:
    """Two-sided add-one p-value; stops early once it is clearly not significant."""
    extreme, least = 0, abs(observed) - 1e-9
    for done in range(1, draws + 1):
        extreme += abs(draw()) >= least
        if extreme >= _PLAIN:
            return (extreme + 1) / (done + 1)
    return (extreme + 1) / (draws + 1)


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean()
    unit: NDArray[np.float64] = centred / np.sqrt((centred**2).sum())
    return unit


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, ties sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return mean


# Runs of equal values among neighbours: scores that do not move when their question does.


class TieRuns(NamedTuple):
    pairs: int  # neighbouring pairs with different content
    tied: int  # of them, those with the same value to the last digit
    longest: int  # items in the longest run of equal values
    first: int  # place of the first tied pair, -1 if there is none

    @property
    def rate(self) -> float:
        return self.tied / self.pairs if self.pairs else 0.0


def tie_runs(values: ArrayLike, contents: Sequence[Hashable] | None = None) -> TieRuns:
    """Neighbours whose ``contents`` (a question, say) differ and whose values do not."""
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2:
        return TieRuns(0, 0, len(numbers), -1)
    different = np.ones(len(numbers) - 1, dtype=bool)
    if contents is not None:
        different = np.fromiter((a != b for a, b in pairwise(contents)), bool, len(different))
    tied = (numbers[1:] == numbers[:-1]) & different
    longest = run = 1
    for equal in tied:
        run = run + 1 if equal else 1
        longest = max(longest, run)
    places = np.flatnonzero(tied)
    return TieRuns(
        int(different.sum()), int(tied.sum()), longest, int(places[0]) if places.size else -1
    )


# Does a score rise or fall along the released order, after accounting for clusters and covariates?
#
# A cluster is one observation: the mean of its items' ranks at its place in the order, so permuting
# observations is permuting whole blocks. Ranks are taken within strata (answer type, answer length)
# and centred there: where easy kinds of question stand early, that alone makes no trend. Where neighbours
# are alike over a run (topics stand together), runs of three times that length are the observations.


Floats = NDArray[np.float64]
SURE = 3.0  # standard errors of a correlation between neighbours that is none of chance
FEWEST = 6  # clusters: four have 24 orders, so that even a perfect trend has p = .08


class Trend(NamedTuple):
    """``rho`` > 0: the score is higher early in the order. ``error`` is its spread under the null."""

    rho: float
    error: float
    test: Permuted
    clusters: int
    run: int = 1  # clusters that were dealt out together


def aligned_ranks(values: ArrayLike, strata: Sequence[Hashable] | None = None) -> Floats:
    """Ranks within each stratum, scaled to (-1, 1) around 0; ties share their mean rank."""
    numbers = np.asarray(values, dtype=np.float64)
    if strata is None:
        return _unit_ranks(numbers)
    out = np.zeros(len(numbers))
    for members in _codes(strata)[1]:
        out[members] = _unit_ranks(numbers[members])
    return out


def trend_test(
    values: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    early: bool = True,
) -> Trend | None:
    """``values`` in released order.

    None if there is no test: fewer than FEWEST clusters, or runs of them that are alike, or
    constant scores.
    """
    ranks = aligned_ranks(values, strata)
    blocks = clusters if clusters is not None else range(len(ranks))
    means, _ = block_means(ranks, blocks)
    count = len(means)
    if count < FEWEST or float(np.ptp(means)) < 1e-12:
        return None
    early_places = np.linspace(1.0, -1.0, count)
    run = run_length(means)
    pieces = count // run
    if pieces < FEWEST and _correlation(means, 1) > SURE / np.sqrt(count):
        return None
    run, pieces = min(run, count // FEWEST), max(pieces, FEWEST)
    centred = means - means.mean()
    sums, places = centred, early_places
    if run > 1:
        cuts = np.linspace(0, count, pieces + 1).astype(np.int64)[:-1]
        sums = np.add.reduceat(centred, cuts)
        places = np.add.reduceat(early_places, cuts) / np.diff([*cuts, count])
    test = shuffle_test(sums, places, permutations=permutations, seed=seed, early=early)
    scale = float(np.linalg.norm(centred) * np.linalg.norm(early_places))
    rho = float(centred @ early_places) / scale
    return Trend(rho, test.spread / scale, test, count, run)


def run_length(values: Floats) -> int:
    """How many neighbours have to be taken together so that one piece tells nothing of the next.

    Three times the lag from which on the correlation with what came before is that of chance, less a trend.
    """
    count = len(values)
    lag = 0
    while lag + 1 < count and _correlation(values, lag + 1) > 1.0 / np.sqrt(count):
        lag += 1
    return 3 * lag if lag else 1


def _correlation(values: Floats, lag: int) -> float:
    """With the value so many places before, less a trend."""
    places = np.linspace(-1.0, 1.0, len(values))
    left = values - values.mean()
    left = left - places * float(left @ places) / float(places @ places)
    size = float(left @ left)
    return float(left[lag:] @ left[:-lag]) / size if size > 0 else 0.0


def block_means(values: Floats, clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    """Mean value per cluster, clusters ordered by the mean place of their items, and their sizes."""
    codes, _ = _codes(clusters)
    sizes = np.bincount(codes).astype(np.float64)
    means = np.bincount(codes, weights=values) / sizes
    places = np.bincount(codes, weights=np.arange(len(codes))) / sizes
    order = np.argsort(places, kind="stable")
    return means[order], sizes[order]


def _codes(labels: Sequence[Hashable]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    known = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    codes = np.fromiter((known[label] for label in labels), np.int64, len(labels))
    order = np.argsort(codes, kind="stable")
    cuts = np.cumsum(np.bincount(codes))[:-1]
    return codes, list(np.split(order, cuts))


def _unit_ranks(values: Floats) -> Floats:
    centred: Floats = (2.0 * _ranks(values) - len(values) - 1.0) / max(len(values), 1)
    return centred
