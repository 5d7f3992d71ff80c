"""dataset-inference: weights from one half of the images, a test on the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from heldout.detect import Finding, NotTestable, ScoreTables, detectors, run_detectors
from heldout.detect.dataset_inference import LEAST_IMAGES, NAME, second_half
from heldout.detect.item_scores import unseen_items
from heldout.lab.power.planted_scores import PLANTED, TARGET, planted_scores
from heldout.verdict import examine

QUICK = PLANTED.model_copy(update={"permutations": 999})


def _finding(tables: ScoreTables) -> Finding:
    outcomes, _ = run_detectors(tables, (NAME,), QUICK)
    (finding,) = (one for one in outcomes if one.cell.model == TARGET)
    assert isinstance(finding, Finding)
    return finding


def test_both_halves_have_both_kinds_of_images_and_share_none() -> None:
    scored = planted_scores(4).scored(TARGET)
    tested, fresh = second_half(scored, QUICK), unseen_items(scored, QUICK)
    names = np.asarray(scored.clusters)
    halves = [
        {kind: set(names[half & kinds]) for kind, kinds in (("fresh", fresh), ("public", ~fresh))}
        for half in (tested, ~tested)
    ]
    assert not set(names[tested]) & set(names[~tested])
    assert [len(half[kind]) for half in halves for kind in ("fresh", "public")] == [10] * 4
    assert (second_half(scored, QUICK.model_copy(update={"seed": 1})) != tested).any()


def test_scores_of_the_tested_half_have_no_part_in_the_weights() -> None:
    tables = planted_scores(4, dose=1.0)
    scored = tables.scored(TARGET)
    ids = scored.frame["benchmark_id"].filter(pl.Series(second_half(scored, QUICK))).to_list()
    changed = pl.when(pl.col("benchmark_id").is_in(ids)).then(3.0).otherwise(1.0)
    others = replace(
        tables,
        scores=tables.scores.with_columns(
            pl.col("logprobs") * changed, pl.col("mu") * changed, pl.col("sum_logprob") * changed
        ),
    )
    first, second = _finding(tables), _finding(others)
    assert first.details["weights"] == pytest.approx(second.details["weights"])
    assert first.effect.value != pytest.approx(second.effect.value)
    assert first.details["learnt_on_images"] == first.clusters == 20
    weights = first.details["weights"]
    assert min(weights.values()) >= 0 and sum(weights.values()) == pytest.approx(1)


def test_what_sees_memory_gets_the_weight() -> None:
    """Only the entropies know which items were seen."""
    tables = planted_scores(4)
    public = tables.scored(TARGET).frame.filter(
        ~pl.Series(unseen_items(tables.scored(TARGET), QUICK))
    )
    seen = pl.col("benchmark_id").is_in(public["benchmark_id"].to_list())
    mu = pl.when(seen).then(pl.col("mu") * 0.4).otherwise(pl.col("mu"))
    finding = _finding(replace(tables, scores=tables.scores.with_columns(mu)))
    assert finding.direction == "seen"
    weights = finding.details["weights"]
    assert max(weights, key=lambda name: weights[name]) == "max-renyi-k"


def test_too_few_images_are_not_testable() -> None:
    outcomes, _ = run_detectors(planted_scores(0, clusters=2 * LEAST_IMAGES - 2), (NAME,), QUICK)
    (one,) = (one for one in outcomes if one.cell.model == TARGET)
    assert isinstance(one, NotTestable) and f"{LEAST_IMAGES} are needed" in one.reason


def test_a_claim_has_the_controls_of_item_scores() -> None:
    made = examine(planted_scores(1, dose=4.0), [NAME], QUICK)
    (claim,) = (claim for claim in made.claims if claim.cell.model == TARGET)
    names = [control.name for control in claim.controls]
    assert any(name.startswith("external baseline") for name in names) and "blind" in names
    assert detectors()[NAME].family == "membership"
