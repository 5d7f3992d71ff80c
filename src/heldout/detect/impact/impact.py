"""A score with and without leaked items: the whole, its parts, and a control of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.detect.impact.subsets import Block, Mask, matched_draws
from heldout.stats import Estimate, Interval, cluster_rate_interval, subset_difference, subset_mean

DRAWS = 10  # random subsets, as published


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
    """The paired question: the score with these leaks less the score without; graver ones in neither.

    An association: leaked items may be easier or harder for reasons of their own.
    """

    leakage: str
    measure: str
    value: float
    interval: Interval | None
    error: float | None
    leaked: int
    leaked_clusters: int
    compared: int  # items: these leaks and what did not leak
    p: float | None = None  # two-sided, by itself
    p_adjusted: float | None = None  # Holm, over every difference of the study


@dataclass
class Impact:
    model: str
    metric: str
    items: int
    lines: list[Line] = field(default_factory=list)
    owed: list[Owed] = field(default_factory=list)
    draws: list[Line] = field(
        default_factory=list
    )  # means of equally many random items of each subset

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("model", "metric", "items")},
            "lines": [_plain(line) for line in self.lines],
            "owed": [_plain(owed) for owed in self.owed],
            **({"draws": [_plain(line) for line in self.draws]} if self.draws else {}),
        }


def measure_impact(
    model: str,
    metric: str,
    values: dict[str, NDArray[np.float64]],
    clusters: Sequence[str],
    blocks: Sequence[Block],
    *,
    difference: bool = False,
    queries: int | None = None,
    seed: int = 0,
) -> Impact:
    """``values`` by measure, aligned with ``clusters`` and the masks of ``found``.

    ``difference``: they are differences to a baseline, which are no rates even where all are 0 or 1.
    ``queries``: also draw so many items from every subset, ten times, as the published retrieval does.
    """
    result = Impact(model, metric, len(clusters))
    everything = np.ones(len(clusters), dtype=bool)
    for measure, numbers in values.items():
        is_rate = not difference and bool(np.isin(numbers, (0.0, 1.0)).all())
        whole = _Measured(measure, numbers, clusters, seed, is_rate)
        result.lines.append(whole.line("original", "", everything))
        if queries is not None:
            result.draws += whole.drawn(queries, blocks)
        for place, block in enumerate(blocks):
            kind = block.leakage
            result.lines.append(whole.line("non-leaked", kind, block.clean))
            result.lines.append(whole.line("leaked", kind, block.leaked))
            result.lines += [whole.line(part.name, kind, part.mask) for part in block.labels]
            result.lines.append(whole.random(kind, block.leaked, place))
            owed = subset_difference(numbers, block.compared, block.clean, clusters)
            if owed is not None and block.leaked.any():
                result.owed.append(
                    Owed(
                        kind,
                        measure,
                        owed.value,
                        owed.interval,
                        owed.error,
                        int(block.leaked.sum()),
                        _count(clusters, block.leaked),
                        int(block.compared.sum()),
                        owed.p,
                    )
                )
    return result


@dataclass(frozen=True)
class _Measured:
    measure: str
    values: NDArray[np.float64]
    clusters: Sequence[str]
    seed: int
    is_rate: bool  # a difference to a baseline has no bounds at 0 and 1

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
            subset,
            leakage,
            self.measure,
            count,
            groups,
            mean.value,
            self._interval(mean, mask),
            gain.value if gain is not None else None,
            gain.interval if gain is not None else None,
        )

    def _interval(self, mean: Estimate, mask: Mask) -> Interval | None:
        """A rate has the interval that ``evaluate`` and ``overlap`` give it, too."""
        if not self.is_rate:
            return mean.interval
        groups = [name for name, kept in zip(self.clusters, mask, strict=True) if kept]
        return cluster_rate_interval(self.values[mask], groups)

    def random(self, leakage: str, leaked: Mask, place: int) -> Line:
        if not leaked.any():
            return Line("random", leakage, self.measure, 0, 0, None)
        rng = np.random.default_rng([self.seed, place])
        drawn = matched_draws(self.clusters, leaked, DRAWS, rng)
        means = np.array([self.values[mask].mean() for mask in drawn])
        items, groups = int(leaked.sum()), _count(self.clusters, leaked)  # as every draw has
        mean = float(means.mean())
        return Line(
            "random",
            leakage,
            self.measure,
            items,
            groups,
            mean,
            None,
            mean - float(self.values.mean()),
            None,
            float(means.std(ddof=1)),
        )

    def drawn(self, queries: int, blocks: Sequence[Block]) -> list[Line]:
        """Mean and standard deviation over ten draws of ``queries`` items from each subset.

        Where a subset has no more items than a draw, every draw is the subset: its mean has no spread.
        """
        # Drawn from the whole benchmark they are the published random control.
        subsets = [("random", "", np.ones(len(self.values), dtype=bool))]
        for block in blocks:
            subsets += [
                ("non-leaked", block.leakage, block.clean),
                ("leaked", block.leakage, block.leaked),
            ]
            subsets += [(part.name, block.leakage, part.mask) for part in block.labels]
        lines = []
        for place, (name, leakage, mask) in enumerate(subsets):
            own = np.flatnonzero(mask)
            if not len(own):
                continue
            rng = np.random.default_rng([self.seed, 1, place])
            picks = [rng.choice(own, min(queries, len(own)), replace=False) for _ in range(DRAWS)]
            means = np.array([self.values[chosen].mean() for chosen in picks])
            spread = float(means.std(ddof=1)) if len(own) > queries else None
            clusters = _count(self.clusters, mask)
            count, mean = min(queries, len(own)), float(means.mean())
            lines.append(Line(name, leakage, self.measure, count, clusters, mean, sd=spread))
        return lines


def _plain(record: Line | Owed) -> dict[str, Any]:
    """As JSON has it: intervals with their names."""
    return {
        name: value._asdict() if isinstance(value, Interval) else value
        for name, value in vars(record).items()
    }


def _count(clusters: Sequence[str], mask: Mask) -> int:
    return len({name for name, kept in zip(clusters, mask, strict=True) if kept})
