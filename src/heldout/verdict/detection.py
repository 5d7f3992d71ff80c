"""The verb detect: every detector over a run's tables, controls and claims, kept in the run."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.detect import DetectSettings, Finding, NotTestable, ScoreTables
from heldout.store import Run
from heldout.verdict.claim import Claim
from heldout.verdict.examine import Examination, examine, save_examination
from heldout.verdict.measured import read_rates, shipped_rates


@dataclass(frozen=True)
class Detection:
    """What ``heldout.detect`` returns.

    Args:
        run: The run whose tables were read, and which keeps the findings and claims.
        examination: Findings and claims as objects, with self-checks and what describes them.
    """

    run: Run
    examination: Examination

    @property
    def findings(self) -> pl.DataFrame:
        """One row per finding: detector, model, effect with its interval, p, direction."""
        return findings_frame(self.examination.findings)

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim: its status, and why."""
        return claims_frame(self.examination.claims)

    @property
    def untested(self) -> pl.DataFrame:
        """Which detector could not be run on which model, and why."""
        rows = [_of_cell(outcome, reason=outcome.reason) for outcome in self.examination.untested]
        return pl.DataFrame(
            rows, schema={"detector": pl.String, "model": pl.String, "reason": pl.String}
        )

    def __repr__(self) -> str:
        made = self.examination
        return (
            f"Detection({len(made.findings)} findings, {len(made.claims)} claims, {self.run.path})"
        )

    def _repr_html_(self) -> str:
        return claims_html(self.examination.claims)


def detect_run(
    run: str | Path | Run,
    *,
    detectors: Sequence[str] = (),
    rates: str | Path | None = None,
    settings: DetectSettings | None = None,
    **values: Any,
) -> Detection:
    """Test whether models have seen a benchmark, from recorded scores and answers.

    ``heldout.detect(...)`` is this function, too. No model is loaded. Findings and claims are kept in the run.

    Args:
        run: A run with scores or answers.
        detectors: Names of detectors; default: all that the run has the tables for.
        rates: Measured rates of your own ``heldout lab power``; default: those that come with heldout.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``DetectSettings``: ``baselines``, ``unseen``, ``strata``, …

    Returns:
        Findings and claims as data frames, and the run.

    Raises:
        InputError: The run has no scores and no answers, or a setting does not fit it.
    """
    chosen = settings if settings is not None else DetectSettings.read(values)
    known = shipped_rates() if rates is None else read_rates(Path(rates))
    opened = run if isinstance(run, Run) else Run.open(run)
    examination = examine(ScoreTables.load(opened), detectors, chosen, known)
    save_examination(opened, examination)
    return Detection(opened, examination)


def findings_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    rows = [
        _of_cell(
            finding,
            corpus=finding.cell.corpus,
            effect=finding.effect.name,
            value=finding.effect.value,
            low=finding.effect.low,
            high=finding.effect.high,
            p=finding.p,
            p_adjusted=finding.p_adjusted,
            direction=finding.direction,
            n=finding.n,
            unit=finding.unit,
            clusters=finding.clusters,
            minimum_detectable_effect=finding.minimum_detectable_effect,
        )
        for finding in findings
    ]
    numbers = ("value", "low", "high", "p", "p_adjusted")
    schema = {
        **dict.fromkeys(("detector", "model", "corpus", "effect"), pl.String),
        **dict.fromkeys(numbers, pl.Float64),
        "direction": pl.String,
        "n": pl.Int64,
        "unit": pl.String,
        "clusters": pl.Int64,
        "minimum_detectable_effect": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def claims_frame(claims: Iterable[Claim]) -> pl.DataFrame:
    rows = [
        {
            "claim": claim.id,
            "status": claim.status,
            "sentence": claim.sentence,
            "why": claim.why,
            "next_step": claim.next_step,
            "model": claim.cell.model,
            "corpus": claim.cell.corpus,
        }
        for claim in claims
    ]
    names = ("claim", "status", "sentence", "why", "next_step", "model", "corpus")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def claims_html(claims: Iterable[Claim]) -> str:
    """Claims as a table for notebooks."""
    rows = "".join(
        f"<tr><td>{html.escape(claim.status)}</td><td style='text-align:left'>"
        f"{html.escape(claim.sentence)}<br><small>{html.escape(claim.why)}</small></td></tr>"
        for claim in claims
    )
    return f"<table><tr><th>status</th><th>claim</th></tr>{rows}</table>"


def _of_cell(outcome: Finding | NotTestable, **rest: Any) -> dict[str, Any]:
    return {"detector": outcome.detector, "model": outcome.cell.model, **rest}
