"""Cohort composition: would the flag still stand in other company?"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from heldout.detect import SMALLEST, Floats, cohort_delta

MOST = 200  # sub-cohorts looked at; beyond, an even selection of them


class Composition(NamedTuple):
    """One sub-cohort and what the target's tail is in it."""

    others: tuple[str, ...]
    tail_rate: float
    flagged: bool


def sweep_cohort(
    scores: Floats, models: list[str], target: str, *, tail: float = 100.0, flag: float = 0.05
) -> list[Composition]:
    """The target in every sub-cohort of at least three models, itself included."""
    row = models.index(target)
    others = [index for index in range(len(models)) if index != row]
    cohorts = [
        chosen
        for size in range(SMALLEST - 1, len(others) + 1)
        for chosen in combinations(others, size)
    ]
    if len(cohorts) > MOST:
        picked = np.linspace(0, len(cohorts) - 1, MOST).round().astype(int)
        cohorts = [cohorts[index] for index in np.unique(picked)]
    compositions = []
    for chosen in cohorts:
        delta = cohort_delta(scores[[row, *chosen]])[0]
        rate = float((delta > tail).mean())
        compositions.append(
            Composition(tuple(models[index] for index in chosen), rate, rate > flag)
        )
    return compositions
