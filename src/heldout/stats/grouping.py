"""How strongly a released order is grouped or sorted, against the order being random.

This decides which order tests are valid later: a test that permutes items freely needs the items to
be exchangeable, and items that were released image by image, or topic by topic, are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

_RARE = 10


class Grouping(NamedTuple):
    """``strength`` is 0 for a random order and 1 for fully grouped (or sorted); ``p`` two-sided."""

    strength: float
    z: float
    p: float
    n: int


def order_grouping(labels: Sequence[Hashable]) -> Grouping:
    """Do neighbours share a label more often than in a random order? (Wald–Wolfowitz runs.)

    Strength is the excess of equal neighbours over chance, as a share of the largest possible
    excess. Mean and variance are those of the exact permutation distribution.
    """
    n = len(labels)
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    sequence = np.fromiter((codes[label] for label in labels), dtype=np.int64, count=n)
    counts = np.bincount(sequence).astype(np.float64)
    if n < 3 or len(counts) < 2 or len(counts) == n:
        return Grouping(0.0, 0.0, 1.0, n)  # one label, or all different: there is nothing to group
    equal = float((sequence[1:] == sequence[:-1]).sum())
    expected = float((counts * (counts - 1)).sum() / n)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    most = n - len(counts)
    strength = (equal - expected) / (most - expected)
    z = (equal - expected) / np.sqrt(variance) if variance > 0 else 0.0
    p = 2 * special.ndtr(-abs(z))
    if expected < _RARE:  # few equal neighbours expected: their number is Poisson, not normal
        p = 2 * min(
            special.pdtr(equal, expected), special.pdtrc(equal - 1, expected) if equal else 1.0
        )
    return Grouping(float(strength), float(z), float(min(1.0, p)), n)


def order_trend(values: ArrayLike) -> Grouping:
    """Does a quantity rise or fall along the order? Spearman's ρ with position, as strength."""
    numbers = np.asarray(values, dtype=np.float64)
    n = len(numbers)
    if n < 3 or numbers.min() == numbers.max():
        return Grouping(0.0, 0.0, 1.0, n)
    rho = float(np.corrcoef(np.arange(n), _ranks(numbers))[0, 1])
    z = rho * np.sqrt(n - 1)  # permutation variance of Spearman's rho is 1 / (n - 1)
    return Grouping(rho, float(z), float(2 * special.ndtr(-abs(z))), n)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, ties sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return mean
