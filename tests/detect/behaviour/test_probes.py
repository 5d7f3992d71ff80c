"""option-order, circular, choice-confusion, multimodal-leakage, slot-guess: what each of them counts."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from behaviour_answers import answers_of

from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables, run_detectors
from heldout.detect.behaviour import option_order
from heldout.detect.behaviour.probe import pairs_recorded
from heldout.errors import InputError
from heldout.lab.power.planted_answers import BASE, BASELINE, TARGET, planted_answers

QUICK = DetectSettings(permutations=999)


def _outcome(
    name: str, tables: ScoreTables, model: str, settings: DetectSettings = QUICK
) -> Outcome:
    return next(
        one for one in run_detectors(tables, [name], settings)[0] if one.cell.model == model
    )


def _of(name: str, tables: ScoreTables, model: str, settings: DetectSettings = QUICK) -> Finding:
    found = _outcome(name, tables, model, settings)
    assert isinstance(found, Finding), found
    return found


def test_vanilla_and_circular_accuracy_stand_together_and_alone_they_are_no_test() -> None:
    tables = planted_answers(1)
    found = _of("circular", tables, TARGET)
    vanilla, circular = (one["value"] for one in found.details["accuracy"].values())
    assert list(found.details["accuracy"]) == ["vanilla", "circular"]
    assert vanilla > circular
    assert found.p is None
    assert found.direction == "none"
    assert found.details["mcnemar"] is None
    against = _of("circular", tables, TARGET, QUICK.model_copy(update={"baselines": (BASELINE,)}))
    assert against.p is not None


def test_circular_counts_items_asked_in_all_rotations_only() -> None:
    tables = answers_of(
        {
            ("m", "original"): "11111110",
            ("m", "rotation-0"): "00000000",
            ("m", "rotation-1"): "1111110 ",
            ("m", "rotation-2"): "11111111",
        },
        options=3,
    )
    found = _of("circular", tables, "m")
    assert (found.n, found.details["unpaired"]) == (7, 1)
    assert found.details["accuracy"]["circular"]["value"] == pytest.approx(6 / 7)


def test_option_order_gives_the_published_figures_and_takes_the_place_out() -> None:
    tables = planted_answers(3, clusters=150)  # a release that prefers the place the model likes
    found = _of("option-order", tables, TARGET)
    figures = {
        name: found.details[name]["value"]
        for name in ("CR", "PCR", "instance_leakage", "instance_gain")
    }
    assert figures["CR"] - figures["PCR"] == pytest.approx(
        figures["instance_leakage"] - figures["instance_gain"]
    )
    assert found.statistic.value == pytest.approx(figures["PCR"] - figures["CR"])
    places = found.details["right_by_place"]
    assert places["A/4"] > max(places["B/4"], places["C/4"], places["D/4"])
    assert found.details["plain"]["direction"] == "seen"  # what MM-Detect would have called a leak
    assert found.direction == "none"


def test_option_order_prefers_shuffles_to_rotations() -> None:
    tables = planted_answers(3)
    assert tables.answers is not None
    renamed = pl.col("variant").str.replace("rotation-2", "shuffle-0").alias("variant")
    both = replace(tables, answers=tables.answers.with_columns(renamed))
    assert (
        _of("option-order", both, TARGET).details["replies"]
        == 2 * _of("option-order", both, TARGET).n
    )


def test_multimodal_leakage_needs_its_base() -> None:
    tables = planted_answers(3, dose=2.0)
    untold = _outcome("multimodal-leakage", tables, TARGET)
    assert isinstance(untold, NotTestable)
    assert "bases" in untold.reason
    with pytest.raises(InputError, match="^bases vicuna: "):
        _outcome(
            "multimodal-leakage",
            tables,
            TARGET,
            QUICK.model_copy(update={"bases": (("", "vicuna"),)}),
        )
    settings = QUICK.model_copy(update={"bases": (("", BASE),)})
    found = _of("multimodal-leakage", tables, TARGET, settings)
    assert found.direction == "seen"
    assert found.details["multimodal_leakage"] == pytest.approx(found.effect.value)
    assert found.details["base"] == BASE
    outcomes = run_detectors(tables, ["multimodal-leakage"], settings)[0]
    assert BASE not in {one.cell.model for one in outcomes}
    other = QUICK.model_copy(update={"bases": (("", BASE), (TARGET, BASELINE))})
    assert _of("multimodal-leakage", tables, TARGET, other).details["base"] == BASELINE


def test_a_paraphrase_that_masks_another_word_is_left_out() -> None:
    tables = answers_of({("m", "slot"): "1" * 20, ("m", "slot-paraphrase"): "0" * 20})
    assert tables.answers is not None
    other = (pl.col("variant") == "slot-paraphrase") & (pl.col("benchmark_id") < "q008")
    word = pl.when(other).then(pl.lit("left")).otherwise(pl.lit("Lung")).alias("gold")
    found = _of("slot-guess", replace(tables, answers=tables.answers.with_columns(word)), "m")
    assert (found.n, found.details["unpaired"]) == (12, 8)
    assert found.direction == "seen"
    all_other = (
        pl.when(pl.col("variant") == "slot").then(pl.lit("x")).otherwise(pl.lit("y")).alias("gold")
    )
    none = _outcome(
        "slot-guess", replace(tables, answers=tables.answers.with_columns(all_other)), "m"
    )
    assert isinstance(none, NotTestable)
    assert "same word" in none.reason


def test_wordings_that_go_on_above_their_paraphrases_look_seen() -> None:
    arms = {("m", "ngram"): "1" * 14 + "0" * 6, ("m", "ngram-paraphrase"): "0" * 20}
    found = _of("ngram-accuracy", answers_of(arms), "m")
    assert (found.n, found.direction) == (20, "seen")
    assert found.effect.value == pytest.approx(0.7)
    arms["m", "ngram-paraphrase"] = arms["m", "ngram"]
    assert _of("ngram-accuracy", answers_of(arms), "m").direction != "seen"


def test_a_form_nobody_asked_about_says_how_to_ask() -> None:
    tables = answers_of({("m", "original"): "1" * 9})
    for name in (
        "twin-drop",
        "twin-memory",
        "twin-margin",
        "circular",
        "option-order",
        "option-margin",
        "choice-confusion",
        "slot-guess",
        "ngram-accuracy",
    ):
        found = _outcome(name, tables, "m")
        assert isinstance(found, NotTestable)
        assert "needs" in found.reason


def test_detectors_of_scores_say_that_there_are_none() -> None:
    tables = answers_of({("m", "original"): "1" * 9, ("m", "twin"): "1" * 9})
    with pytest.raises(InputError, match="order-trend reads scores"):
        run_detectors(tables, ["order-trend"], QUICK)
    with pytest.raises(InputError, match="heldout ask"):
        run_detectors(replace(tables, answers=None), ["twin-drop"], QUICK)
    outcomes, checks = run_detectors(tables, (), QUICK)
    assert not checks
    assert {one.detector for one in outcomes} <= {
        "combined",
        "twin-drop",
        "twin-memory",
        "twin-margin",
        "circular",
        "option-order",
        "option-margin",
        "choice-confusion",
        "slot-guess",
        "ngram-accuracy",
        "multimodal-leakage",
        "fresh-drop",
    }


def test_pairs_that_lack_an_answer_are_counted_by_variant_and_model() -> None:
    tables = answers_of(
        {
            ("all", "original"): "1" * 12,
            ("all", "shuffle-1"): "1" * 12,
            ("all", "shuffle-2"): "1" * 12,
            ("cut", "original"): "1" * 12,
            ("cut", "shuffle-1"): "1" * 6,
            ("cut", "shuffle-2"): "0" * 8,
            ("once", "original"): "1" * 12,
            ("once", "shuffle-1"): "1" * 12,
        }
    )
    found = pairs_recorded(option_order.PROBE, tables, DetectSettings(), ["all", "cut", "once"])
    assert found["all"] == {"recorded": 24, "possible": 24}
    assert found["cut"] == {"recorded": 14, "possible": 24}
    assert found["once"] == {"recorded": 12, "possible": 12}  # fewer shuffles are no gap


def test_options_that_nobody_reordered_are_a_gap_unless_they_refer_to_their_places() -> None:
    tables = answers_of({("m", "original"): "1" * 12, ("m", "shuffle-1"): "1" * 6})
    assert (
        pairs_recorded(option_order.PROBE, tables, DetectSettings(), ["m"])["m"]["possible"] == 12
    )
    assert tables.answers is not None
    late = pl.col("benchmark_id") >= "q006"
    said = pl.when(late).then(pl.lit(["a", "all of the above"])).otherwise("options")
    bound = replace(tables, answers=tables.answers.with_columns(said.alias("options")))
    assert pairs_recorded(option_order.PROBE, bound, DetectSettings(), ["m"])["m"]["possible"] == 6
