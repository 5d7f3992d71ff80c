"""One model under several names is one model."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from heldout.detect import DetectSettings, ScoreTables
from heldout.lab.power.planted_answers import BASELINE, planted_answers
from heldout.verdict import Claim, examine
from heldout.verdict.controls.same_models import SERVED, same_models
from heldout.verdict.required import settled_by
from verdict_recipes import MODEL, remembered
from verdict_setups import at_ceiling, joint_topics


def _renamed(tables: ScoreTables, model: str, *names: str) -> ScoreTables:
    """``names`` get the answers of this model."""
    assert tables.answers is not None
    own = tables.answers.filter(pl.col("model") == model)
    copies = [own.with_columns(pl.lit(name).alias("model")) for name in names]
    others = tables.answers.filter(~pl.col("model").is_in(names))
    return replace(tables, answers=pl.concat([others, *copies]))


def _claim(tables: ScoreTables, settings: DetectSettings) -> Claim:
    claims = examine(tables, ["twin-drop"], settings).claims
    return next(claim for claim in claims if claim.cell.model == MODEL)


@pytest.fixture(scope="module")
def tables() -> ScoreTables:
    return remembered(0, known=0.3).tables


SETTINGS = remembered(0, known=0.3).looks[0][1]


def test_one_reference_under_three_names_is_one_family(tables: ScoreTables) -> None:
    assert _claim(tables, SETTINGS).status == "survives"
    claim = _claim(_renamed(tables, "reference-1", "reference-2", "reference-3"), SETTINGS)
    assert (claim.status, claim.rule) == ("qualified", "answers/control-missing")
    assert "of 1 family" in claim.why
    assert "one model" in claim.why


def test_references_that_share_nearly_all_their_wrong_replies_are_one_family(
    tables: ScoreTables,
) -> None:
    """As one checkpoint in two backends does."""
    same = _renamed(tables, "reference-1", "reference-2", "reference-3")
    assert same.answers is not None
    order = pl.int_range(pl.len()).over("model")
    place = pl.col("model").replace_strict({"reference-2": 7, "reference-3": 31}, default=None)
    changed = order % 60 == place
    flipped = pl.when(changed).then(pl.lit("right")).otherwise("outcome").alias("outcome")
    answers = same.answers.drop("choice_logprobs", strict=False).with_columns(flipped)
    nearly = replace(same, answers=answers)
    assert "reference-2" not in same_models(nearly)
    claim = _claim(nearly, SETTINGS)
    assert (claim.status, claim.rule) == ("qualified", "answers/control-missing")
    assert "of 1 family" in claim.why


def test_the_same_probabilities_of_options_are_of_one_model() -> None:
    """Also where every reply is right."""
    tables = planted_answers(2)
    assert tables.answers is not None
    right = tables.answers.with_columns(outcome=pl.lit("right"), parsed=pl.col("gold"))
    assert same_models(replace(tables, answers=right)) == {}
    again = right.filter(pl.col("model") == BASELINE).with_columns(model=pl.lit("again"))
    both = replace(tables, answers=pl.concat([right, again]))
    assert same_models(both) == {"again": "again", BASELINE: "again"}


@pytest.mark.parametrize("copies", [1, 3])
def test_a_model_is_no_reference_for_itself(tables: ScoreTables, copies: int) -> None:
    """Who remembers, and is named as clean under another name, was refuted by itself."""
    names = [f"reference-{number}" for number in range(1, copies + 1)]
    claim = _claim(_renamed(tables, MODEL, *names), SETTINGS)
    assert claim.status == "qualified"
    (first, *_) = (control for control in claim.controls if control.name.endswith("reference-1"))
    assert first.outcome == "missing"
    assert any("another baseline" in advice for advice in settled_by(claim))


@pytest.mark.parametrize("name", [MODEL, "reference-1"])
def test_a_server_that_names_several_models_is_said_in_the_claim(
    tables: ScoreTables, name: str
) -> None:
    named = {"answers": {"version-1": 900, "version-2": 30}, "scores": {"version-1": 2}}
    changing = replace(tables, identities={name: {"named": named}})
    claim = _claim(changing, SETTINGS)
    assert (claim.status, claim.rule) == ("qualified", "answers/control-failed")
    (control,) = (control for control in claim.controls if control.name == SERVED)
    assert control.outcome == "failed"
    assert f"{name}: the server named 2 models" in control.reason
    assert "version-1 (902), version-2 (30)" in claim.why
    assert any(SERVED in advice for advice in settled_by(claim))
    for fine in ({"answers": {"version-1": 930}}, {}, "nonsense", {"answers": 3}):
        same = replace(tables, identities={name: {"named": fine}})
        assert _claim(same, SETTINGS).status == "survives"


def test_models_that_are_all_right_are_not_taken_for_one() -> None:
    recording = at_ceiling(0, drop=0.05)
    assert same_models(recording.tables) == {}


def test_scores_to_the_last_digit_are_of_one_model() -> None:
    tables = joint_topics(0).tables
    assert same_models(tables) == {}
    own = tables.scores.filter(pl.col("model") == MODEL)
    again = own.with_columns(pl.lit("again").alias("model"))
    both = replace(tables, scores=pl.concat([tables.scores, again]))
    assert same_models(both) == {"again": "again", MODEL: "again"}
