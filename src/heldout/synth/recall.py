"""How many planted faults every stage catches, and how many sound items it drops: rendered scenes alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from heldout.stats import binomial_interval, cluster_rate_interval
from heldout.store import Run
from heldout.synth.draft import Draft
from heldout.synth.ledger import finished, read_dropped, read_rows
from heldout.synth.mechanical import answer_is_overlong
from heldout.synth.planting import COPIES, FAULTS, NEAR_MISSES, read_planted
from heldout.synth.settings import SynthStage

NOTHING = "nothing planted"
AFTER = (SynthStage.SHORTCUT, SynthStage.BALANCE, SynthStage.DECONTAMINATE)
STAGES = (SynthStage.VERIFY, *AFTER)


@dataclass(frozen=True)
class PlantedRecall:
    """Items with one kind of fault. ``gates``: by stage and reason how many were caught there first;
    ``overlong``: in how many the rule of the shortcut stage sees an overlong answer, asked of all of them,
    also of those that the verifier rejected; ``sound``: such items should be kept, so that each that is
    caught is a loss."""

    planted: str
    sound: bool
    items: int
    gates: dict[tuple[str, str], int]
    overlong: int
    low: float
    high: float

    @property
    def caught(self) -> int:
        return sum(self.gates.values())

    @property
    def missed(self) -> int:
        return self.items - self.caught

    def at(self, stage: str) -> int:
        return sum(count for (name, _), count in self.gates.items() if name == stage)

    def reasons(self, stage: str) -> str:
        texts = (f"{why} {count}" for (name, why), count in self.gates.items() if name == stage)
        return ", ".join(texts)


def planted_recall(run: Run) -> list[PlantedRecall]:
    """Every kind of fault that was planted, then what should be kept; empty where nothing was planted."""
    planted = read_planted(run.path)
    if not planted or not finished(run, SynthStage.VERIFY):
        return []
    by_fault: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for name, gate in _gates(run).items():
        by_fault[planted.get(name, NOTHING)][gate] += 1
    overlong: Counter[str] = Counter()
    for draft in map(Draft.of_row, read_rows(run, SynthStage.GENERATE)):
        overlong[planted.get(draft.id, NOTHING)] += answer_is_overlong(draft)
    planted_recalls = []
    for kind in (*FAULTS, *COPIES, NOTHING, *NEAR_MISSES):
        items = by_fault[kind].total()
        if items:
            gates = {gate: count for gate, count in by_fault[kind].most_common() if gate != _NONE}
            interval = binomial_interval(sum(gates.values()), items)
            sound = kind in (NOTHING, *NEAR_MISSES)
            planted_recalls.append(
                PlantedRecall(
                    kind, sound, items, gates, overlong[kind], interval.low, interval.high
                )
            )
    return planted_recalls


_NONE = ("", "")


def _gates(run: Run) -> dict[str, tuple[str, str]]:
    """By item the first stage that caught it and the reason, of all items that were verified. A shortcut
    counts as caught although the item may be published with its flag."""
    gates: dict[str, tuple[str, str]] = {}
    for row in read_rows(run, SynthStage.VERIFY):
        reason = row["reason"].removeprefix("essential: ")
        gates[row["id"]] = _NONE if row["accepted"] else (str(SynthStage.VERIFY), reason)
    flagged: dict[str, tuple[str, str]] = {}
    if finished(run, SynthStage.SHORTCUT):
        rows = read_rows(run, SynthStage.SHORTCUT)
        flagged = {
            row["id"]: (str(SynthStage.SHORTCUT), row["reason"]) for row in rows if row["flagged"]
        }
    dropped = {
        dropped.id: (str(stage), dropped.reason)
        for stage in AFTER
        for dropped in read_dropped(run, stage)
    }
    for name, gate in gates.items():
        if gate == _NONE:
            gates[name] = flagged.get(name) or dropped.get(name) or _NONE
    return gates


# A share with its interval, where items of one article or one image rise and fall together.


ONE_CLUSTER = "all of one cluster: an interval needs two"
# Clusters with a hit, and with a miss, and effective clusters, from which on the spread between clusters
# is used: with fewer it covers too little (bench/cluster_coverage.py).
_ENOUGH, _EVEN = 2, 3
# How an interval over articles or images is made, for card and page.
INTERVALS = (
    f"Korn–Graubard, from the spread between these clusters; exact (Clopper–Pearson over effective "
    f"clusters) where fewer than {_ENOUGH} of them have a hit, or a miss, as at 0 and 100 %, or a few "
    f"large ones hold most items"
)


class ClusterRate(TypedDict):
    """``interval``: 95 %, by ``method``; None with the ``reason`` where there are no two clusters to
    compare."""

    hits: float
    rate: float | None
    clusters: int
    interval: list[float] | None
    method: str
    reason: str


def cluster_rate(hits: Sequence[float], clusters: Sequence[str]) -> ClusterRate:
    """The mean of ``hits`` (0 to 1 each) with the interval that ``INTERVALS`` describes."""
    count = len(set(clusters))
    if count < 2:
        rate = sum(hits) / len(hits) if hits else None
        why = ONE_CLUSTER if count else "nothing to compare"
        return ClusterRate(
            hits=sum(hits), rate=rate, clusters=count, interval=None, method="", reason=why
        )
    interval = cluster_rate_interval(hits, clusters, enough=_ENOUGH, even=_EVEN)
    return ClusterRate(
        hits=sum(hits),
        rate=sum(hits) / len(hits),
        clusters=count,
        interval=[interval.low, interval.high],
        method=interval.method,
        reason="",
    )
