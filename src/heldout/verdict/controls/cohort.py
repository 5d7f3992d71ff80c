"""Cohort composition: would the flag remain in another cohort?"""

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


# Gain–offset calibration: how much of a tail the gain gap explains without any contamination.
#
# score of model m on item i = gain_m × easiness_i + offset_m + noise + contamination (the published
# Equation 1), so Δ = (gain_m - median gain) × easiness_i + (offset gap) + … (Equation 2). Easiness is
# taken from the other models alone: so that what only the target finds easy is not explained by itself. It is 0
# at the hardest tenth of the items, so that the offset is how a model does where nothing is easy; only
# the gain's part counts as explained, because memory of everything would look like an offset.


class GainFit(NamedTuple):
    model: str
    gain: float
    offset: float
    gain_gap: float  # above the median gain of the others
    offset_gap: float
    fit: float  # R² of the target's scores on easiness
    tail_rate: float  # observed share of Δ above the threshold
    tail_predicted: float  # share that the gain gap alone puts there

    @property
    def explained(self) -> float:
        """Which part of the tail needs no contamination; 1 where there is no tail to explain."""
        return min(1.0, self.tail_predicted / self.tail_rate) if self.tail_rate > 0 else 1.0


def fit_gains(scores: Floats, models: list[str], *, tail: float = 100.0) -> list[GainFit]:
    """One fit per model of the cohort; ``scores`` are models × items."""
    fits = []
    for row, model in enumerate(models):
        others = np.delete(scores, row, axis=0)
        easiness = _easiness(others)
        gain, offset, fit = _line(easiness, scores[row])
        lines = [_line(easiness, other) for other in others]
        median_gain = float(np.median([line[0] for line in lines]))
        median_offset = float(np.median([line[1] for line in lines]))
        gap, shift = gain - median_gain, offset - median_offset
        delta = scores[row] - np.median(others, axis=0)
        predicted = gap * easiness
        fits.append(
            GainFit(
                model,
                gain,
                offset,
                gap,
                shift,
                fit,
                float((delta > tail).mean()),
                float((predicted > tail).mean()),
            )
        )
    return fits


def spread_about(scores: Floats, row: int) -> float:
    """How far below its line one model's harder items lie: noise goes both ways, memory only up."""
    easiness = _easiness(np.delete(scores, row, axis=0))
    gain, offset, _ = _line(easiness, scores[row])
    left = scores[row] - gain * easiness - offset
    return float(np.median(left) - np.quantile(left, 0.1))


def _easiness(others: Floats) -> Floats:
    """The first principal direction over items: what the other models agree on, by their own scale."""
    centred = others - others.mean(axis=1, keepdims=True)
    weights = np.linalg.eigh(centred @ centred.T)[1][:, -1]
    weights = weights * (1.0 if weights.sum() >= 0 else -1.0)
    direction = weights @ centred
    direction = direction - np.quantile(direction, 0.1)
    spread = float(direction.std())
    return np.asarray(direction / (spread if spread > 0 else 1.0), dtype=np.float64)


def _line(easiness: Floats, values: Floats) -> tuple[float, float, float]:
    spread = float(easiness.var())
    gain = float(((easiness - easiness.mean()) * (values - values.mean())).mean()) / (spread or 1.0)
    offset = float(values.mean() - gain * easiness.mean())
    left = values - gain * easiness - offset
    total = float(values.var())
    return gain, offset, 1.0 - float(left.var()) / total if total > 0 else 0.0
