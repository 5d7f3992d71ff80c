"""twin-drop: paired, clustered, against references, with every reply accounted for."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from behaviour_answers import answers_of

from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables, run_detectors
from heldout.errors import InputError
from heldout.lab.power.planted_answers import ASKED, BASELINE, REFERENCE, TARGET, planted_answers
from heldout.stats.paired import mcnemar

QUICK = DetectSettings(permutations=999)


def _outcomes(
    tables: ScoreTables, settings: DetectSettings = QUICK, name: str = "twin-drop"
) -> list[Outcome]:
    return run_detectors(tables, [name], settings)[0]


def _of(tables: ScoreTables, model: str, settings: DetectSettings = QUICK) -> Finding:
    found = next(one for one in _outcomes(tables, settings) if one.cell.model == model)
    assert isinstance(found, Finding), found
    return found


def test_the_table_and_its_tests() -> None:
    found = _of(
        answers_of(
            {("m", "original"): "1" * 16 + "0" * 4, ("m", "twin"): "1" * 6 + "0" * 10 + "1000"}
        ),
        "m",
    )
    assert found.details["table"] == {
        "both right": 6,
        "original alone": 10,
        "twin alone": 1,
        "neither": 3,
    }
    assert found.p == mcnemar(10, 1).exact == found.details["mcnemar"]["exact"]
    assert found.details["mcnemar"]["mid_p"] < found.p
    assert found.statistic.value == pytest.approx(7 / 20 - 16 / 20)
    assert found.effect.value == -found.statistic.value  # higher means more likely seen
    assert found.direction == "seen"
    needed = found.details["pairs_needed"]
    assert needed["0.02"] > needed["0.05"] > needed["0.1"] > needed["0.2"]


def test_questions_of_one_image_are_one_observation() -> None:
    outcomes = {("m", "original"): "1" * 24, ("m", "twin"): "0" * 8 + "1" * 16}
    alone = _of(answers_of(outcomes), "m")
    shared = _of(answers_of(outcomes, images=[place // 4 for place in range(24)]), "m")
    assert alone.p is not None
    assert alone.p < 0.05
    assert shared.p is not None
    assert shared.p > 0.2  # two images of six
    assert shared.clusters == 6
    assert not shared.details["mcnemar"]["items_independent"]


def test_what_was_asked_in_one_form_alone_is_counted_and_not_compared() -> None:
    found = _of(answers_of({("m", "original"): "1111111100", ("m", "twin"): "0000 0 110"}), "m")
    assert (found.n, found.details["unpaired"]) == (8, 2)
    assert found.details["not_in_benchmark"] == 0


def test_answers_to_items_the_benchmark_does_not_have_are_counted() -> None:
    tables = answers_of({("m", "original"): "1" * 12, ("m", "twin"): "0" * 12})
    found = _of(replace(tables, items=tables.items.head(9)), "m")
    assert (found.n, found.details["not_in_benchmark"]) == (9, 3)


def test_unreadable_replies_are_wrong_or_left_out_and_both_are_told() -> None:
    twins = "?" * 9 + "x" + "1" * 20
    found = _of(answers_of({("m", "original"): "1" * 30, ("m", "twin"): twins}), "m")
    assert found.direction == "seen"
    assert found.details["unread"] == {"twin": {"refused": 1, "unparsed": 9}}
    without = found.details["without_unread"]
    assert (without["n"], without["value"], without["direction"]) == (20, 0.0, "none")
    read = _of(answers_of({("m", "original"): "1" * 30, ("m", "twin"): "0" * 10 + "1" * 20}), "m")
    assert read.details["without_unread"] is None


def test_a_little_memory_shows_only_against_a_reference() -> None:
    tables = planted_answers(5, dose=0.7, easier=1.5, clusters=120)
    alone = _of(tables, TARGET, QUICK.model_copy(update={"baselines": ()}))
    assert alone.direction != "seen"
    assert alone.statistic.value > -0.05
    against = _of(tables, TARGET, QUICK.model_copy(update={"baselines": (BASELINE, REFERENCE)}))
    assert against.direction == "seen"
    assert set(against.details["references"]) == {BASELINE, REFERENCE}
    assert against.details["own"]["value"] == pytest.approx(alone.effect.value)
    assert "references" in against.effect.name


def test_both_arms_must_have_seen_the_same_prompt() -> None:
    tables = answers_of(
        {
            ("m", "original"): "1" * 9,
            ("m", "twin"): "0" * 9,
            ("r", "original"): "1" * 9,
            ("r", "twin"): "1" * 9,
        }
    )
    assert tables.answers is not None
    twin_of_m = (pl.col("variant") == "twin") & (pl.col("model") == "m")
    other = pl.when(twin_of_m).then(pl.lit("letters/2")).otherwise("template").alias("template")
    (found,) = (
        one
        for one in _outcomes(replace(tables, answers=tables.answers.with_columns(other)))
        if one.cell.model == "m"
    )
    assert isinstance(found, NotTestable)
    assert "letters/1 and letters/2" in found.reason
    of_r = (
        pl.when(pl.col("model") == "r")
        .then(pl.lit("cot/1"))
        .otherwise("template")
        .alias("template")
    )
    mixed = replace(tables, answers=tables.answers.with_columns(of_r))
    found = _of(mixed, "m", QUICK.model_copy(update={"baselines": ("r",)}))
    assert "another template" in found.details["references_unusable"]["r"]


def test_kinds_of_item_may_have_templates_of_their_own() -> None:
    tables = answers_of(
        {
            ("m", "original"): "1" * 9,
            ("m", "twin"): "0" * 7,
            ("r", "original"): "1" * 9,
            ("r", "twin"): "1" * 9,
        }
    )
    assert tables.answers is not None
    kind = pl.when(pl.col("benchmark_id") > "q006").then(pl.lit("open/1")).otherwise("template")
    mixed = replace(tables, answers=tables.answers.with_columns(kind.alias("template")))
    found = _of(
        mixed, "m", QUICK.model_copy(update={"baselines": ("r",)})
    )  # no open item has a twin
    assert found.n == 7
    assert not found.details["references_unusable"]


def test_natural_twins_are_another_set_of_twins() -> None:
    tables = answers_of(
        {("m", "original"): "1" * 9, ("m", "twin"): "0" * 9, ("m", "twin-natural"): "1" * 9}
    )
    found = [one.id for one in _outcomes(tables)]
    assert found == ["twin-drop/m", "twin-drop/m/twin-natural"]


def test_categories_are_corrected_together_and_small_ones_only_counted() -> None:
    tables = answers_of({("m", "original"): "1" * 40, ("m", "twin"): "01" * 20})
    parts = _of(tables, "m", QUICK.model_copy(update={"category": "kind"})).details["categories"]
    assert parts["even"]["value"] == 1.0
    assert parts["odd"]["value"] == 0.0
    assert parts["even"]["p_adjusted"] == pytest.approx(2 * parts["even"]["p"])
    few = answers_of({("m", "original"): "1" * 12, ("m", "twin"): "01" * 6})
    assert _of(few, "m", QUICK.model_copy(update={"category": "kind"})).details["categories"][
        "odd"
    ] == {
        "n": 6,
        "clusters": 6,
    }


def test_draws_are_averaged_and_then_there_is_no_table() -> None:
    tables = answers_of({("m", "original"): "1" * 12, ("m", "twin"): "1" * 12})
    assert tables.answers is not None
    second = tables.answers.with_columns(
        pl.lit(1, dtype=pl.Int32).alias("draw"),
        pl.when(pl.col("variant") == "twin")
        .then(pl.lit("wrong"))
        .otherwise("outcome")
        .alias("outcome"),
    )
    found = _of(replace(tables, answers=pl.concat([tables.answers, second])), "m")
    assert found.effect.value == 0.5
    assert found.details["table"] is None
    assert found.details["mcnemar"] is None
    assert found.direction == "seen"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: pl.concat([frame, frame.head(1)]), "two rows for one item"),
        (lambda frame: frame.with_columns(pl.lit("maybe").alias("outcome")), "the outcome 'maybe'"),
    ],
)
def test_a_broken_table_is_a_sentence(change: object, told: str) -> None:
    tables = answers_of({("m", "original"): "1" * 9, ("m", "twin"): "0" * 9})
    with pytest.raises(InputError, match=told):
        _outcomes(replace(tables, answers=change(tables.answers)))  # type: ignore[operator]


def test_consistency_needs_known_degrees_and_models() -> None:
    tables = planted_answers(5, dose=1.5)
    (found,) = _outcomes(tables, ASKED.model_copy(update={"permutations": 999}), "twin-consistency")
    assert isinstance(found, Finding)
    assert found.direction == "seen"
    assert found.details["monotone"]
    assert not _outcomes(tables, QUICK, "twin-consistency")
    with pytest.raises(InputError, match="^degrees gpt: "):
        _outcomes(tables, QUICK.model_copy(update={"degrees": (("gpt", 3.0),)}), "twin-consistency")
    (same,) = _outcomes(
        tables,
        QUICK.model_copy(update={"degrees": ((TARGET, 1.0), (BASELINE, 1.0))}),
        "twin-consistency",
    )
    assert isinstance(same, NotTestable)


def test_too_few_images_are_not_tested() -> None:
    (found,) = _outcomes(answers_of({("m", "original"): "1111", ("m", "twin"): "0000"}))
    assert isinstance(found, NotTestable)
    assert "at least 5" in found.reason
