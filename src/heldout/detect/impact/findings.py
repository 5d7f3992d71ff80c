"""Differences as one family of tests, and as findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.impact.impact import Impact
from heldout.detect.outcome import DETECTABLE, direction_of
from heldout.evidence import NOT_VERIFIED
from heldout.stats import holm

NAME = "impact"
_DETECTABLE = "would show 19 times out of 20 at the two-sided 5 % level, normal, before adjustment"


def adjust_impacts(impacts: Sequence[Impact]) -> None:
    """Holm over all that is printed together: every model, kind of leak and measure with an interval."""
    tested = [owed.p for impact in impacts for owed in impact.owed if owed.p is not None]
    adjusted = iter(holm(tested))
    for impact in impacts:
        impact.owed = [
            owed if owed.p is None else replace(owed, p_adjusted=next(adjusted))
            for owed in impact.owed
        ]


def impact_findings(
    impact: Impact, benchmark: str, seed: int, *, labelled: bool = False
) -> list[Finding]:
    """Differences as findings; nothing where too few clusters carry an interval.

    The direction is that of the adjusted test; the interval is that of the one difference.
    ``labelled``: what leaked was said by labels made elsewhere.
    """
    trust = [f"whether the labels are true: {NOT_VERIFIED}"] if labelled else []
    return [
        Finding(
            id=f"{NAME}/{impact.model}/{owed.leakage}/{owed.measure}",
            detector=NAME,
            cell=Cell(benchmark=benchmark, model=impact.model),
            unit="items",
            statistic=Statistic(
                name=f"{owed.measure}, with less without leakage: {owed.leakage}", value=owed.value
            ),
            effect=Effect.of(
                f"{owed.measure} difference, leakage: {owed.leakage}", owed.value, owed.interval
            ),
            p=owed.p,
            p_adjusted=owed.p_adjusted,
            direction=direction_of(owed.p_adjusted, owed.value),
            n=owed.compared,
            clusters=owed.leaked_clusters,
            minimum_detectable_effect=DETECTABLE * owed.error,
            blind_to=[
                "association, not cause: leaked items may be easier or harder for reasons of their own; "
                "compare a model that cannot have seen them (--baseline)",
                *trust,
            ],
            seed=seed,
            table="leak labels" if labelled else "matches",
            details={"minimum_detectable_effect": _DETECTABLE, "interval": "unadjusted"},
        )
        for owed in impact.owed
        if owed.interval is not None and owed.error is not None
    ]
