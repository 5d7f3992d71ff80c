"""Finding: what one detector says about one cell, with everything needed to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heldout.stats import Interval, binomial_interval, cluster_rate_interval


class Strict(BaseModel):
    """Written to a file people script against: an unknown field is a mistake."""

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
    #: the rate, in benchmarks drawn like this one, that would have shown 19 times out of 20
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
    n, found, groups = len(hits), int(sum(hits)), len(set(clusters))
    return Finding(
        statistic=Statistic(name=statistic, value=found),
        effect=Effect.of(effect, found / n if n else 0.0, rate_interval(hits, clusters)),
        p=None,
        direction="seen" if found else "none",
        n=n,
        clusters=groups,
        # The rate of leaking clusters at which at least one shows, 19 times out of 20. It speaks of
        # benchmarks drawn like this one. In this benchmark every exact copy is found.
        minimum_detectable_effect=1.0 - 0.05 ** (1.0 / groups) if groups else 1.0,
        seed=None,
        **rest,
    )
