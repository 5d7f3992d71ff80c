"""Claims from answers: what references, their spread, unreadable replies and places make of a drop."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl
from measured_by_hand import NOTHING_MEASURED

from heldout.detect import DetectSettings, Finding, ScoreTables
from heldout.lab.power.planted_answers import BASE, BASELINE, REFERENCE, TARGET, planted_answers
from heldout.verdict import AWAY, Claim, examine
from heldout.verdict.controls.behaviour import behaviour_controls
from heldout.verdict.required import settled_by
from heldout.verdict.rules import RULES

QUICK = DetectSettings(permutations=1999)
DROP = ["twin-drop"]


def _claim(tables: ScoreTables, *references: str, model: str = TARGET) -> Claim:
    """Every reference is of a family of its own."""
    families = tuple((name, name) for name in references)
    settings = QUICK.model_copy(update={"baselines": references, "families": families})
    made = examine(tables, DROP, settings, NOTHING_MEASURED)
    return next(one for one in made.claims if one.cell.model == model)


def _outcome(claim: Claim, start: str) -> str:
    return next(one.outcome for one in claim.controls if one.name.startswith(start))


def test_a_drop_that_clean_models_do_not_have_survives() -> None:
    tables = planted_answers(2, dose=3.0, unparsed=0.02, clusters=120)
    claim = _claim(tables, BASELINE, REFERENCE, BASE)
    assert claim.status == "survives"
    assert {one.outcome for one in claim.controls} == {"passed"}
    assert len(claim.controls) == 7  # three references, spread, skill, unreadable replies, places


def test_a_drop_that_one_family_of_references_does_not_have_is_possible() -> None:
    """However large: how much clean models differ among themselves takes three families to say."""
    claim = _claim(planted_answers(2, dose=3.0, clusters=120), BASELINE)
    assert claim.status == "qualified"
    assert [one.name for one in claim.controls if one.outcome != "passed"] == [
        "spread of clean models"
    ]
    assert "three families" in settled_by(claim)[0]


def test_without_a_reference_neither_drop_nor_no_drop_settles_anything() -> None:
    for dose in (0.0, 2.0):
        claim = _claim(planted_answers(2, dose=dose))
        assert claim.status == "qualified"
        assert _outcome(claim, "external baseline") == "missing"
        assert "baselines" in claim.next_step


def test_with_a_reference_no_difference_is_clean_with_what_would_have_shown() -> None:
    claim = _claim(planted_answers(2), BASELINE)
    assert claim.status == "clean"
    assert claim.rule == "answers/quiet"


def test_what_correction_clears_is_said_with_its_own_p() -> None:
    """The same answers, looked at by one detector and by two."""
    tables = planted_answers(66, dose=0.1)
    references = (BASELINE, REFERENCE, BASE)
    families = tuple((name, name) for name in references)
    settings = QUICK.model_copy(update={"baselines": references, "families": families})
    claims = {}
    for names in (DROP, [*DROP, "option-margin"]):
        made = examine(tables, names, settings, NOTHING_MEASURED)
        claims[len(names)] = next(one for one in made.claims if one.id == f"twin-drop/{TARGET}")
    assert (claims[1].status, claims[2].status) == ("qualified", "clean")
    assert claims[2].corrected_p is not None
    assert f"{claims[2].corrected_p:.2g} corrected over the tests" in claims[2].why


def test_what_points_away_from_memory_is_not_said_to_be_a_sign_of_it() -> None:
    tables = planted_answers(2, clusters=120)
    assert tables.answers is not None
    better = (pl.col("model") == TARGET) & (pl.col("variant") == "twin")
    answers = tables.answers.with_columns(
        pl.when(better).then(pl.lit("right")).otherwise("outcome").alias("outcome"),
        pl.when(better).then("gold").otherwise("parsed").alias("parsed"),
    )
    claim = _claim(replace(tables, answers=answers), BASELINE, REFERENCE, BASE)
    assert (claim.status, claim.rule) == ("qualified", f"answers/{AWAY}")
    assert claim.why == next(rule.reason for rule in RULES if rule.name == AWAY)
    (advice,) = settled_by(claim)  # not one for each baseline that it does not exceed
    assert advice.startswith("external baseline:")


def test_twins_that_are_wrong_make_everybody_drop_and_the_claim_goes() -> None:
    tables = planted_answers(2, easier=-2.5)
    (alone,) = (f for f in examine(tables, DROP, QUICK).findings if f.cell.model == TARGET)
    assert alone.direction == "seen"
    assert _claim(tables, BASELINE).status == "collapses"


def test_a_reference_that_drops_as_much_makes_the_claim_collapse() -> None:
    tables = planted_answers(2, dose=2.0)
    assert tables.answers is not None
    copy = tables.answers.filter(pl.col("model") == TARGET).with_columns(
        pl.lit("clean?").alias("model")
    )
    copy = copy[1:]  # with every reply it would be the same model
    claim = _claim(replace(tables, answers=pl.concat([tables.answers, copy])), "clean?", BASELINE)
    assert claim.status == "collapses"
    assert "clean?" in claim.next_step  # of the two it may be the one that is not clean
    assert "clean?, " in claim.why and BASELINE not in claim.why


def test_a_smaller_gain_than_one_reference_has_is_only_qualified() -> None:
    tables = planted_answers(4, dose=0.7, easier=1.5, clusters=150)
    claim = _claim(tables, BASELINE)
    assert claim.status == "qualified"
    assert _outcome(claim, "external baseline") == "passed"
    assert _outcome(claim, "spread") == "missing"
    assert claim.why.startswith("its value is ") and "at least 3" in claim.why


def test_three_references_tell_how_much_clean_models_differ() -> None:
    tables = planted_answers(4, dose=1.0, easier=2.5, clusters=200)
    references = (BASELINE, REFERENCE, "base")
    settings = QUICK.model_copy(update={"baselines": references})
    (finding,) = (f for f in examine(tables, DROP, settings).findings if f.cell.model == TARGET)
    assert finding.details["own"]["direction"] != "seen"
    controls = {one.name: one for one in behaviour_controls([finding], True, settings)}
    assert (
        controls["spread of clean models"].outcome == "missing"
    )  # three of one lineage, for all we know
    settings = settings.model_copy(update={"families": tuple((name, name) for name in references)})
    controls = {one.name: one for one in behaviour_controls([finding], True, settings)}
    assert controls["spread of clean models"].outcome == "passed"
    wider = _with_spread(finding, 0.5)
    controls = {one.name: one for one in behaviour_controls([wider], True, settings)}
    assert controls["spread of clean models"].outcome == "failed"


def test_one_of_many_clean_references_may_fire_by_chance() -> None:
    """One in twenty clean models does: what each is asked is corrected for how many are."""
    tables = planted_answers(2, dose=3.0, clusters=120)
    references = (BASELINE, REFERENCE, BASE)
    settings = QUICK.model_copy(
        update={"baselines": references, "families": tuple((name, name) for name in references)}
    )
    found = examine(tables, DROP, settings, NOTHING_MEASURED).findings
    finding = next(one for one in found if one.cell.model == TARGET)
    own = finding.details["references_own"]
    for p, outcome in ((0.02, "passed"), (0.01, "missing")):
        own[BASELINE] |= {"p": p, "direction": "seen"}
        controls = {one.name: one for one in behaviour_controls([finding], True, settings)}
        assert controls[f"external baseline {BASELINE}"].outcome == outcome


def test_a_drop_made_of_unreadable_replies_does_not_survive() -> None:
    tables = planted_answers(2)
    assert tables.answers is not None
    lost = (
        (pl.col("model") == TARGET)
        & (pl.col("variant") == "twin")
        & (pl.col("outcome") == "right")
        & (pl.col("benchmark_id").hash(1) % 5 < 3)
    )
    outcome = pl.when(lost).then(pl.lit("unparsed")).otherwise("outcome").alias("outcome")
    # The wrong ones are lost as well: what can be read is as good as before.
    wrong = (
        (pl.col("model") == TARGET) & (pl.col("variant") == "twin") & (pl.col("outcome") == "wrong")
    )
    both = pl.when(wrong & (pl.col("benchmark_id").hash(1) % 5 < 3)).then(pl.lit("unparsed"))
    broken = tables.answers.with_columns(outcome).with_columns(
        both.otherwise("outcome").alias("outcome")
    )
    claim = _claim(replace(tables, answers=broken), BASELINE)
    assert claim.status == "qualified"
    assert _outcome(claim, "unreadable") == "failed"
    # Another test compares other replies of the model: the sentence says that its count is of these.
    (reason,) = [one.reason for one in claim.controls if "unreadable" in one.name]
    assert re.match(r"[\d,]+ of the [\d,]+ replies that this test compares ", reason)


def test_twins_without_their_options_leave_the_place_open() -> None:
    tables = planted_answers(2, dose=2.0)
    assert tables.answers is not None
    empty = pl.lit([], dtype=pl.List(pl.String))
    bare = pl.when(pl.col("variant") == "twin").then(empty).otherwise("options").alias("options")
    claim = _claim(replace(tables, answers=tables.answers.with_columns(bare)), BASELINE)
    assert claim.status == "qualified"
    assert _outcome(claim, "place") == "missing"


def test_forms_nobody_asked_about_make_no_claims() -> None:
    tables = planted_answers(2)
    assert tables.answers is not None
    two = tables.answers.filter(pl.col("variant").is_in(["original", "twin"]))
    made = examine(
        replace(tables, answers=two), (), QUICK.model_copy(update={"baselines": (BASELINE,)})
    )
    twins = {"twin-drop", "twin-memory", "twin-margin"}
    assert {one.id.split("/")[0] for one in made.claims} == twins
    assert {one.detector for one in made.untested} >= {"circular", "option-order"}


def _with_spread(finding: Finding, by: float) -> Finding:
    own = finding.details["references_own"]
    moved = {
        name: {**one, "value": one["value"] + by * (index - 1)}
        for index, (name, one) in enumerate(own.items())
    }
    return finding.model_copy(update={"details": {**finding.details, "references_own": moved}})
