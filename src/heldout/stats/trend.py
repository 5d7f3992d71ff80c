"""Does a score rise or fall along the released order, beyond what clusters and covariates explain?

A cluster is one observation: the mean of its items' ranks at its place in the order, so permuting
observations is permuting whole blocks. Ranks are taken within strata (answer type, answer length)
and centred there: where easy kinds of question stand early, that alone makes no trend.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.permutation import PERMUTATIONS, Permuted, shuffle_test

Floats = NDArray[np.float64]
FEWEST = 6  # clusters: four have 24 orders, so that even a perfect trend has p = .08


class Trend(NamedTuple):
    """``rho`` > 0: the score is higher early in the order. ``error`` is its spread under the null."""

    rho: float
    error: float
    test: Permuted
    clusters: int


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
    """``values`` in released order. None where nothing can be told: < FEWEST clusters, constant scores."""
    ranks = aligned_ranks(values, strata)
    blocks = clusters if clusters is not None else range(len(ranks))
    means, _ = block_means(ranks, blocks)
    count = len(means)
    if count < FEWEST or float(np.ptp(means)) < 1e-12:
        return None
    early_places = np.linspace(1.0, -1.0, count)
    test = shuffle_test(means, early_places, permutations=permutations, seed=seed, early=early)
    scale = float(np.linalg.norm(means - means.mean()) * np.linalg.norm(early_places))
    return Trend(test.statistic / scale, test.spread / scale, test, count)


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
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[inverse]
    centred: Floats = (2.0 * ranks - len(values) - 1.0) / max(len(values), 1)
    return centred
