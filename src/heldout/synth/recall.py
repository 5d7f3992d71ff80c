"""How many planted faults every stage catches, and how many sound items it drops: rendered scenes alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from heldout.stats import binomial_interval
from heldout.store import Run
from heldout.synth.ledger import finished, read_dropped, read_rows
from heldout.synth.planting import COPIES, FAULTS, NEAR_MISSES, read_planted
from heldout.synth.settings import SynthStage

NOTHING = "nothing planted"
AFTER = (SynthStage.SHORTCUT, SynthStage.BALANCE, SynthStage.DECONTAMINATE)
STAGES = (SynthStage.VERIFY, *AFTER)


@dataclass(frozen=True)
class PlantedRecall:
    """Items with one kind of fault. ``gates``: by stage and reason how many were caught there;
    ``sound``: such items should be kept, so that each that is caught is a loss."""

    planted: str
    sound: bool
    items: int
    gates: dict[tuple[str, str], int]
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
        found = (f"{why} {count}" for (name, why), count in self.gates.items() if name == stage)
        return ", ".join(found)


def planted_recall(run: Run) -> list[PlantedRecall]:
    """Every kind of fault that was planted, then what should be kept; empty where nothing was planted."""
    planted = read_planted(run.path)
    if not planted or not finished(run, SynthStage.VERIFY):
        return []
    by_fault: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for name, gate in _gates(run).items():
        by_fault[planted.get(name, NOTHING)][gate] += 1
    found = []
    for kind in (*FAULTS, *COPIES, NOTHING, *NEAR_MISSES):
        items = by_fault[kind].total()
        if items:
            gates = {gate: count for gate, count in by_fault[kind].most_common() if gate != _NONE}
            interval = binomial_interval(sum(gates.values()), items)
            sound = kind in (NOTHING, *NEAR_MISSES)
            found.append(PlantedRecall(kind, sound, items, gates, interval.low, interval.high))
    return found


_NONE = ("", "")


def _gates(run: Run) -> dict[str, tuple[str, str]]:
    """By item the first stage that caught it and the reason, of all items that were verified. A shortcut
    counts as caught although the item may be published with its flag."""
    found: dict[str, tuple[str, str]] = {}
    for row in read_rows(run, SynthStage.VERIFY):
        reason = row["reason"].removeprefix("essential: ")
        found[row["id"]] = _NONE if row["accepted"] else (str(SynthStage.VERIFY), reason)
    flagged: dict[str, tuple[str, str]] = {}
    if finished(run, SynthStage.SHORTCUT):
        rows = read_rows(run, SynthStage.SHORTCUT)
        flagged = {
            row["id"]: (str(SynthStage.SHORTCUT), row["reason"]) for row in rows if row["flagged"]
        }
    dropped = {
        one.id: (str(stage), one.reason) for stage in AFTER for one in read_dropped(run, stage)
    }
    for name, gate in found.items():
        if gate == _NONE:
            found[name] = flagged.get(name) or dropped.get(name) or _NONE
    return found
