"""What the verdict calls the lab's models: one look by one detector, beside clean models of other bases, each a family.

    python bench/lab_verdicts.py RUNS [--detector combined] [--rates RATES.json] [--permutations 999]

RUNS is what `bench/lab_grid.py tables` wrote, RATES.json the detector-rates.json of `heldout lab power` over it
(default: the shipped ones). Prints a Markdown table by benchmark and kind of arm: on how many models the test itself
fires (p ≤ .05, towards memory), and what the claim is called; then the same over all benchmarks.
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
from typing import Any

from heldout.detect import DetectSettings, ScoreTables
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
from heldout.verdict import examine, independent_models, read_rates, shipped_rates

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


def verdict(job: tuple[Path, str, str, str, int, Path | None]) -> tuple[str, str, str, bool, str]:
    """Kind of arm, its base, whether the test fires, and the claim's status."""
    runs, benchmark, name, detector, permutations, rates = job
    grid = read_grid(runs)
    model = grid.models[name]
    references = [r for r in grid.references(benchmark, model.base, OTHER_SEEDS) if r != name]
    settings = DetectSettings(
        baselines=tuple(references),
        families=tuple((other, grid.models[other].base) for other in (name, *references)),
        permutations=permutations,
    )
    tables = narrowed(answers_of(runs, benchmark), {name, *references})
    known = read_rates(rates) if rates is not None else shipped_rates()
    made = examine(tables, [detector], settings, known)
    fired = any(f.cell.model == name and f.direction == "seen" for f in made.findings)
    (claim,) = [claim for claim in made.claims if claim.cell.model == name]
    return benchmark, kind_of(model, benchmark), model.base, fired, claim.status


def jobs(grid: LabGrid, chosen: Any) -> Iterator[tuple[Path, str, str, str, int, Path | None]]:
    for benchmark in grid.benchmarks:
        answered = answers_of(grid.folder, benchmark).answering
        for name in answered:
            if grid.models[name].role(benchmark) != OUTSIDER:
                yield (
                    grid.folder,
                    benchmark,
                    name,
                    chosen.detector,
                    chosen.permutations,
                    chosen.rates,
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--detector", default="combined")
    parser.add_argument("--rates", type=Path)
    parser.add_argument("--permutations", type=int, default=999)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    grid = read_grid(chosen.runs)
    # Polars has threads by now, which a forked process would wait for without end.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(chosen.workers, mp_context=fresh) as cores:
        rows = list(cores.map(verdict, jobs(grid, chosen), chunksize=4))
    print(
        f"{chosen.detector}, compared with clean models of other bases, at most {chosen.permutations} permutations\n"
    )
    print("| benchmark | models | of | bases | fires | survives | qualified | clean | else |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|")
    for benchmark in (*grid.benchmarks, "all"):
        for kind in KINDS:
            own = [row for row in rows if row[1] == kind and benchmark in (row[0], "all")]
            if own and any(row[4] != "not testable" for row in own):
                print(_row(benchmark, kind, own))
    tested = [row for row in rows if row[1] == KINDS[0] and row[4] != "not testable"]
    bases = len({row[2] for row in tested})
    if tested:
        worth = independent_models(len(tested), bases)
        print(f"\n{len(tested)} tests of clean models are worth {worth:.1f} independent ones")


def _row(benchmark: str, kind: str, own: list[tuple[str, str, str, bool, str]]) -> str:
    counts = Counter(row[4] for row in own)
    shown = " | ".join(str(counts.pop(status, 0)) for status in STATUSES)
    rest = ", ".join(f"{status} {count}" for status, count in counts.most_common())
    bases, fired = len({row[2] for row in own}), sum(row[3] for row in own)
    return f"| {benchmark} | {kind} | {len(own)} | {bases} | {fired} | {shown} | {rest or '–'} |"


if __name__ == "__main__":
    main()
