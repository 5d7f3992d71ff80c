"""What the verdict calls the lab's models: one look by one detector, beside clean models of other bases, each a family.

    python bench/lab_verdicts.py RUNS [--detector combined] [--drawn] [--rates RATES.json] [--permutations 999]
        [--rows ROWS.csv] [--earlier 0 1 53 19]

RUNS is what `bench/lab_grid.py tables` wrote, RATES.json the detector-rates.json of `heldout lab power` over it
(default: the shipped ones). Prints a Markdown table by benchmark and kind of arm: on how many models the test itself
fires (p ≤ .05, towards memory), and what the claim is called; then the same over all benchmarks. ``--drawn``: every
base has references of its own, as `heldout lab power --drawn`. ``--rows``: one row a model as CSV,
which may be given as RUNS to count it again.
``--earlier``: confirmed, fired, tests and bases of clean models that were counted before, to add to these.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from heldout.detect import DetectSettings, ScoreTables
from heldout.lab.power.board import FiringShare
from heldout.lab.power.models import (
    CLEAN,
    OTHER_SEEDS,
    OUTSIDER,
    LabGrid,
    LabModel,
    narrowed,
    read_grid,
)
from heldout.store import Run
from heldout.verdict import Claim, examine, independent_models, read_rates, shipped_rates

STATUSES = ("survives", "qualified", "clean")
KINDS = (
    "clean",
    "fine-tuning, dose 1 or 2",
    "fine-tuning, dose 3 and more",
    "pre-training, dose 1",
    "pre-training, dose 3",
    "pre-training, dose 10",
    "words or pictures alone",
)


def kind_of(model: LabModel, benchmark: str) -> str:
    plan = model.planted
    if plan is None or model.role(benchmark) == CLEAN:
        return KINDS[0]
    if plan.part in ("text", "image"):
        return KINDS[6]
    if plan.stage == "pretrain":
        return f"pre-training, dose {plan.dose}"
    return KINDS[1] if plan.dose < 3 else KINDS[2]


@cache
def answers_of(runs: Path, benchmark: str) -> ScoreTables:
    tables = ScoreTables.load(Run.open(runs / benchmark))
    return replace(
        tables,
        scores=tables.scores.clear(),
        order_joint=None,
        order_neighbour=None,
        entropies=None,
    )


class Job(NamedTuple):
    """One look at one model; ``drawn`` as in the grid."""

    runs: Path
    benchmark: str
    name: str
    detector: str
    permutations: int
    rates: Path | None
    drawn: bool = False


class Called(NamedTuple):
    """What kind of arm it is, whether the test fires, and the claim's status."""

    benchmark: str
    kind: str
    base: str
    fired: bool
    status: str
    model: str = ""


def looked(job: Job) -> tuple[LabModel, ScoreTables, DetectSettings]:
    """The model, and what a user with its references would have: their tables and settings."""
    grid = replace(read_grid(job.runs), drawn=job.drawn)
    model = grid.models[job.name]
    references = grid.references(job.benchmark, model.base, OTHER_SEEDS)
    references = tuple(r for r in references if r != job.name)
    settings = DetectSettings(
        baselines=references,
        families=tuple((other, grid.models[other].base) for other in (job.name, *references)),
        permutations=job.permutations,
    )
    return model, narrowed(answers_of(job.runs, job.benchmark), {job.name, *references}), settings


def claimed(job: Job, tables: ScoreTables, settings: DetectSettings) -> tuple[Claim, bool]:
    """What the verdict claims about the model, and whether the test fires."""
    known = read_rates(job.rates) if job.rates is not None else shipped_rates()
    made = examine(tables, [job.detector], settings, known)
    fired = any(f.cell.model == job.name and f.direction == "seen" for f in made.findings)
    (claim,) = [claim for claim in made.claims if claim.cell.model == job.name]
    return claim, fired


def verdict(job: Job) -> Called:
    model, tables, settings = looked(job)
    claim, fired = claimed(job, tables, settings)
    kind = kind_of(model, job.benchmark)
    return Called(job.benchmark, kind, model.base, fired, claim.status, job.name)


def jobs(grid: LabGrid, chosen: Any) -> Iterator[Job]:
    for benchmark in grid.benchmarks:
        answered = answers_of(grid.folder, benchmark).answering
        for name in answered:
            if grid.models[name].role(benchmark) != OUTSIDER:
                yield Job(
                    grid.folder,
                    benchmark,
                    name,
                    chosen.detector,
                    chosen.permutations,
                    chosen.rates,
                    chosen.drawn,
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--detector", default="combined")
    parser.add_argument("--rates", type=Path)
    parser.add_argument("--permutations", type=int, default=999)
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--rows", type=Path)
    parser.add_argument(
        "--earlier",
        type=int,
        nargs=4,
        metavar=("CONFIRMED", "FIRED", "TESTS", "BASES"),
        help="clean models of other bases that were counted before, to add",
    )
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.runs.suffix == ".csv":
        rows = [Called(*row) for row in pl.read_csv(chosen.runs).iter_rows()]
    else:
        # Polars has threads by now, which a forked process would wait for without end.
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(chosen.workers, mp_context=fresh) as cores:
            work = jobs(read_grid(chosen.runs), chosen)
            rows = list(cores.map(verdict, work, chunksize=4))
    if chosen.rows is not None:
        pl.DataFrame(rows, schema=list(Called._fields), orient="row").write_csv(chosen.rows)
    print(
        f"{chosen.detector}, compared with clean models of other bases, at most {chosen.permutations} permutations\n"
    )
    print("| benchmark | models | of | bases | fires | survives | qualified | clean | else |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|")
    for benchmark in (*dict.fromkeys(row.benchmark for row in rows), "all"):
        for kind in KINDS:
            own = [row for row in rows if row.kind == kind and benchmark in (row.benchmark, "all")]
            if own and any(row.status != "not testable" for row in own):
                print(_row(benchmark, kind, own))
    tested = [row for row in rows if row.kind == KINDS[0] and row.status != "not testable"]
    bases = len({row.base for row in tested})
    if tested:
        worth = independent_models(len(tested), bases)
        print(f"\n{len(tested)} tests of clean models are worth {worth:.1f} independent ones")
        convicted = sum(row.status == "survives" for row in tested)
        alarms = sum(row.fired for row in tested)
        _bounds("confirmed", FiringShare(convicted, len(tested), len(tested), bases))
        _bounds("the test fires", FiringShare(alarms, len(tested), len(tested), bases))
        if chosen.earlier:
            hits, fires, n, others = chosen.earlier
            n, bases = n + len(tested), bases + others
            print(f"with earlier ones, worth {independent_models(n, bases):.1f} together:")
            _bounds("confirmed", FiringShare(hits + convicted, n, n, bases))
            _bounds("the test fires", FiringShare(fires + alarms, n, n, bases))


def _bounds(name: str, share: FiringShare) -> None:
    print(f"clean, {name}: {share.hits} of {share.n}, at most {share.interval.high:.3f} (95 %)")


def _row(benchmark: str, kind: str, own: list[Called]) -> str:
    counts = Counter(row.status for row in own)
    shown = " | ".join(str(counts.pop(status, 0)) for status in STATUSES)
    rest = ", ".join(f"{status} {count}" for status, count in counts.most_common())
    bases, fired = len({row.base for row in own}), sum(row.fired for row in own)
    return f"| {benchmark} | {kind} | {len(own)} | {bases} | {fired} | {shown} | {rest or '–'} |"


if __name__ == "__main__":
    main()
