"""Detectors: false alarms on clean clustered cells, power in the dose, speed of permutations.

python bench/detectors.py calibration --cells 500     # every detector, 99 % binomial band
python bench/detectors.py power --cells 60            # share of cells called seen, by planted dose
python bench/detectors.py permutations                # 10,000 over 7,000 items against a loop
python bench/detectors.py published ../shared         # the published tables, audited
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.benchmark import items_table, read_benchmark
from heldout.detect import DetectSettings, ScoreTables, detectors
from heldout.lab.power.conform import NullCalibration, null_calibration, power_by_dose
from heldout.stats.grouping import trend_test
from heldout.verdict import examine
from heldout.verdict._published import orders_that_change_nothing, reread_cells, tied_columns
from heldout.verdict.controls.inflation import overlap_inflation
from heldout.verdict.controls.orders import trend_within_fields

DOSES = (0.0, 0.5, 1.0, 2.0, 4.0)
ITEMS, PERMUTATIONS = 7_000, 10_000


AGAIN = 4  # times as many fresh cells for a detector that leaves its band: one of a hundred does by chance


def calibrate(names: list[str], cells: int, permutations: int, workers: int, seed: int) -> None:
    print(
        f"{cells} clean cells of about 180 items in 40 clusters, at most {permutations} permutations, "
        f"seed {seed}"
    )
    print("| detector | cells | p ≤ .05 | ties drawn | 99 % band | |\n|---|---|---|---|---|---|")
    with ProcessPoolExecutor(workers) as pool:
        left = []
        for found in pool.map(_calibrated, [(n, cells, permutations, seed) for n in names]):
            _print_calibration(found)
            left += [] if found.holds else [found.detector]
        again = [(name, AGAIN * cells, permutations, seed + 1000) for name in left]
        for found in pool.map(_calibrated, again):
            _print_calibration(found)


def _print_calibration(found: NullCalibration) -> None:
    cells = found.cells
    print(
        f"| {found.detector} | {cells} | {found.alarms / cells:.3f} | {found.randomised / cells:.3f} | "
        f"{found.low / cells:.3f}–{found.high / cells:.3f} | "
        f"{'holds' if found.holds else '**does not hold**'} |",
        flush=True,
    )


def _calibrated(task: tuple[str, int, int, int]) -> NullCalibration:
    name, cells, permutations, seed = task
    return null_calibration(detectors()[name], cells, permutations=permutations, seed=seed)


def measure_power(names: list[str], cells: int, workers: int) -> None:
    print(f"share of {cells} cells in which the target is called seen, by planted dose")
    print("| detector | " + " | ".join(f"{dose:g}" for dose in DOSES) + " |")
    print("|---" * (len(DOSES) + 1) + "|")
    with ProcessPoolExecutor(workers) as pool:
        for name, shares in zip(
            names, pool.map(_powered, [(n, cells) for n in names]), strict=True
        ):
            print(f"| {name} | " + " | ".join(f"{s:.2f}" for s in shares) + " |", flush=True)


def _powered(task: tuple[str, int]) -> list[float]:
    return power_by_dose(detectors()[task[0]], DOSES, task[1], permutations=999, seed=11)


def race(rounds: int) -> None:
    """Ours and the loop, alternating; the best of each. Both give Spearman's rho of 10,000 orders.

    Wall and processor time: on a busy machine only the second compares like with like.
    """
    from scipy import stats

    rng = np.random.default_rng(0)
    scores = rng.normal(size=ITEMS)
    places = np.arange(ITEMS)
    ours, theirs = [], []
    for turn in range(rounds):
        start = _clocks()
        found = trend_test(scores, permutations=PERMUTATIONS, seed=turn, early=False)
        ours.append(_clocks() - start)
        start = _clocks()
        observed = abs(stats.spearmanr(scores, places).statistic)
        extreme = 0
        for _ in range(PERMUTATIONS):
            extreme += abs(stats.spearmanr(rng.permutation(scores), places).statistic) >= observed
        theirs.append(_clocks() - start)
        assert found is not None
        print(
            f"turn {turn + 1}: ours {ours[-1][0]:.3f} s, {ours[-1][1]:.3f} s of processor "
            f"(p {found.test.p:.4f}, {found.test.evaluated} orders); loop {theirs[-1][0]:.1f} s, "
            f"{theirs[-1][1]:.1f} s (p {(1 + extreme) / (1 + PERMUTATIONS):.4f})",
            flush=True,
        )
    start = _clocks()
    fine = trend_test(scores, permutations=1_000_000, early=False)
    assert fine is not None
    refined = _clocks() - start
    best, loop = np.min(ours, axis=0), np.min(theirs, axis=0)
    wall, processor = loop / best
    print(f"best of {rounds}: {wall:.0f}x by the wall clock, {processor:.0f}x by processor time")
    print(f"10^6 orders: {refined[0]:.1f} s, {refined[1]:.1f} s of processor (p {fine.test.p:.5f})")


def _clocks() -> NDArray[np.float64]:
    return np.asarray([time.perf_counter(), time.process_time()])


def published(shared: Path) -> None:
    golden = shared / "golden/medvlm"
    ablation = _load(golden / "exchangeability_order_ablation.json")
    remarks = reread_cells(
        _load(golden / "exchangeability_refined.json")["cells"], ablation["cells"]
    )
    remarks += orders_that_change_nothing(ablation["cells"], ablation["n_permutations"])
    scores = _load(golden / "slake_en_overlap_inflation.json")
    rows = {row["qid"]: row for row in _load(shared / "data/slake/official_test.json")}
    items = [rows[int(record["example_id"].rsplit("::", 1)[1])] for record in scores["records"]]
    columns = {m: [r["mean_logprob"][m] for r in scores["records"]] for m in scores["models"]}
    remarks += tied_columns(columns, [item["question"] for item in items])
    for remark in remarks:
        print(f"- **{remark.where}** ({remark.kind}): {remark.sentence}.")
    _explain_ties(columns["CheXagent-8b"], items)
    print("\n| model | items | flagged less unflagged | less BLIP-2's |\n|---|---|---|---|")
    found = overlap_inflation(
        columns,
        [record["flagged"] for record in scores["records"]],
        [item["img_name"] for item in items],
        baseline="BLIP-2",
        strata=[record["answer_type"] for record in scores["records"]],
    )
    for one in found:
        cells = [
            "–" if c is None else f"{c.value:+.3f} [{c.interval.low:+.3f}, {c.interval.high:+.3f}]"
            for c in (one.gap, one.above_baseline)
        ]
        print(f"| {one.model} | {one.stratum} | {cells[0]} | {cells[1]} |")
    _trends(shared, columns)


def _trends(shared: Path, columns: dict[str, list[float]]) -> None:
    """The released order's trend on SLAKE, within its strata and within each field it is grouped by."""
    items = pl.from_arrow(items_table(read_benchmark(f"{shared}/data/slake#split=test,lang=en")))
    assert isinstance(items, pl.DataFrame)
    ids = items["benchmark_id"]
    sums = {model: dict(zip(ids, column, strict=True)) for model, column in columns.items()}
    tables = ScoreTables.of_sums("slake-en", items, sums)
    settings = DetectSettings(baselines=("BLIP-2",))
    made = examine(tables, ["order-trend"], settings)
    print("\n| model | rho with earliness | p | within each field the release is grouped by |")
    print("|---|---|---|---|")
    for finding in made.findings:
        within = trend_within_fields(tables, str(finding.cell.model), settings)
        told = "; ".join(f"{one.field} {one.rho:+.2f} (p = {one.p:.2g})" for one in within)
        print(f"| {finding.cell.model} | {finding.effect.value:+.2f} | {finding.p:.2g} | {told} |")
    for claim in made.claims:
        print(f"- {claim.status}: {claim.sentence} {claim.why}.")


