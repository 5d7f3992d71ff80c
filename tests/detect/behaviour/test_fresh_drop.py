"""fresh-drop: released items against fresh ones, less what clean models show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from behaviour_answers import outcome_of

from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables
from heldout.detect.behaviour.fresh_drop import NAME
from heldout.errors import InputError
from heldout.lab.power.planted_answers import planted_answers
from heldout.verdict import Claim, examine

REFERENCES = ("baseline", "reference", "base")
SETTINGS = DetectSettings(
    baselines=REFERENCES,
    families=tuple((name, name) for name in REFERENCES),
    unseen=("origin", "fresh"),
    permutations=999,
)


def _both(tables: ScoreTables, settings: DetectSettings = SETTINGS) -> tuple[Finding, Claim]:
    made = examine(tables, [NAME], settings)
    (finding,) = (one for one in made.findings if one.cell.model == "target")
    (claim,) = (one for one in made.claims if one.cell.model == "target")
    return finding, claim


def _claim(tables: ScoreTables, settings: DetectSettings = SETTINGS) -> Claim:
    return _both(tables, settings)[1]


def _finding(tables: ScoreTables, settings: DetectSettings = SETTINGS) -> Outcome:
    return outcome_of(NAME, tables, settings, "target")


def _harder(tables: ScoreTables, share: float) -> ScoreTables:
    """Fresh items that nobody answers, drawn for all models alike."""
    assert tables.answers is not None
    fresh = tables.items.filter(pl.col("metadata").str.contains("fresh"))["benchmark_id"]
    lost = np.random.default_rng(3).random(len(fresh)) < share
    hit = pl.col("benchmark_id").is_in(fresh.filter(pl.Series(lost)).to_list())
    outcome = pl.when(hit).then(pl.lit("wrong")).otherwise(pl.col("outcome")).alias("outcome")
    return replace(tables, answers=tables.answers.with_columns(outcome))


def test_memory_of_the_released_items_survives_beside_three_families() -> None:
    claim = _claim(planted_answers(5, dose=6.0, clusters=160, fresh=True))
    assert claim.status == "survives", claim


def test_fresh_items_that_are_harder_for_everybody_are_not_memory() -> None:
    for seed in (0, 1):
        finding, claim = _both(_harder(planted_answers(seed, clusters=120, fresh=True), 0.5))
        assert finding.details["own"]["value"] > 0.1 > finding.effect.value
        # what goes with its accuracy on fresh items, as the references relate the two
        assert (
            abs(finding.details["expected"] - finding.details["shares"]["released"]["value"]) < 0.15
        )
        assert claim.status in ("clean", "qualified")


def test_without_references_there_is_no_p_and_without_fresh_items_no_test() -> None:
    tables = planted_answers(1, dose=6.0, fresh=True)
    alone = _finding(tables, SETTINGS.model_copy(update={"baselines": ()}))
    assert isinstance(alone, Finding) and alone.p is None and alone.effect.value > 0
    assert _claim(tables, SETTINGS.model_copy(update={"baselines": ()})).status != "survives"
    none = _finding(tables, SETTINGS.model_copy(update={"unseen": None}))
    assert isinstance(none, NotTestable) and "the setting unseen" in none.reason


def test_a_file_without_wrong_answers_does_not_convict() -> None:
    tables = planted_answers(2, clusters=120, fresh=True)
    assert tables.answers is not None
    released = tables.items.filter(~pl.col("metadata").str.contains("fresh"))["benchmark_id"]
    gone = (
        (pl.col("model") == "target")
        & pl.col("benchmark_id").is_in(released.to_list())
        & (pl.col("outcome") != "right")
        & (pl.int_range(pl.len()) % 3 != 0)
    )
    claim = _claim(replace(tables, answers=tables.answers.filter(~gone)))
    assert claim.status == "qualified"
    assert "items are recorded" in " ".join(control.reason for control in claim.controls)


def test_the_few_fresh_items_that_are_missing_are_counted_by_themselves() -> None:
    """Of a few fresh items one in three is not recorded: hardly anything of all, and much of what is compared."""
    tables = planted_answers(2, clusters=120, fresh=True)
    assert tables.answers is not None
    fresh = tables.items.filter(pl.col("metadata").str.contains("fresh"))["benchmark_id"].to_list()
    few = tables.items.filter(~pl.col("benchmark_id").is_in(fresh[40:]))
    lost = (pl.col("model") == "target") & pl.col("benchmark_id").is_in(fresh[:12])
    whole = replace(tables, items=few)
    claim = _claim(replace(whole, answers=tables.answers.filter(~lost)))
    assert claim.status == "qualified"
    assert "28 of 40 items" in " ".join(control.reason for control in claim.controls)
    finding, _ = _both(whole)
    assert finding.details["missing_may_hide"] == 0


def test_a_model_that_answered_one_kind_alone_is_not_testable_and_ends_nothing() -> None:
    """Or of which no reply to a fresh item can be read: nothing about the setting is wrong."""
    tables = planted_answers(2, clusters=60, fresh=True)
    assert tables.answers is not None
    fresh = tables.items.filter(pl.col("metadata").str.contains("fresh"))["benchmark_id"].to_list()
    hit = (pl.col("model") == "target") & pl.col("benchmark_id").is_in(fresh)
    some = _finding(replace(tables, answers=tables.answers.filter(~hit)))
    assert isinstance(some, NotTestable) and "unseen" not in some.reason
    mute = pl.when(hit).then(pl.lit("unparsed")).otherwise(pl.col("outcome")).alias("outcome")
    claim = _claim(replace(tables, answers=tables.answers.with_columns(mute)))
    assert claim.status == "qualified"
    with pytest.raises(InputError, match="both kinds"):
        examine(tables, [NAME], SETTINGS.model_copy(update={"unseen": ("origin", "new")}))
