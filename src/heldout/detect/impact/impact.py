"""A score with and without leaked items: the whole, its parts, and a control group of the same size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.detect.finding import DETECTABLE, Cell, Effect, Finding, Statistic, direction_of
from heldout.evidence import CLEAN, NOT_VERIFIED, ItemLeaks, Rung
from heldout.stats import (
    Estimate,
    Interval,
    cluster_rate_interval,
    holm,
    subset_difference,
    subset_mean,
)

# The subsets a score is broken into: leaked or not, how, and with which label.


Mask = NDArray[np.bool_]
#: kinds of leakage from the gravest down; hard and soft are the encoder's published degrees
COPY, UNDECIDED, HARD, SOFT, TEXT = "copy", "undecided", "hard", "soft", "text"
LEAKAGES = (COPY, UNDECIDED, HARD, SOFT, TEXT)
#: what labels made elsewhere call leaked; a kind of it follows after a colon
LABELLED = "labelled"


class Subset(NamedTuple):
    name: str
    mask: Mask


class Block(NamedTuple):
    """One kind of leakage: the items that have it, and those that have neither it nor a graver kind and are not
    undecided."""

    leakage: str  # one of LEAKAGES
    leaked: Mask
    clean: Mask
    labels: tuple[Subset, ...]  # the leaked ones by how their label relates to the leaked one

    @property
    def compared(self) -> Mask:
        """Both, without what leaked in a graver way: else its effect would be counted here too."""
        return self.leaked | self.clean


def blocks(ids: Sequence[str], leaks: Mapping[str, ItemLeaks]) -> list[Block]:
    """Copies always; the other kinds, each without the graver ones, where there are any. What is undecided is
    clean in none of them, as in the scores of an audit."""
    kinds = np.array([leakage(leaks[text]) if text in leaks else "" for text in ids], dtype=object)
    labels = np.array([leaks[text].label if text in leaks else "" for text in ids], dtype=object)

    def by_label(mask: Mask) -> tuple[Subset, ...]:
        subsets = [
            Subset(f"{label} label", mask & (labels == label))
            for label in ("same", "different", "conflicting", "unknown")
        ]
        present = [subset for subset in subsets if subset.mask.any()]
        # If the label of all of them is unknown, there is nothing to report.
        return (
            tuple(present)
            if len(present) > 1 or (present and present[0].name != "unknown label")
            else ()
        )

    listed: list[Block] = []
    clean: Mask = kinds != UNDECIDED
    for kind in LEAKAGES:
        mask = kinds == kind
        clean = clean & ~mask
        if kind == COPY or mask.any():
            listed.append(Block(kind, mask, clean, () if kind == TEXT else by_label(mask)))
    return listed


def label_blocks(ids: Sequence[str], kinds: Mapping[str, str]) -> list[Block]:
    """All that is labelled as leaked, and each kind by itself, against what is labelled as clean.

    Kinds of labels made elsewhere have no order, so none is graver: items of other kinds are on neither side.
    """
    array = np.array([kinds.get(text, UNDECIDED) for text in ids], dtype=object)
    clean: Mask = array == CLEAN
    leaked: Mask = ~clean & (array != UNDECIDED)
    names = sorted(set(array[leaked]))
    label_sets = [Block(LABELLED, leaked, clean, ())]
    if len(names) > 1:
        label_sets += [Block(f"{LABELLED}: {name}", array == name, clean, ()) for name in names]
    return label_sets


def leakage(item_leaks: ItemLeaks) -> str:
    """How an item leaked at worst; empty where only words that prove nothing are alike."""
    grade = item_leaks.grade
    if grade >= Rung.COPY:
        return COPY
    if grade is Rung.UNDECIDED:
        return UNDECIDED
    if grade is Rung.LOOK_ALIKE:
        near = [leak for leak in item_leaks.leaks if leak.rung is Rung.LOOK_ALIKE]
        return HARD if any(leak.row["degree"] == "hard" for leak in near) else SOFT
    return TEXT if grade is Rung.TEXT else ""


def matched_draws(
    clusters: Sequence[str], leaked: Mask, draws: int, rng: np.random.Generator
) -> list[Mask]:
    """Random subsets of as many items from as many clusters as ``leaked`` has, cluster for cluster.

    Items drawn singly would come from more images than whole leaked clusters do, and whole clusters
    from fewer than leaks that took one item of each: either control would have another spread.
    """
    names = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((names[name] for name in clusters), np.int64, len(clusters))
    sizes = np.bincount(codes, minlength=len(names))
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    counts = np.bincount(codes[leaked], minlength=len(names))
    largest = np.argsort(-sizes, kind="stable")
    # Largest first: a cluster that can give many items can give few, so no count is left without one,
    # and every assignment is equally likely.
    wanted = np.sort(counts[counts > 0])[::-1]
    masks = []
    for _ in range(draws):
        mask = np.zeros(len(codes), dtype=bool)
        able: list[int] = []  # clusters not yet drawn that hold as many items as are wanted
        seen = 0
        for count in wanted:
            while seen < len(largest) and sizes[largest[seen]] >= count:
                able.append(int(largest[seen]))
                seen += 1
            chosen = able.pop(int(rng.integers(len(able))))
            mask[rng.choice(members[chosen], int(count), replace=False)] = True
        masks.append(mask)
    return masks


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
class ScoreDifference:
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
    owed: list[ScoreDifference] = field(default_factory=list)
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
                    ScoreDifference(
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


def _plain(record: Line | ScoreDifference) -> dict[str, Any]:
    """As JSON has it: intervals with their names."""
    return {
        name: value._asdict() if isinstance(value, Interval) else value
        for name, value in vars(record).items()
    }


def _count(clusters: Sequence[str], mask: Mask) -> int:
    return len({name for name, kept in zip(clusters, mask, strict=True) if kept})


# Differences as one family of tests, and as findings.


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
                "compare a model that cannot have seen them (the setting baseline)",
                *trust,
            ],
            seed=seed,
            table="leak labels" if labelled else "matches",
            details={"minimum_detectable_effect": _DETECTABLE, "interval": "unadjusted"},
        )
        for owed in impact.owed
        if owed.interval is not None and owed.error is not None
    ]