def _explain_ties(column: list[float], items: list[dict[str, str]]) -> None:
    """Neighbours that differ in their question alone: do they tie where questions are equally long?"""
    alike = [
        i
        for i in range(len(items) - 1)
        if items[i]["img_name"] == items[i + 1]["img_name"]
        and items[i]["answer"] == items[i + 1]["answer"]
        and items[i]["question"] != items[i + 1]["question"]
    ]
    for tied in (True, False):
        some = [i for i in alike if (column[i] == column[i + 1]) == tied]
        words = [[len(items[j]["question"].split()) for j in (i, i + 1)] for i in some]
        apart = float(np.median([abs(column[i] - column[i + 1]) for i in some]))
        print(
            f"- of {len(alike)} neighbours with the same image and answer and another question, "
            f"{len(some)} have {'equal' if tied else 'different'} scores (median distance {apart:.4f}); "
            f"in {sum(a == b for a, b in words)} of them both questions have equally many words"
        )


def _load(path: Path) -> dict:  # type: ignore[type-arg]
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["calibration", "power", "permutations", "published"])
    parser.add_argument("shared", nargs="?", type=Path, default=Path("../shared"))
    parser.add_argument("--detector", action="append", help="only these; repeatable")
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--permutations", type=int, default=999)
    parser.add_argument("--seed", type=int, default=7, help="calibration: of the cells")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.what == "calibration":
        names = chosen.detector or list(detectors())
        calibrate(names, chosen.cells, chosen.permutations, chosen.workers, chosen.seed)
    elif chosen.what == "power":
        names = chosen.detector or [name for name in detectors() if name != "blind"]
        measure_power(names, chosen.cells, chosen.workers)
    elif chosen.what == "permutations":
        race(chosen.rounds)
    else:
        published(chosen.shared)


if __name__ == "__main__":
    main()
