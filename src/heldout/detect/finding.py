"""Finding: what one detector says about one cell, with everything needed to judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heldout.detect.settings import ALPHA
from heldout.errors import InputError
from heldout.stats import Interval, binomial_interval, cluster_rate_interval


class Strict(BaseModel):
    """Base of records in files that scripts read: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(Strict):
    """What was tested: a benchmark against a corpus, or against a model."""

    benchmark: str
    corpus: str | None = None
    model: str | None = None


class Statistic(Strict):
    name: str
    value: float


class Effect(Strict):
    """An effect size always travels with its interval."""

    name: str
    value: float
    low: float
    high: float
    level: float
    method: str

    @classmethod
    def of(cls, name: str, value: float, interval: Interval) -> Effect:
        return cls(name=name, value=value, **interval._asdict())


class Finding(Strict):
    id: str
    detector: str
    cell: Cell
    unit: str  # what n counts: images, questions
    statistic: Statistic
    effect: Effect
    p: float | None  # None where nothing was sampled: identity is checked, not tested
    p_adjusted: float | None = None
    direction: Literal["seen", "not seen", "none"]  # higher = more likely seen, everywhere
    n: int
    clusters: int
    #: the rate, in benchmarks drawn like this one, that would be detected 19 times out of 20
    minimum_detectable_effect: float
    blind_to: list[str] = Field(default_factory=list)  # what this detector cannot see, in words
    seed: int | None  # None where nothing was drawn at random
    table: str  # the table it was computed from
    details: dict[str, Any] = Field(default_factory=dict)


def rate_interval(hits: Sequence[float], clusters: Sequence[str]) -> Interval:
    if len(set(clusters)) == len(clusters):
        return binomial_interval(int(sum(hits)), len(hits))
    return cluster_rate_interval(hits, clusters)


def rate_finding(
    hits: Sequence[float], clusters: Sequence[str], *, statistic: str, effect: str, **rest: Any
) -> Finding:
    """The share of ``hits`` that are 1, counted and not tested; ``rest`` are the other fields."""
    n, positives, groups = len(hits), int(sum(hits)), len(set(clusters))
    return Finding(
        statistic=Statistic(name=statistic, value=positives),
        effect=Effect.of(effect, positives / n if n else 0.0, rate_interval(hits, clusters)),
        p=None,
        direction="seen" if positives else "none",
        n=n,
        clusters=groups,
        # The rate of leaking clusters at which at least one shows, 19 times out of 20. It speaks of
        # benchmarks drawn like this one. In this benchmark every exact copy is found.
        minimum_detectable_effect=1.0 - 0.05 ** (1.0 / groups) if groups else 1.0,
        seed=None,
        **rest,
    )


# What a detector gives for one cell: a Finding, or the reason why there can be none.


Direction = Literal["seen", "not seen", "none"]
# The effect that would be detected 19 times out of 20 at the two-sided 5 % level, in standard errors.
DETECTABLE = 1.959964 + 1.644854
NORMAL = 1.959964


class NotTestable(Strict):
    """The reason why there is no result; it is never a pass."""

    id: str
    detector: str
    cell: Cell
    reason: str
    #: False if what it needs was not recorded: then it is no gap in the plan
    recorded: bool = True


class NotRecorded(str):
    """A reason that says what has to be recorded first."""


Outcome = Finding | NotTestable


def not_testable(detector: str, benchmark: str, model: str, reason: str) -> NotTestable:
    """What a detector yields for a model that it cannot test.

    Args:
        detector: The detector's name.
        benchmark: The benchmark's name: ``tables.benchmark``.
        model: The model's name.
        reason: Why, as a sentence for the user; a ``NotRecorded`` where something has to be recorded first.
    """
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
    """The interval clipped to ``within``, the values that the effect can have."""
    low, high = value - NORMAL * error, value + NORMAL * error
    return Interval(max(low, within[0]), min(high, within[1]), 0.95, method)


def around_correlation(value: float, error: float, method: str) -> Interval:
    """Fisher's z: ``error``, the spread where there is no correlation, is there that of z as well."""
    if abs(value) >= 1.0:  # perfect order of few clusters: z is infinite on that side
        low, high = sorted((value, value - math.copysign(NORMAL * error, value)))
        return Interval(max(low, -1.0), min(high, 1.0), 0.95, method)
    z = math.atanh(value)
    ends = (math.tanh(z - NORMAL * error), math.tanh(z + NORMAL * error))
    return Interval(*ends, 0.95, f"{method}, Fisher's z")


def _pair(detector: str, bounds: Any) -> Interval:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"{detector}: the effect's interval is {bounds!r:.60}: expected heldout.stats.Interval, or its two "
            f"ends"
        ) from None
    return Interval(low, high, 0.95, "as the detector gives it")


def model_finding(
    detector: str,
    benchmark: str,
    model: str,
    *,
    unit: str,
    statistic: tuple[str, float],
    effect: tuple[str, float, Interval | tuple[float, float]],
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
    """What a detector yields for a model that it could test.

    Args:
        detector: The detector's name.
        benchmark: The benchmark's name: ``tables.benchmark``.
        model: The model's name.
        unit: What ``n`` counts: questions, images.
        statistic: Name and value of what was tested.
        effect: Name, value and interval of the effect; higher means more likely seen. The interval is a
            ``heldout.stats.Interval``, or the two ends of a 95 % interval.
        error: Standard error of the effect, from which the smallest detectable effect is computed.
        p: Two-sided, permutations counted with one added; None where nothing was tested.
        n: How many units.
        clusters: How many groups of dependent items (images, patients).
        blind_to: What the detector cannot see, in words.
        seed: Seed of random draws; None where there were none.
        table: The table of the run that it was computed from: scores or answers.
        details: Anything else that JSON can hold.
        direction: ``seen``, ``not seen`` or ``none``; default: by ``p`` and the sign of the effect.
    """
    name, value, bounds = effect
    interval = bounds if isinstance(bounds, Interval) else _pair(detector, bounds)
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
