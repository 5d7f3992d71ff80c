"""Requirements on every detector, built-in or external: size under the null, power by dose.

``null_calibration`` counts false alarms on clean cells; a detector's share at the 5 % level must lie in
its 99 % binomial band. Where a statistic is discrete, ties make the plain p larger than uniform, which is
safe; ``randomised`` draws within the tie, so that being too careful shows as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from heldout.detect import Detector, DetectSettings, Finding, Need, ScoreTables
from heldout.lab.power.planted_answers import ASKED, BASE, planted_answers
from heldout.lab.power.planted_scores import (
    ACCOMPLICE,
    BASELINE,
    PLANTED,
    REFERENCE,
    TARGET,
    planted_scores,
)
from heldout.stats import binomial_band


class NullCalibration(NamedTuple):
    detector: str
    cells: int
    alarms: int  # plain p ≤ α
    randomised: int  # p ≤ α after drawing within ties
    low: int
    high: int

    @property
    def holds(self) -> bool:
        """Whether there are not too many alarms and, apart from ties, not too few."""
        return self.alarms <= self.high and self.low <= self.randomised <= self.high


def null_calibration(
    detector: Detector, cells: int, *, alpha: float = 0.05, permutations: int = 999, seed: int = 0
) -> NullCalibration:
    rng = np.random.default_rng([seed, 5])
    alarms = randomised = 0
    for finding in clean_cells(detector, cells, permutations=permutations, seed=seed):
        assert finding.p is not None
        tied = float(finding.details.get("p_tied") or 0.0)
        alarms += finding.p <= alpha
        randomised += finding.p - rng.random() * tied <= alpha
    low, high = binomial_band(cells, alpha)
    return NullCalibration(detector.name, cells, alarms, randomised, low, high)


def power_by_dose(
    detector: Detector,
    doses: Sequence[float],
    cells: int,
    *,
    permutations: int = 999,
    seed: int = 0,
) -> list[float]:
    """For each planted dose the share of cells in which the target is called seen."""
    shares = []
    for dose in doses:
        findings = list(
            clean_cells(detector, cells, dose=dose, permutations=permutations, seed=seed)
        )
        shares.append(sum(finding.direction == "seen" for finding in findings) / len(findings))
    return shares


def clean_cells(
    detector: Detector,
    cells: int,
    *,
    dose: float = 0.0,
    permutations: int = 999,
    seed: int = 0,
) -> Iterator[Finding]:
    """The target's finding in each of ``cells`` synthetic cells with cluster structure."""
    for cell in range(cells):
        tables, settings = planted_for(detector, 1000 * seed + cell, dose=dose)
        chosen = settings.model_copy(update={"seed": cell, "permutations": permutations})
        yield target_finding(detector, tables, chosen)


def planted_for(
    detector: Detector, seed: int, *, dose: float = 0.0
) -> tuple[ScoreTables, DetectSettings]:
    """Tables with what a detector needs, and settings under which it is testable on them."""
    if detector.needs == "answers":
        if Need.UNSEEN not in detector.requires:
            return planted_answers(seed, dose=dose), ASKED
        later = ASKED.model_copy(update={"unseen": PLANTED.unseen})
        return planted_answers(seed, dose=dose, fresh=True), later
    # Top sets of independent models are what chance means for top-k overlap.
    shared = 0.0 if detector.of == "pair" else 0.5
    return planted_scores(seed, dose=dose, shared=shared), PLANTED


def target_finding(detector: Detector, tables: ScoreTables, settings: DetectSettings) -> Finding:
    alone = detector.of == "model" and Need.COHORT not in detector.requires
    if detector.needs == "scores" and alone:  # concerns one model only
        tables = tables.without(
            [ACCOMPLICE]
            if Need.REFERENCE in detector.requires
            else [ACCOMPLICE, BASELINE, "reference"]
        )
    if detector.needs == "answers" and tables.answers is not None:
        spared = set() if Need.BASE in detector.requires else {BASE}
        spared |= set() if detector.of == "models" else {REFERENCE}
        kept = tables.answers.filter(~pl.col("model").is_in(list(spared)))
        tables = replace(tables, answers=kept)
    wanted = {
        TARGET,
        f"{ACCOMPLICE} & {TARGET}",
        f"{BASELINE} < {REFERENCE} < {TARGET}",
        "no model",
    }
    return _only(
        outcome
        for outcome in detector.find(tables, settings)
        if isinstance(outcome, Finding) and outcome.cell.model in wanted
    )


def _only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding
