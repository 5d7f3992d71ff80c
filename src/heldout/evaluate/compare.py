"""Two models on the same items: difference with interval, McNemar by cluster, detectable difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.errors import InputError, counted
from heldout.evaluate._detectable import ClusterDifferences, detectable_difference
from heldout.evaluate.suite import MEAN
from heldout.evaluate.table import ItemGrades, combined
from heldout.stats import (
    Interval,
    PairedTable,
    Rank,
    cluster_sums,
    flip_test,
    holm,
    paired_table,
    paired_test,
    pairs_needed,
    ranks_of,
)

FLIPS = "sign flips of whole clusters over all benchmarks"
LEVEL = 0.05
DIFFER, UNCLEAR, ALIKE = "differ", "not clear", "cannot be told apart"


@dataclass(frozen=True)
class PairedDifference:
    """First model less second, on items that both answered.
    ``p_adjusted`` is Holm's over the ``family``: all pairs of models that were compared, and all
    benchmarks of each, but for the last difference of a pair, which is corrected over pairs alone."""

    first: str
    second: str
    benchmark: str
    n: int
    clusters: int
    first_value: float
    second_value: float
    value: float
    interval: Interval
    p: float
    method: str
    error: float
    clustered: tuple[ClusterDifferences, ...]
    design_effect: float = 1.0
    table: PairedTable | None = None
    p_adjusted: float = 1.0
    family: int = 1
    left_out: int = 0
    seed: int = 0

    @cached_property
    def detectable(self) -> float | None:
        """The smallest difference that is found four times out of five at the corrected level (Holm's
        first step, which every difference passes); None if these data do not say."""
        exact = self.table is not None and self.clusters == self.n
        return detectable_difference(
            self.clustered, alpha=LEVEL / self.family, exact=exact, seed=self.seed
        )

    @property
    def needed(self) -> int | None:
        """Items needed to detect the observed difference at that level."""
        if self.table is None or not self.value:
            return None
        discordant = (self.table.first + self.table.second) / self.table.n
        level = LEVEL / self.family
        return pairs_needed(self.value, discordant, alpha=level, design_effect=self.design_effect)

    @property
    def reading(self) -> str:
        """Test and interval are made in different ways: only both together show a difference."""
        if self.p_adjusted > LEVEL:
            return ALIKE
        return UNCLEAR if self.interval.low <= 0 <= self.interval.high else DIFFER

    def as_json(self) -> dict[str, Any]:
        record = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "clustered"
        }
        return {
            **record,
            "interval": self.interval._asdict(),
            "table": self.table._asdict() if self.table is not None else None,
            "reading": self.reading,
            "detectable": self.detectable,
            "needed": self.needed,
        }


@dataclass(frozen=True)
class PairedComparison:
    """Differences of one pair of models: per benchmark, then of the mean over benchmarks."""

    first: str
    second: str
    differences: tuple[PairedDifference, ...]
    remarks: tuple[str, ...] = ()

    @property
    def overall(self) -> PairedDifference:
        return self.differences[-1]


def compare_models(
    first: Sequence[ItemGrades], second: Sequence[ItemGrades], *, seed: int = 0
) -> PairedComparison:
    """Paired comparison over the benchmarks that both models were evaluated on."""
    others = {item_grades.benchmark: item_grades for item_grades in second}
    shared = [
        (item_grades, others[item_grades.benchmark])
        for item_grades in first
        if item_grades.benchmark in others
    ]
    names = (first[0].model, second[0].model)
    if not shared:
        raise InputError(f"{names[0]} and {names[1]} have no benchmark in common")
    differences: list[PairedDifference] = []
    clustered: list[ClusterDifferences] = []
    for a, b in shared:
        pair = _paired(a, b)
        clustered.append(ClusterDifferences(*cluster_sums(pair[0] - pair[1], pair[2])))
        differences.append(_difference(a, b, *pair, clustered[-1], seed=seed))
    if len(differences) > 1:
        differences.append(_overall(differences, clustered, seed))
    alone = PairedComparison(*names, tuple(differences), tuple(_remarks(shared, first, second)))
    return _corrected([alone])[0]


def _corrected(pairs: Sequence[PairedComparison]) -> list[PairedComparison]:
    """Two families: the differences that decide pairs, and the benchmarks of pairs that have several."""
    overall = _adjusted([pair.overall for pair in pairs])
    parts = iter(_adjusted([part for pair in pairs for part in pair.differences[:-1]]))
    return [
        replace(pair, differences=(*(next(parts) for _ in pair.differences[1:]), last))
        for pair, last in zip(pairs, overall, strict=True)
    ]


def _adjusted(family: Sequence[PairedDifference]) -> list[PairedDifference]:
    adjusted = holm([paired_difference.p for paired_difference in family])
    return [
        replace(paired_difference, p_adjusted=p, family=len(family))
        for paired_difference, p in zip(family, adjusted, strict=True)
    ]


def rank_models(
    models: Mapping[str, Sequence[ItemGrades]], *, seed: int = 0
) -> tuple[dict[str, Rank], dict[tuple[str, str], PairedComparison], list[str]]:
    """Ranks by the mean over benchmarks, with intervals that hold together (Holm over all pairs); every
    pair that has a benchmark in common; and which models are not ranked.

    Means over different benchmarks are different quantities: ranked are the models that have the same
    ones, the largest such group."""
    had = {
        name: tuple(sorted(item_grades.benchmark for item_grades in mine))
        for name, mine in models.items()
    }
    pairs = [(a, b) for a, b in combinations(models, 2) if set(had[a]) & set(had[b])]
    compared = [compare_models(models[a], models[b], seed=seed) for a, b in pairs]
    by_pair = {
        (paired_comparison.first, paired_comparison.second): paired_comparison
        for paired_comparison in _corrected(compared)
    }
    kept = max(had.values(), key=lambda names: (list(had.values()).count(names), len(names)))
    means = {
        name: float(np.mean([grade.right.mean() for grade in grades]))
        for name, grades in models.items()
        if had[name] == kept
    }
    others = [f"{name} ({', '.join(had[name])})" for name in models if name not in means]
    remarks = []
    if len(means) < 2:
        listed = "; ".join(f"{name} ({', '.join(names)})" for name, names in had.items())
        remarks.append(f"no ranks: no two models have the same benchmarks: {listed}")
        means = {}
    elif others:
        remarks.append(
            f"ranked are models with {', '.join(kept)}; not ranked, since their benchmarks are others: "
            f"{'; '.join(others)}"
        )
    # Taken from the decided pairs, so that ranks and readings never contradict each other.
    tested = [
        (
            a,
            b,
            paired_comparison.overall.value,
            0.0 if paired_comparison.overall.reading == DIFFER else 1.0,
        )
        for (a, b), paired_comparison in by_pair.items()
        if a in means and b in means
    ]
    return ranks_of(means, tested), by_pair, remarks


def comparison_frame(pairs: Iterable[PairedComparison]) -> pl.DataFrame:
    """Paired differences as a data frame, one row per pair of models and benchmark."""
    return pl.DataFrame(
        [
            {
                "first": difference.first,
                "second": difference.second,
                "benchmark": difference.benchmark,
                "n": difference.n,
                "clusters": difference.clusters,
                "first_accuracy": difference.first_value,
                "second_accuracy": difference.second_value,
                "difference": difference.value,
                "low": difference.interval.low,
                "high": difference.interval.high,
                "p": difference.p,
                "p_adjusted": difference.p_adjusted,
                "reading": difference.reading,
                "method": difference.method,
                "detectable": difference.detectable,
                "left_out": difference.left_out,
            }
            for pair in pairs
            for difference in pair.differences
        ],
        infer_schema_length=None,
    )


def _paired(
    first: ItemGrades, second: ItemGrades
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str], int]:
    """Both models' grades on the items that both have, their clusters, and how many only one has."""
    mine = dict(zip(first.ids, zip(first.right, first.clusters, strict=True), strict=True))
    theirs = dict(zip(second.ids, second.right, strict=True))
    both = [item for item in first.ids if item in theirs]
    if not both:
        raise InputError(
            f"{first.benchmark}: {first.model} and {second.model} have no item in common"
        )
    values = [
        np.array([float(side[item]) for item in both])
        for side in ({item: mine[item][0] for item in both}, theirs)
    ]
    left = len(first.ids) + len(second.ids) - 2 * len(both)
    return values[0], values[1], [mine[item][1] for item in both], left


def _difference(
    first: ItemGrades,
    second: ItemGrades,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    clusters: Sequence[str],
    left: int,
    summed: ClusterDifferences,
    *,
    seed: int,
) -> PairedDifference:
    test = paired_test(a - b, clusters, seed=seed)
    table = paired_table(a, b)
    return PairedDifference(
        first.model,
        second.model,
        first.benchmark,
        test.n,
        test.clusters,
        float(a.mean()),
        float(b.mean()),
        test.value,
        test.interval,
        test.p,
        test.method,
        test.error,
        (summed,),
        test.design_effect,
        table,
        left_out=left,
        seed=seed,
    )


def _overall(
    parts: Sequence[PairedDifference], clustered: Sequence[ClusterDifferences], seed: int
) -> PairedDifference:
    count = len(parts)
    error, reach = combined(
        [part.error / count for part in parts], [part.clusters - 1 for part in parts]
    )
    means = [
        sum(values) / count
        for values in zip(*((part.first_value, part.second_value) for part in parts), strict=True)
    ]
    value = means[0] - means[1]
    interval = Interval(
        max(-1.0, value - reach), min(1.0, value + reach), 0.95, "cluster t, benchmarks independent"
    )
    weighted = [
        cluster_differences.sums / (cluster_differences.sizes.sum() * count)
        for cluster_differences in clustered
    ]
    test = flip_test(np.concatenate(weighted), seed=seed)
    return PairedDifference(
        parts[0].first,
        parts[0].second,
        MEAN,
        sum(part.n for part in parts),
        sum(part.clusters for part in parts),
        means[0],
        means[1],
        value,
        interval,
        test.p,
        FLIPS,
        error,
        tuple(clustered),
        left_out=sum(part.left_out for part in parts),
        seed=seed,
    )


def _remarks(
    shared: Sequence[tuple[ItemGrades, ItemGrades]],
    first: Sequence[ItemGrades],
    second: Sequence[ItemGrades],
) -> list[str]:
    remarks = []
    names = {item_grades.benchmark for item_grades in first} ^ {
        item_grades.benchmark for item_grades in second
    }
    if names:
        remarks.append(
            f"only one of the two has {', '.join(sorted(names))}: left out of the comparison"
        )
    for a, b in shared:
        if a.templates != b.templates:
            remarks.append(
                f"{a.benchmark}: the prompts differ ({_listed(a)} and {_listed(b)}), so a difference "
                "may be "
                f"the prompt's"
            )
        lost = len(set(a.ids) ^ set(b.ids))
        if lost:
            remarks.append(
                f"{a.benchmark}: {counted(lost, 'item was', 'items were')} answered by one of the two alone: left out"
            )
    return remarks


def _listed(item_grades: ItemGrades) -> str:
    return ", ".join(sorted(item_grades.templates))
