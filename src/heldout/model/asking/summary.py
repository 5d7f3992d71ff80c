"""Accuracy of every variant, and vanilla and circular accuracy side by side, with cluster intervals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heldout.benchmark.grading import OUTCOMES
from heldout.stats import Interval, cluster_rate_interval

_ROTATION = "rotation-"


@dataclass(frozen=True)
class Accuracy:
    """Right answers among all that were given: unparsed and refused ones count as not right."""

    name: str
    n: int
    clusters: int
    right: int
    interval: Interval
    outcomes: Mapping[str, int]

    @property
    def rate(self) -> float:
        return self.right / self.n if self.n else float("nan")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.rate, "interval": self.interval._asdict()}


@dataclass(frozen=True)
class Summary:
    """``vanilla`` and ``circular`` are of the same items: those asked in every rotation."""

    variants: tuple[Accuracy, ...]
    vanilla: Accuracy | None
    circular: Accuracy | None
    without_rotations: int

    def as_json(self) -> dict[str, Any]:
        return {
            "variants": [one.as_json() for one in self.variants],
            "vanilla": self.vanilla.as_json() if self.vanilla else None,
            "circular": self.circular.as_json() if self.circular else None,
            "without_rotations": self.without_rotations,
        }


def summarise(rows: Sequence[Mapping[str, Any]], clusters: Mapping[str, str]) -> Summary:
    """``rows`` are one model's answers; ``clusters`` by item."""
    by_variant: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    outcomes: dict[str, dict[str, bool]] = defaultdict(dict)
    counts: dict[str, int] = {}
    for row in rows:
        by_variant[row["variant"]].append(row)
        name, variant = row["benchmark_id"], row["variant"]
        if variant == "original":
            counts[name] = len(row["options"])
        if row["draw"] == 0 and (variant == "original" or variant.startswith(_ROTATION)):
            outcomes[name][variant] = row["outcome"] == "right"
    listed = [
        _accuracy(name, by_variant[name], clusters) for name in sorted(by_variant, key=_place)
    ]
    turned = [name for name, count in counts.items() if _whole(outcomes[name], count)]
    vanilla = circular = None
    if turned:
        vanilla = _rate("vanilla", [(n, outcomes[n]["original"]) for n in turned], clusters)
        circular = _rate("circular", [(n, all(outcomes[n].values())) for n in turned], clusters)
    return Summary(tuple(listed), vanilla, circular, len(counts) - len(turned))


def _place(variant: str) -> tuple[bool, str, int]:
    """The original first, then by kind, and rotation-10 after rotation-9."""
    kind, _, number = variant.rpartition("-")
    if number.isdecimal():
        return True, kind, int(number)
    return variant != "original", variant, 0


def _whole(found: Mapping[str, bool], count: int) -> bool:
    return count > 1 and all(f"{_ROTATION}{k}" in found for k in range(1, count))


def _accuracy(
    name: str, rows: Iterable[Mapping[str, Any]], clusters: Mapping[str, str]
) -> Accuracy:
    found = list(rows)
    told = Counter(row["outcome"] for row in found)
    hits = [(row["benchmark_id"], row["outcome"] == "right") for row in found]
    return _rate(name, hits, clusters, {outcome: told[outcome] for outcome in OUTCOMES})


def _rate(
    name: str,
    hits: Sequence[tuple[str, bool]],
    clusters: Mapping[str, str],
    outcomes: Mapping[str, int] | None = None,
) -> Accuracy:
    groups = [clusters.get(item, item) for item, _ in hits]
    right = sum(hit for _, hit in hits)
    interval = cluster_rate_interval([float(hit) for _, hit in hits], groups)
    told = outcomes or {"right": right, "wrong": len(hits) - right}
    return Accuracy(name, len(hits), len(set(groups)), right, interval, told)
