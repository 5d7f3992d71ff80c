"""The verdict of a whole audit: one status per benchmark × corpus and benchmark × model, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from heldout.detect import Cell
from heldout.evidence import PEOPLE, PROVEN, REGISTRATION, leaks
from heldout.stats import Interval, cluster_rate_interval
from heldout.store import Run
from heldout.verdict.claim import Claim, Status
from heldout.verdict.ladder import ACTIONS
from heldout.verdict.recommend import recommend
from heldout.verdict.required import settled_by

#: the most pressing first: what a cell is called is the first that one of its claims has
PRESSING: tuple[Status, ...] = (
    "survives",
    "qualified",
    "re-attributed",
    "collapses",
    "clean",
    "not testable",
)
NEARNESS = "nearness/"
#: why a model without any claim could not be tested
ONE_FORM = "answers in one form alone tell accuracy, not memory: add twins or variants"


@dataclass(frozen=True)
class Rate:
    """Items with a proven leak, of all items; the interval is by cluster."""

    leaked: int
    items: int
    interval: Interval

    @property
    def value(self) -> float:
        return self.leaked / self.items if self.items else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "leaked": self.leaked,
            "items": self.items,
            "value": self.value,
            "interval": self.interval._asdict(),
        }


@dataclass(frozen=True)
class CellVerdict:
    cell: Cell
    status: Status
    claims: list[Claim]
    leak: Rate | None = None  # of corpora
    evidence: dict[str, int] = field(default_factory=dict)  # items by rung, of corpora
    by_people: int = 0  # of the leaked items, those that nothing but people's word makes so
    by_registration: int = 0  # and those that registration makes so, and no equal bytes or pixels
    audited: bool = True  # an audit file made the run: advice names its keys

    @property
    def pair(self) -> bool:
        """Of two models together: what they share, not what one of them has seen."""
        return self.cell.model is not None and " & " in self.cell.model

    @property
    def on(self) -> str:
        return str(self.cell.corpus if self.cell.corpus is not None else self.cell.model)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.cell.benchmark,
            "corpus": self.cell.corpus,
            "model": self.cell.model,
            "status": self.status,
            "leak_rate": self.leak.as_json() if self.leak is not None else None,
            "evidence": self.evidence,
            "by_people": self.by_people,
            "by_registration": self.by_registration,
            "claims": [
                {**claim.model_dump(mode="json"), "settled_by": settled_by(claim, self.audited)}
                for claim in self.claims
            ],
        }


@dataclass(frozen=True)
class BenchmarkVerdict:
    benchmark: str
    run: str
    cells: list[CellVerdict]
    leaks: pl.DataFrame  # evidence.leaks of the run
    corrected: Mapping[str, Any]

    @property
    def survives(self) -> list[Claim]:
        return [
            c for cell in self.cells for c in cell.claims if is_leak(c) and c.status == "survives"
        ]


@dataclass(frozen=True)
class Overall:
    benchmarks: list[BenchmarkVerdict]
    recommendations: list[dict[str, Any]]
    family: Mapping[str, Any]

    @property
    def cells(self) -> list[CellVerdict]:
        return [cell for benchmark in self.benchmarks for cell in benchmark.cells]

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "cells": [cell.as_json() for cell in self.cells],
            "recommendations": self.recommendations,
            "corrected": {
                benchmark.benchmark: benchmark.corrected for benchmark in self.benchmarks
            },
            "family": self.family,
        }


def is_leak(claim: Claim) -> bool:
    """Nearness is never a leak, whatever its status."""
    return not claim.id.startswith(NEARNESS)


def benchmark_verdict(
    run: Run, name: str, corrected: Mapping[str, Any], models: Sequence[str] = ()
) -> BenchmarkVerdict:
    """Cells of one run: claims of one corpus, or of one model, together.

    ``models`` were to be tested; one without any claim is a cell that is not testable.
    """
    claims = [Claim.model_validate(claim) for claim in run.read_json("claims.json")["claims"]]
    found = leaks(run)
    clusters = {row["benchmark_id"]: row["cluster"] for row in run.read_table("items").to_pylist()}
    groups: dict[tuple[str | None, str | None], list[Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.cell.corpus, claim.cell.model), []).append(claim)
    for tried in models:
        groups.setdefault((None, tried), [])
    cells = []
    audited = (run.path / "audit.yaml").exists()
    for (corpus, model), mine in groups.items():
        leak, evidence, how = None, {}, Counter[str | None]()
        if corpus is not None:
            there = found.filter(pl.col("corpus") == corpus)
            leak = _rate(dict(there.select("benchmark_id", "rung").iter_rows()), clusters)
            counts, how = Counter(there["rung"]), Counter(there["shown_by"])
            evidence = {rung.value: counts[rung] for rung in ACTIONS if counts[rung]}
        cell = Cell(benchmark=name, corpus=corpus, model=model)
        cells.append(
            CellVerdict(
                cell,
                cell_status(mine),
                mine,
                leak,
                evidence,
                how[PEOPLE],
                how[REGISTRATION],
                audited,
            )
        )
    return BenchmarkVerdict(name, str(run.path), cells, found, corrected)


def cell_status(claims: Sequence[Claim]) -> Status:
    """The most pressing status; nearness and what never had anything to compare do not speak for it."""
    speaking = [claim for claim in claims if is_leak(claim) and not claim.idle]
    statuses = {claim.status for claim in speaking or claims}
    return next((status for status in PRESSING if status in statuses), "not testable")


def overall_verdict(benchmarks: Sequence[BenchmarkVerdict], family: Mapping[str, Any]) -> Overall:
    return Overall(list(benchmarks), recommend(benchmarks), family)


def _rate(there: Mapping[str, Any], clusters: Mapping[str, str]) -> Rate:
    marks = [float(there.get(cluster) in PROVEN) for cluster in clusters]
    interval = cluster_rate_interval(marks, list(clusters.values()))
    return Rate(int(sum(marks)), len(marks), interval)
