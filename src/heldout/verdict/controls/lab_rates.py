"""Clean models of the lab: does the detector a claim stands on fire on them as well?

A detector whose measured false-positive rate is off carries no claim beyond *qualified*. One that was not
measured is not capped: a missing rate is no evidence that it fires on clean models, and every claim is compared
with the run's own baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from heldout.detect import Finding, Need, detectors
from heldout.errors import counted, percent
from heldout.verdict._model_claims import BASELINE, LAB, strongest_of
from heldout.verdict.claim import Control, FalseAlarms
from heldout.verdict.measured import (
    LAB_KINDS,
    RAW,
    REFERENCES,
    FiringCount,
    MeasuredRate,
    MeasuredRates,
    Way,
)

_WORDS = {RAW: "tested by itself", REFERENCES: "compared with references"}


def way_of(finding: Finding, compared: bool) -> Way:
    """Which of the lab's measurements applies to a claim.

    ``compared``: whether baselines were compared. What models answered, cohorts and the perplexity ratio have
    the
    references in their own p; order and item scores are tested by themselves, and against baselines only
    where they fire.
    """
    detector = detectors().get(finding.detector)
    requires = detector.requires if detector is not None else frozenset()
    if Need.REFERENCE in requires:
        return REFERENCES
    if Need.COHORT in requires:
        return REFERENCES if finding.p is not None else RAW
    if "references" in finding.details:
        return REFERENCES if finding.details["references"] else RAW
    return REFERENCES if compared else RAW


def were_compared(controls: Sequence[Control]) -> bool:
    return any(
        control.name.startswith(BASELINE) and control.outcome != "missing" for control in controls
    )


def keeping_their_level(
    findings: Sequence[Finding], compared: bool, rates: MeasuredRates
) -> list[Finding]:
    """Findings of detectors that are not known to fire on clean models."""
    return [
        finding
        for finding in findings
        if not _off(rates.of(finding.detector, way_of(finding, compared)))
    ]


def lab_control(
    findings: Sequence[Finding], controls: Sequence[Control], rates: MeasuredRates
) -> list[Control]:
    """The control of findings that fire and point to memory: these were counted on clean models."""
    strongest = strongest_of(findings)
    if strongest is None or strongest.direction != "seen":
        return []
    return on_clean_models(strongest.detector, way_of(strongest, were_compared(controls)), rates)


def on_clean_models(detector: str, way: Way, rates: MeasuredRates) -> list[Control]:
    """None if it was not measured."""
    rate = rates.of(detector, way)
    if rate is None:
        return []
    message = f"{_counted(rate)}, {_WORDS[way]}"
    if rate.off:
        message += ": more than its level allows"
    alarms = FalseAlarms(detector=detector, clean=rate.clean)
    outcome: Literal["passed", "failed"] = "failed" if rate.off else "passed"
    return [Control(name=LAB, outcome=outcome, reason=message, false_alarms=alarms)]


def power_note(
    findings: Sequence[Finding], controls: Sequence[Control], rates: MeasuredRates
) -> str:
    """Power: how often these detectors fire on models that have seen the benchmark."""
    compared = were_compared(controls)
    tested = list(
        dict.fromkeys((f.detector, way_of(f, compared)) for f in findings if f.p is not None)
    )
    known = [(name, rates.of(name, way)) for name, way in tested]
    measured = [rate for _, rate in known if rate is not None and rate.contaminated.n]
    if not measured:
        return "its power was not measured" if len(tested) == 1 else "their power was not measured"
    message = "in the lab, " + ", ".join(_seen(rate) for rate in measured)
    if missing := [name for name, rate in known if rate is None]:
        message += f"; {', '.join(missing)} not measured"
    if any(rate.sees for rate in measured):
        return message
    none = "it was not" if len(measured) == 1 else "none of them was"
    return (
        f"{message}; {none} shown to see contamination there, so that finding nothing says little"
    )


def _counted(rate: MeasuredRate) -> str:
    """A benchmark whose rate is off is named: a pooled rate would hide it."""
    if rate.off_in:
        places = " and ".join(
            f"{_of(fired)} lab models that had not seen the benchmark ({LAB_KINDS.get(name, name)})"
            for name, fired in rate.off_in.items()
        )
        pooled = f" ({_of(rate.clean)} of all benchmarks)" if len(rate.benchmarks) > 1 else ""
        return f"{rate.detector} wrongly accused {places}{pooled}"
    clean = rate.clean
    of = f"accused {clean.fired:,} of {clean.n:,}"
    if clean.models != clean.n:
        of = f"fired in {clean.fired:,} of {clean.n:,} tests of {clean.models:,}"
    message = (
        f"{rate.detector} wrongly {of} lab models that had not seen the benchmark (95 % interval of that "
        f"share: {percent(clean.low, 0)} to {percent(clean.high, 0)}"
    )
    if clean.bases is not None:
        message += f"; they were trained from {counted(clean.bases, 'base model', 'base models')}"
    return f"{message})"


def _of(counted: FiringCount) -> str:
    return f"{counted.fired} of {counted.n}"


def _seen(rate: MeasuredRate) -> str:
    """Power by benchmark, too: what is seen on one may be missed on the other."""
    message = (
        f"{rate.detector} detected {_of(rate.contaminated)} small models trained on the benchmark"
    )
    if len(rate.benchmarks) > 1:
        places = (
            f"{LAB_KINDS.get(name, name)}: {_of(benchmark.contaminated)}"
            for name, benchmark in rate.benchmarks.items()
        )
        message += f" ({'; '.join(places)})"
    if not rate.off:
        return message
    clean = [
        f"{_of(fired)} clean ones ({LAB_KINDS.get(name, name)})"
        for name, fired in rate.off_in.items()
    ]
    return f"{message} (and fired on {' and '.join(clean) or _of(rate.clean) + ' clean ones'})"


def _off(rate: MeasuredRate | None) -> bool:
    return rate is not None and rate.off
