"""How much a score owes to leaked items: the whole, its parts, and a control of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.impact.subsets import Block, Mask, matched_draws
from heldout.stats import Interval, cluster_rate_interval
from heldout.stats.subset_means import Estimate, subset_difference, subset_mean

DRAWS = 10  # random subsets, as published
ENOUGH = 12  # clusters with a hit, and with a miss, from which on their spread is trusted
NAME = "impact"


@dataclass(frozen=True)
class Line:
    """One subset under one measure."""

    subset: str
    leakage: str  # "" for the whole benchmark
    measure: str
    items: int
    clusters: int
    value: float | None  # None where the subset is empty
    interval: Interval | None = None  # None where too few clusters carry it
    gain: float | None = None  # less the whole benchmark
    gain_interval: Interval | None = None
    sd: float | None = None  # between random draws


@dataclass(frozen=True)
class Owed:
    """The paired question: the score on everything less the score on what did not leak."""

    leakage: str
    measure: str
    value: float
    interval: Interval | None
    error: float | None
    leaked: int
    leaked_clusters: int


@dataclass
class Impact:
    model: str
    metric: str
    items: int
    lines: list[Line] = field(default_factory=list)
    owed: list[Owed] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("model", "metric", "items")},
            "lines": [_plain(line) for line in self.lines],
            "owed": [_plain(owed) for owed in self.owed],
        }


def measure_impact(
    model: str,
    metric: str,
    values: dict[str, NDArray[np.float64]],
    clusters: Sequence[str],
    found: Sequence[Block],
    *,
    seed: int = 0,
) -> Impact:
    """``values`` by measure, aligned with ``clusters`` and the masks of ``found``."""
    result = Impact(model, metric, len(clusters))
    everything = np.ones(len(clusters), dtype=bool)
    for measure, numbers in values.items():
        whole = _Measured(measure, numbers, clusters, seed)
        result.lines.append(whole.line("original", "", everything))
        for place, block in enumerate(found):
            kind = block.leakage
            result.lines.append(whole.line("non-leaked", kind, block.clean))
            result.lines.append(whole.line("leaked", kind, block.leaked))
            result.lines += [whole.line(part.name, kind, part.mask) for part in block.labels]
            result.lines.append(whole.random(kind, int(block.leaked.sum()), place))
            owed = subset_difference(numbers, everything, block.clean, clusters)
            if owed is not None and block.leaked.any():
                result.owed.append(Owed(
                    kind, measure, owed.value, owed.interval, owed.error, int(block.leaked.sum()),
                    _count(clusters, block.leaked),
                ))  # fmt: skip
    return result


@dataclass(frozen=True)
class _Measured:
    measure: str
    values: NDArray[np.float64]
    clusters: Sequence[str]
    seed: int

    def line(self, subset: str, leakage: str, mask: Mask) -> Line:
        count, groups = int(mask.sum()), _count(self.clusters, mask)
        mean = subset_mean(self.values, mask, self.clusters)
        if mean is None:
            return Line(subset, leakage, self.measure, 0, 0, None)
        gain = None
        if leakage:
            everything = np.ones_like(mask)
            gain = subset_difference(self.values, mask, everything, self.clusters)
        return Line(
            subset, leakage, self.measure, count, groups, mean.value, self._interval(mean, mask),
            gain.value if gain is not None else None, gain.interval if gain is not None else None,
        )  # fmt: skip

    def _interval(self, mean: Estimate, mask: Mask) -> Interval | None:
        """Rates near 0 and 100 %, where few clusters differ, have an exact method of their own."""
        chosen = self.values[mask]
        if not np.isin(chosen, (0.0, 1.0)).all():
            return mean.interval
        groups = [name for name, kept in zip(self.clusters, mask, strict=True) if kept]
        names = np.array(groups, dtype=object)
        hit, missed = (len(set(names[chosen == value])) for value in (1.0, 0.0))
        if mean.interval is None or min(hit, missed) < ENOUGH:
            return cluster_rate_interval(chosen, groups)
        low, high = max(mean.interval.low, 0.0), min(mean.interval.high, 1.0)
        return mean.interval._replace(low=low, high=high)

    def random(self, leakage: str, size: int, place: int) -> Line:
        if size == 0:
            return Line("random", leakage, self.measure, 0, 0, None)
        rng = np.random.default_rng([self.seed, place])
        drawn = matched_draws(self.clusters, size, DRAWS, rng)
        means = np.array([self.values[mask].mean() for mask in drawn])
        items = round(float(np.mean([mask.sum() for mask in drawn])))
        groups = round(float(np.mean([_count(self.clusters, mask) for mask in drawn])))
        mean = float(means.mean())
        return Line(
            "random", leakage, self.measure, items, groups, mean, None,
            mean - float(self.values.mean()), None, float(means.std(ddof=1)),
        )  # fmt: skip


def impact_findings(impact: Impact, benchmark: str, seed: int) -> list[Finding]:
    """What is owed, as findings; nothing where too few clusters carry an interval."""
    return [
        Finding(
            id=f"{NAME}/{impact.model}/{owed.leakage}/{owed.measure}",
            detector=NAME,
            cell=Cell(benchmark=benchmark, model=impact.model),
            unit="items",
            statistic=Statistic(name=f"{owed.measure}, all less non-leaked", value=owed.value),
            effect=Effect.of(f"{owed.measure} owed to {owed.leakage} leaks", owed.value, owed.interval),
            p=None,
            direction=_direction(owed.interval),
            n=impact.items,
            clusters=owed.leaked_clusters,
            minimum_detectable_effect=2.8 * owed.error,  # 80 % power at two-sided 5 %
            blind_to=[
                "leaked items may be easier or harder for reasons of their own: compare a model that "
                "cannot have seen them (--baseline)"
            ],
            seed=seed,
            table="matches",
        )
        for owed in impact.owed
        if owed.interval is not None and owed.error is not None
    ]  # fmt: skip


def _plain(record: Line | Owed) -> dict[str, Any]:
    """As JSON has it: intervals with their names."""
    return {
        name: value._asdict() if isinstance(value, Interval) else value
        for name, value in vars(record).items()
    }


def _direction(interval: Interval) -> Any:
    return "seen" if interval.low > 0 else "not seen" if interval.high < 0 else "none"


def _count(clusters: Sequence[str], mask: Mask) -> int:
    return len({name for name, kept in zip(clusters, mask, strict=True) if kept})
