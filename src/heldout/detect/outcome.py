"""What a detector gives for one cell: a Finding, or the reason why there can be none."""

from __future__ import annotations

import math
from typing import Any, Literal

from heldout.detect.finding import Cell, Effect, Finding, Statistic, Strict
from heldout.detect.settings import ALPHA
from heldout.stats import Interval

Direction = Literal["seen", "not seen", "none"]
# What would have shown 19 times out of 20 at the two-sided 5 % level, in standard errors.
DETECTABLE = 1.959964 + 1.644854
NORMAL = 1.959964


class NotTestable(Strict):
    """No number, and why: never a pass."""

    id: str
    detector: str
    cell: Cell
    reason: str
    #: False where nobody recorded what it needs: then it is no gap in what was planned
    recorded: bool = True


class NotRecorded(str):
    """A reason that says what somebody would have to record first."""


Outcome = Finding | NotTestable


def not_testable(detector: str, benchmark: str, model: str, reason: str) -> NotTestable:
    cell = Cell(benchmark=benchmark, model=model)
    return NotTestable(
        id=f"{detector}/{model}",
        detector=detector,
        cell=cell,
        reason=str(reason),
        recorded=not isinstance(reason, NotRecorded),
    )


def direction_of(p: float | None, effect: float) -> Direction:
    """Higher = more likely seen, everywhere; the opposite tail is not 'clean', it is 'not seen'."""
    if p is None or p > ALPHA or effect == 0:
        return "none"
    return "seen" if effect > 0 else "not seen"


def around(
    value: float, error: float, method: str, within: tuple[float, float] = (-math.inf, math.inf)
) -> Interval:
    """``within`` are the values the effect can have: beyond them no true value lies, so none is lost."""
    low, high = value - NORMAL * error, value + NORMAL * error
    return Interval(max(low, within[0]), min(high, within[1]), 0.95, method)


def around_correlation(value: float, error: float, method: str) -> Interval:
    """Fisher's z: ``error``, the spread where there is no correlation, is there that of z as well."""
    if abs(value) >= 1.0:  # perfect order of few clusters: z has no end on that side
        low, high = sorted((value, value - math.copysign(NORMAL * error, value)))
        return Interval(max(low, -1.0), min(high, 1.0), 0.95, method)
    z = math.atanh(value)
    ends = (math.tanh(z - NORMAL * error), math.tanh(z + NORMAL * error))
    return Interval(*ends, 0.95, f"{method}, Fisher's z")


def model_finding(
    detector: str,
    benchmark: str,
    model: str,
    *,
    unit: str,
    statistic: tuple[str, float],
    effect: tuple[str, float, Interval],
    error: float,
    p: float | None,
    n: int,
    clusters: int,
    blind_to: list[str],
    seed: int | None,
    table: str,
    details: dict[str, Any],
    direction: Direction | None = None,
) -> Finding:
    name, value, interval = effect
    return Finding(
        id=f"{detector}/{model}",
        detector=detector,
        cell=Cell(benchmark=benchmark, model=model),
        unit=unit,
        statistic=Statistic(name=statistic[0], value=statistic[1]),
        effect=Effect.of(name, value, interval),
        p=p,
        direction=direction if direction is not None else direction_of(p, value),
        n=n,
        clusters=clusters,
        minimum_detectable_effect=DETECTABLE * error,
        blind_to=blind_to,
        seed=seed,
        table=table,
        details=details,
    )
