"""What a claim could have shown: the p it needed, the smallest p it could get, and its own interval.

A claim that does not fire is clean only if it could have fired, and if no effect lies in its interval. A
finding needs a smaller p the more tests were planned with it; its interval is wider the more tests are of its
model, but not for tests of other models: who audits many would clear each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from heldout.detect import ALPHA, DETECTABLE, Finding
from heldout.verdict._model_claims import ATTAINABLE, OWN_INTERVAL, corrected
from heldout.verdict.claim import Control

_STEPS = 40  # halvings of the exponent of p: three digits
_SMALLEST = -18.0
POWER = 0.95


def needed_p(key: str, tests: int, claims: Mapping[str, float], others: Sequence[float]) -> float:
    """The largest p of one of ``tests`` in the claim ``key`` at which this claim would fire by it alone."""
    low, high = _SMALLEST, 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = {**claims, key: min(1.0, tests * 10.0**middle)}
        if corrected(tried, others)[key] <= ALPHA:
            low = middle
        else:
            high = middle
    return float(10.0**low)


def at_level(finding: Finding, needed: float) -> Finding:
    """The finding with the effect that would have had p ≤ ``needed`` 19 times out of 20."""
    if finding.p is None:
        return finding
    error = finding.minimum_detectable_effect / DETECTABLE
    freedom = _freedom(finding)
    if "clusters_by_side" in finding.details:
        error *= np.sqrt(min(finding.details["clusters_by_side"]) / freedom)
    reach = special.stdtrit(freedom, 1 - needed / 2) + special.stdtrit(freedom, POWER)
    return finding.model_copy(
        update={
            "minimum_detectable_effect": _with_missing(
                finding, _with_own_noise(finding, float(error), float(reach))
            ),
            "details": {**finding.details, "needed_p": needed},
        }
    )


def together(finding: Finding, tests: int) -> Finding:
    """A finding that does not fire, with an interval that holds together with those of all ``tests`` of its model
    (Bonferroni). One whose p could not have been small enough keeps the narrower: its interval alone can speak.
    An effect that the interval holds is not said to have been detectable."""
    return _not_below(_widened(finding, tests))


def _not_below(finding: Finding) -> Finding:
    if finding.p is None or "above_baselines" in finding.details:
        return finding
    least = max(finding.minimum_detectable_effect, finding.effect.high)
    return finding.model_copy(update={"minimum_detectable_effect": least})


def _widened(finding: Finding, tests: int) -> Finding:
    if finding.p is None or tests < 2 or out_of_reach(finding):
        return finding
    freedom = _freedom(finding)
    level = 1 - (1 - finding.effect.level) / tests
    wider = special.stdtrit(freedom, (1 + level) / 2)
    wider /= special.stdtrit(freedom, (1 + finding.effect.level) / 2)
    effect, details = finding.effect, finding.details
    low, high = _scaled(effect.value, effect.low, effect.high, wider)
    if "accuracy" in details:  # a difference of two shares
        low, high = max(low, -1.0), min(high, 1.0)
    if compared := details.get("above_baselines"):
        ends = _scaled(compared["value"], compared["low"], compared["high"], wider)
        details = {**details, "above_baselines": {**compared, "low": ends[0], "high": ends[1]}}
    method = f"{effect.method}, together with {tests - 1} of the same model"
    return finding.model_copy(
        update={
            "effect": effect.model_copy(
                update={"low": low, "high": high, "level": level, "method": method}
            ),
            "details": details,
        }
    )


def _scaled(value: float, low: float, high: float, wider: float) -> tuple[float, float]:
    return float(value - wider * (value - low)), float(value + wider * (high - value))


def _freedom(finding: Finding) -> int:
    # Of two sets of items the smaller one says how well the error is known: five fresh ones hardly do.
    side: int = min(finding.details.get("clusters_by_side", [finding.clusters]))
    return max(side - 1, 1)


def _with_own_noise(finding: Finding, error: float, reach: float) -> float:
    """The effect that is ``reach`` of its own standard errors. Where right answers are counted an effect x turns
    a share x of the pairs, which adds x / n to the variance: near a ceiling that is nearly all of it."""
    if "accuracy" not in finding.details:
        return error * reach
    added = reach**2 * finding.details.get("design_effect", 1.0) / finding.n
    return min(1.0, float(added + np.sqrt(added**2 + (2 * error * reach) ** 2)) / 2)


def _with_missing(finding: Finding, least: float) -> float:
    """What is not recorded may have shown it: pairs that are missing can all be on one side."""
    hidden = finding.details.get("missing_may_hide", 0.0)
    return min(1.0, least + hidden) if "accuracy" in finding.details else float(least + hidden)


def reach_controls(findings: Sequence[Finding], claims: int) -> list[Control]:
    """Of a claim that does not fire; ``claims`` were planned together.

    Findings are those of ``at_level``.
    """
    tested = [finding for finding in findings if finding.p is not None]
    return [*_attainable(tested, claims), *_intervals(tested, claims)]


def out_of_reach(finding: Finding) -> bool:
    least, needed = finding.details.get("least_p"), finding.details.get("needed_p")
    return least is not None and needed is not None and least > needed


def _attainable(tested: Sequence[Finding], claims: int) -> list[Control]:
    if not tested or not all(out_of_reach(f) or beyond_all(f) for f in tested):
        return []
    reasons = [
        f"{finding.detector}: the smallest p that {finding.clusters:,} {_unit(finding)} and its "
        f"permutations can give is {finding.details['least_p']:.2g}, and in a family of {claims:,} "
        f"claim{'' if claims == 1 else 's'} it takes {finding.details['needed_p']:.2g}"
        if out_of_reach(finding)
        else f"{finding.detector}: {finding.clusters:,} {_unit(finding)} would show an effect of "
        f"{finding.minimum_detectable_effect:.2g} or more, and none is larger than "
        f"{finding.details['largest_effect']:.2g}"
        for finding in tested
    ]
    return [Control(name=ATTAINABLE, outcome="missing", reason="; ".join(reasons))]


def beyond_all(finding: Finding) -> bool:
    """Whether only effects could have been seen that are larger than any can be."""
    largest: float | None = finding.details.get("largest_effect")
    return largest is not None and finding.minimum_detectable_effect >= largest


def _unit(finding: Finding) -> str:
    return "shards" if finding.unit == "shards" else "images"


def _intervals(tested: Sequence[Finding], claims: int) -> list[Control]:
    against = [finding for finding in tested if _low(finding) > 0]
    if not against:
        return []
    reasons = [
        f"the interval of {finding.detector} lies above no effect, and its p of {finding.p:.2g} is not "
        f"below the {finding.details['needed_p']:.2g} that a family of {claims:,} "
        f"claim{'' if claims == 1 else 's'} asks"
        for finding in against
    ]
    return [Control(name=OWN_INTERVAL, outcome="failed", reason="; ".join(reasons))]


def _low(finding: Finding) -> float:
    """Of the quantity that was tested, where the effect that is shown is another."""
    compared = finding.details.get("above_baselines")
    return float(compared["low"]) if compared else finding.effect.low
