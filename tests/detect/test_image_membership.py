"""image-membership: entropies over picture, question and answer of suspect and unseen items."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from heldout.detect import Finding, NotTestable, ScoreTables, run_detectors
from heldout.detect.image_membership import LACKING, NAME
from heldout.lab.power.planted_scores import PLANTED, TARGET, planted_scores

QUICK = PLANTED.model_copy(update={"permutations": 999})


def _outcome(tables: ScoreTables) -> Finding | NotTestable:
    outcomes, _ = run_detectors(tables, (NAME,), QUICK)
    (outcome,) = (outcome for outcome in outcomes if outcome.cell.model == TARGET)
    return outcome


def test_lower_entropies_of_suspect_items_point_to_memory_slice_by_slice() -> None:
    tables = planted_scores(3)
    public = tables.items.filter(pl.col("metadata").str.contains("public"))["benchmark_id"]
    lower = pl.col("entropy") - 2.0 * (
        pl.col("benchmark_id").is_in(public.to_list()) & (pl.col("slice") == "image")
    )
    assert tables.entropies is not None
    finding = _outcome(replace(tables, entropies=tables.entropies.with_columns(entropy=lower)))
    assert isinstance(finding, Finding) and finding.direction == "seen"
    areas = finding.details["slices"]
    assert areas["image"] > 0.9 and abs(areas["question"] - 0.5) < 0.15


def test_without_entropies_it_says_what_to_record() -> None:
    tables = planted_scores(3)
    assert tables.entropies is not None
    outcome = _outcome(replace(tables, entropies=None))
    assert isinstance(outcome, NotTestable) and outcome.reason == LACKING
    part = replace(tables, entropies=tables.entropies.filter(pl.col("benchmark_id") != "item00003"))
    outcome = _outcome(part)
    assert isinstance(outcome, NotTestable) and "1 items have no entropies" in outcome.reason
