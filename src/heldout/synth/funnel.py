"""The funnel: how many figures and items every stage let through, and why it dropped the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.parquet as pq

from heldout.store import Run
from heldout.synth.ledger import finished, read_dropped, read_rows, table_path
from heldout.synth.settings import SynthStage

# Stages whose table holds every item, with the decision in a column: the value that lets an item through.
_DECIDED = {
    SynthStage.VERIFY: ("accepted", True),
    SynthStage.SHORTCUT: ("dropped", False),
    SynthStage.DECONTAMINATE: ("removed", False),
}
# Reasons of `ingest` for which a whole file is left out: how many figures it has, nobody knows.
FILE_REASONS = frozenset(
    {
        "XML too large",
        "member too large",
        "package too large",
        "package without XML",
        "unknown file",
        "unreadable XML",
        "unreadable package",
        "unreadable shard",
    }
)


@dataclass(frozen=True)
class FunnelStep:
    """``reasons``: how often each reason dropped something, most frequent first, in the words of the table
    of what was dropped; ``entered`` is ``left`` and these. ``files``: by reason the files that could not be
    read, which are in that table, too, but are no figures."""

    name: str
    entered: int
    left: int
    reasons: dict[str, int]
    files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Funnel:
    steps: tuple[FunnelStep, ...]

    def as_json(self) -> dict[str, Any]:
        return {"schema_version": 1, "steps": [asdict(step) for step in self.steps]}


def read_funnel(run: Run) -> Funnel:
    """The funnel of the stages that have been run. Verification is two steps, as in the paper:
    items that could be graded and passed the essentials, and items whose score reaches the
    threshold."""
    steps: list[FunnelStep] = []
    for stage in SynthStage:
        if not finished(run, stage):
            continue
        if stage is SynthStage.VERIFY:
            steps += _verify_steps(run)
            continue
        dropped = Counter(drop.reason for drop in read_dropped(run, stage)).most_common()
        by_file = FILE_REASONS if stage is SynthStage.INGEST else frozenset()
        files = {why: count for why, count in dropped if why in by_file}
        reasons = {why: count for why, count in dropped if why not in by_file}
        rows = pq.read_metadata(table_path(run, stage)).num_rows
        if stage in _DECIDED:
            column, value = _DECIDED[stage]
            left = sum(bool(row.get(column)) is value for row in read_rows(run, stage))
        else:
            left = rows
        steps.append(FunnelStep(str(stage), left + sum(reasons.values()), left, reasons, files))
    return Funnel(tuple(steps))


def _verify_steps(run: Run) -> list[FunnelStep]:
    """gradable, essentials, score."""
    entered, graded, passed, accepted = 0, 0, 0, 0
    ungradable: Counter[str] = Counter()
    essentials: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for row in read_rows(run, SynthStage.VERIFY):
        entered += 1
        if not row["rubric"]:
            ungradable[row["reason"]] += 1
            continue
        graded += 1
        if row["accepted"]:
            accepted += 1
        if row["reason"].startswith("essential: "):
            essentials[row["reason"]] += 1
        else:
            passed += 1
            below[row["reason"]] += not row["accepted"]
    return [
        FunnelStep("verify: gradable", entered, graded, dict(ungradable.most_common())),
        FunnelStep("verify: essentials", graded, passed, dict(essentials.most_common())),
        FunnelStep("verify: score", passed, accepted, dict((+below).most_common())),
    ]
