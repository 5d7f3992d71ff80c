"""The claims-to-evidence map of the published audit (its Appendix E), its statuses beside ours.

``read_map`` reads cells; here they are listed under the claims they support, with remarks on the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from heldout.benchmark import Benchmark, items_table
from heldout.detect import DetectSettings, ScoreTables
from heldout.errors import InputError
from heldout.verdict._published import (
    Remark,
    hits_that_chance_gives,
    orders_that_change_nothing,
    reread_cells,
    tied_columns,
)
from heldout.verdict.claim import Claim, Status
from heldout.verdict.examine import examine
from heldout.verdict.published_map import Reading, load, read_map

AUDIT = "medvlm"  # its folder, where several published audits lie side by side
ITEMS = "slake_en_overlap_inflation.json"
BASELINE = "BLIP-2"
#: models by the name that the per-item scores have
NAMES = {
    "InternVL3-8B": "OpenGVLab/InternVL3-8B",
    "Qwen2.5-VL-7B": "Qwen/Qwen2.5-VL-7B-Instruct",
    "CheXagent-8b": "StanfordAIMI/CheXagent-8b",
    "LLaVA-OneVision-7B": "llava-hf/llava-onevision-qwen2-7b-ov-hf",
}


class PublishedClaim(NamedTuple):
    number: int
    sentence: str
    published: Status
    holds: Callable[[Reading], bool]  # which cells are its evidence


def _cells(kind: str, benchmark: str, part: str = "") -> Callable[[Reading], bool]:
    return lambda reading: (
        reading.kind == kind and reading.benchmark == benchmark and part in reading.on
    )


CLAIMS = (
    PublishedClaim(
        1,
        "SLAKE-En images lie extremely near PMC-OA-beta, VQA-RAD and other pictures do not",
        "survives",
        _cells("nearness", "slake_en", "at 0.01"),
    ),
    PublishedClaim(
        2,
        "the image signal is robust to the threshold across two orders of magnitude of α",
        "survives",
        _cells("nearness", "slake_en", "at 0.001"),
    ),
    PublishedClaim(
        3,
        "the flagged pairs show other patients: source overlap, not memorised pictures",
        "qualified",
        _cells("copies", "slake_en"),
    ),
    PublishedClaim(
        4,
        "the order of OmniMedVQA fires for five models while BLIP-2 stays clean",
        "survives",
        _cells("order", "omnimedvqa"),
    ),
    PublishedClaim(
        5,
        "the order hit of Qwen2.5-VL on SLAKE-En survives ablation and two baselines",
        "survives",
        _cells("order", "slake_en", "Qwen2.5-VL"),
    ),
    PublishedClaim(
        6,
        "the order hit on PathVQA is an artefact of its release",
        "re-attributed",
        _cells("order", "pathvqa", "llava"),
    ),
    PublishedClaim(
        7,
        "tail enrichment and top-k overlap collapse once BLIP-2 is in the cohort",
        "collapses",
        lambda reading: reading.kind == "cohort" and reading.benchmark != "synthetic",
    ),
    PublishedClaim(
        8,
        "that confound follows from calibration that differs, in any cohort",
        "collapses",
        _cells("cohort", "synthetic"),
    ),
    PublishedClaim(
        9,
        "VQA-RAD is clean by pictures and by text",
        "clean",
        lambda reading: reading.benchmark == "vqa_rad" and reading.kind in ("order", "nearness"),
    ),
)


class ClaimReading(NamedTuple):
    """A published claim, and what our rules make of its cells."""

    claim: PublishedClaim
    readings: list[Reading]

    @property
    def ours(self) -> list[Status]:
        """Every status that a cell of it has, most frequent first."""
        counts: dict[Status, int] = {}
        for reading in self.readings:
            counts[reading.ours] = counts.get(reading.ours, 0) + 1
        return sorted(counts, key=lambda status: -counts[status])

    @property
    def agrees(self) -> bool:
        return self.ours == [self.claim.published]

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.claim.number,
            "sentence": self.claim.sentence,
            "published": self.claim.published,
            "ours": self.ours,
            "agrees": self.agrees,
            "cells": [reading.as_json() for reading in self.readings],
        }


class PublishedMap(NamedTuple):
    claims: list[ClaimReading]
    others: list[Reading]  # cells that no claim of the map rests on
    remarks: list[Remark]
    items_read: bool  # whether per-item scores were examined with their benchmark

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "claims": [claim.as_json() for claim in self.claims],
            "other_cells": [other.as_json() for other in self.others],
            "remarks": [remark._asdict() for remark in self.remarks],
            "items_read": self.items_read,
        }


def published_map(folder: Path, benchmark: Benchmark | None = None) -> PublishedMap:
    """``folder`` holds the published tables; ``benchmark`` is SLAKE-En as the audit scored it.

    With it, order claims on SLAKE-En are made from the published per-item scores, under the control of what
    the release is grouped by; without, from p-values alone.
    """
    folder = folder / AUDIT if (folder / AUDIT).is_dir() else folder
    examined = examine_items(folder, benchmark) if benchmark is not None else {}
    readings = read_map(folder, examined)
    claims = [
        ClaimReading(published_claim, [cell for cell in readings if published_claim.holds(cell)])
        for published_claim in CLAIMS
    ]
    used = {id(cell) for claim in claims for cell in claim.readings}
    others = [cell for cell in readings if id(cell) not in used]
    return PublishedMap(claims, others, remarks_on(folder, benchmark), benchmark is not None)


def examine_items(folder: Path, benchmark: Benchmark) -> dict[tuple[str, str], Claim]:
    """Order claims on SLAKE-En from the published per-item scores, by benchmark and model."""
    items = _items(benchmark)
    columns = _columns(folder, items["benchmark_id"].to_list(), benchmark)
    tables = ScoreTables.of_sums("slake_en", items, columns)
    examination = examine(tables, ("order-trend",), DetectSettings(baselines=(BASELINE,)))
    claims = {claim.id: claim for claim in examination.claims}
    return {("slake_en", full): claims[f"order/{short}"] for short, full in NAMES.items()}


def remarks_on(folder: Path, benchmark: Benchmark | None = None) -> list[Remark]:
    """Remarks on the tables themselves, whatever is claimed."""
    ablation = load(folder, "exchangeability_order_ablation.json")
    remarks = reread_cells(load(folder, "exchangeability_refined.json")["cells"], ablation["cells"])
    remarks += orders_that_change_nothing(ablation["cells"], ablation["n_permutations"])
    remarks += _triple_hits(folder)
    if benchmark is not None:
        items = _items(benchmark)
        ids = items["benchmark_id"].to_list()
        columns = _columns(folder, ids, benchmark)
        values = {model: [column[name] for name in ids] for model, column in columns.items()}
        remarks += tied_columns(values, items["question"].to_list())
    return remarks


def _triple_hits(folder: Path) -> list[Remark]:
    text_hits = int(load(folder, "image_nn/triple_detector.json")["n_dual_detector"])
    remarks = []
    for backbone in ("image_nn", "image_nn_so400m"):
        known = {
            benchmark["benchmark"]: benchmark
            for benchmark in load(folder, f"{backbone}/summary.json")["benchmarks"]
        }
        sweep = load(folder, f"{backbone}/alpha_sweep.json")["sweep"]
        counts = [
            (float(row["alpha"]), int(row["slake_en__triple"]), int(row["slake_en__qa_flag"]))
            for row in sweep
        ]
        items = int(known["slake_en"]["n_qa"])
        remarks += hits_that_chance_gives(f"slake_en × {backbone}", counts, text_hits, items)
    return remarks


def _items(benchmark: Benchmark) -> pl.DataFrame:
    return pl.DataFrame(items_table(benchmark))


def _columns(
    folder: Path, ids: Sequence[str], benchmark: Benchmark
) -> Mapping[str, Mapping[str, float]]:
    published = load(folder, ITEMS)
    columns: dict[str, dict[str, float]] = {model: {} for model in published["models"]}
    for record in published["records"]:
        for model, value in record["mean_logprob"].items():
            columns[model][record["example_id"].rsplit("::", 1)[1]] = value
    theirs, ours = set(next(iter(columns.values()))), set(ids)
    if theirs != ours:
        raise InputError(
            f"{folder / ITEMS} scores {len(theirs):,} items and {benchmark.name} has {len(ours):,}; "
            f"{len(theirs & ours):,} ids are in both ({sorted(theirs ^ ours)[0]!r} is not): "
            f"give the English test split of SLAKE, BENCH#split=test,lang=en"
        )
    return columns
