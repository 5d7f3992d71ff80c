"""twin-memory: the old answer among wrong replies to twins, against references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from behaviour_answers import answers_of

from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables, run_detectors
from heldout.detect.behaviour import twin_memory
from heldout.lab.power.planted_answers import ASKED, TARGET, planted_answers
from heldout.verdict import examine
from verdict_recipes import (
    MODEL,
    Recording,
    alike,
    looked_at_by,
    remembered,
    subtle,
    unanswerable,
)
from verdicts import counted_claims, detected, examined

QUICK = DetectSettings(permutations=999, baselines=("r",))


def _replies(
    replies: Mapping[str, str],
    *,
    gold: str = "B",
    options: list[str] | None = None,
    images: list[int] | None = None,
) -> ScoreTables:
    """By model the letter that it replies to each twin, whose answer is ``gold``; on originals it is A."""
    codes = {
        model: "".join(
            "1" if letter == gold else letter if letter in "?x" else "0" for letter in text
        )
        for model, text in replies.items()
    }
    originals = {(model, "original"): "1" * len(text) for model, text in replies.items()}
    twins = {(model, "twin"): text for model, text in codes.items()}
    tables = answers_of({**originals, **twins}, images=images)
    assert tables.answers is not None
    parsed = [
        "A" if variant == "original" else replies[model][int(item[1:])].replace("?", "")
        for item, model, variant in tables.answers.select(
            "benchmark_id", "model", "variant"
        ).iter_rows()
    ]
    is_twin = pl.col("variant") == "twin"
    shown = pl.lit(options) if options else pl.col("options")
    answers = tables.answers.with_columns(
        pl.Series("parsed", parsed),
        pl.when(is_twin).then(pl.lit(gold)).otherwise("gold").alias("gold"),
        pl.when(is_twin).then(shown).otherwise("options").alias("options"),
    )
    return replace(tables, answers=answers)


def _outcome(tables: ScoreTables, settings: DetectSettings = QUICK, model: str = "m") -> Outcome:
    outcomes, _ = run_detectors(tables, ["twin-memory"], settings)
    return next(outcome for outcome in outcomes if outcome.cell.model == model)


def _finding(tables: ScoreTables, settings: DetectSettings = QUICK, model: str = "m") -> Finding:
    finding = _outcome(tables, settings, model)
    assert isinstance(finding, Finding), finding
    return finding


def test_the_share_is_of_wrong_replies_and_compared_with_the_reference() -> None:
    tables = _replies(
        {"m": "A" * 30 + "C" * 10 + "B" * 20, "r": "A" * 10 + "C" * 10 + "D" * 10 + "B" * 30}
    )
    finding = _finding(tables)
    assert finding.statistic.value == pytest.approx(30 / 40)
    assert finding.effect.value == pytest.approx(30 / 40 - 10 / 30)
    assert finding.effect.low < finding.effect.value < finding.effect.high
    assert finding.direction == "seen"
    shares = finding.details["old_answer"]["among_wrong"]
    assert shares == {"m": pytest.approx(0.75), "r": pytest.approx(1 / 3)}
    assert finding.details["old_answer"]["of_all_replies"] == pytest.approx(0.5)
    assert finding.n == 40  # items that one of them answers wrong


def test_more_wrong_replies_are_no_sign_if_the_old_answer_is_not_among_them_more_often() -> None:
    worse = _finding(_replies({"m": "ACD" * 40, "r": ("ACD" + "B" * 9) * 10}))
    assert worse.effect.value == pytest.approx(0.0, abs=1e-9)
    assert worse.direction == "none"


def test_without_a_reference_there_is_a_share_and_no_p() -> None:
    finding = _finding(
        _replies({"m": "A" * 30 + "CD" * 5}), QUICK.model_copy(update={"baselines": ()})
    )
    assert finding.p is None
    assert finding.direction == "none"
    assert finding.effect.value > 0.3
    assert "chance" in finding.effect.name


def test_kinds_of_item_are_compared_apart() -> None:
    """The model is wrong on items with options, the reference on open ones: in either kind both are alike."""
    tables = _replies({"m": "ACD" * 20 + "C" * 6 + "B" * 54, "r": "ACD" * 2 + "B" * 54 + "C" * 60})
    assert tables.answers is not None
    is_open, is_twin = pl.col("benchmark_id") >= "q060", pl.col("variant") == "twin"
    texts = pl.col("parsed").replace({"A": "heart", "B": "liver", "C": "bone", "D": "lung"})
    gold = pl.when(is_twin).then(pl.lit("liver")).otherwise(pl.lit("heart"))
    answers = tables.answers.with_columns(
        pl.when(is_open).then(texts).otherwise("parsed").alias("parsed"),
        pl.when(is_open).then(gold).otherwise("gold").alias("gold"),
        pl.when(is_open).then(pl.lit([], pl.List(pl.String))).otherwise("options").alias("options"),
    )
    finding = _finding(replace(tables, answers=answers))
    shares = finding.details["old_answer"]["among_wrong"]
    assert shares == {"m": pytest.approx(20 / 66), "r": pytest.approx(2 / 66)}
    assert finding.effect.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "gold", "offered"),
    [
        (["option 0", "option 1", "another"], "B", True),
        (["another", "option 0.", "option 1"], "C", True),
        (["option 9", "option 1", "another"], "B", False),  # the old answer is gone
        (["option 0", "option 1"], "B", False),  # nothing else is wrong
        (["option 0", "option 1", "another"], "A", False),  # it is right again
    ],
)
def test_only_twins_that_offer_the_old_answer_beside_another_wrong_one_count(
    options: list[str], gold: str, offered: bool
) -> None:
    other = "A" if gold != "A" else "C"
    tables = _replies({"m": other * 20, "r": other * 20}, options=options, gold=gold)
    outcome = _outcome(tables)
    assert isinstance(outcome, Finding) == offered
    if isinstance(outcome, NotTestable):
        assert outcome.reason == twin_memory.NOT_OFFERED


def test_the_old_answer_moves_with_its_option() -> None:
    tables = _replies(
        {"m": "C" * 20 + "D" * 10, "r": "AD" * 15}, options=["w", "x", "option 0", "y"]
    )
    assert _finding(tables).statistic.value == pytest.approx(20 / 30)


def test_open_items_are_read_as_the_benchmark_grades_them() -> None:
    tables = _replies({"m": "A" * 40, "r": "C" * 40})
    assert tables.answers is not None
    is_twin, mine = pl.col("variant") == "twin", pl.col("model") == "m"
    said = pl.when(mine).then(pl.lit("The left lung.")).otherwise(pl.lit("liver"))
    answers = tables.answers.with_columns(
        pl.lit([], dtype=pl.List(pl.String)).alias("options"),
        pl.when(is_twin).then(pl.lit("right lung")).otherwise(pl.lit("left lung")).alias("gold"),
        pl.when(is_twin).then(said).otherwise(pl.lit("left lung")).alias("parsed"),
    )
    finding = _finding(replace(tables, answers=answers))
    assert finding.details["old_answer"]["among_wrong"] == {"m": 1.0, "r": 0.0}
    assert finding.effect.value == pytest.approx(1.0)
    closed = answers.with_columns(
        pl.when(is_twin).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("gold")
    )
    outcome = _outcome(replace(tables, answers=closed))
    assert isinstance(outcome, NotTestable)


def test_replies_that_are_not_recorded_are_said() -> None:
    tables = answers_of({("m", "original"): "1" * 9, ("m", "twin"): "0" * 9}, gold="A")
    assert tables.answers is not None
    moved = pl.when(pl.col("variant") == "twin").then(pl.lit("B")).otherwise("gold").alias("gold")
    outcome = _outcome(
        replace(tables, answers=tables.answers.with_columns(moved)), DetectSettings()
    )
    assert isinstance(outcome, NotTestable)
    assert outcome.reason == twin_memory.NO_REPLIES
    empty = _replies({"m": "A" * 9 + "B" * 9, "r": "ABC" * 6})
    assert empty.answers is not None
    lost = pl.when(pl.col("outcome") == "right").then("parsed").alias("parsed")
    outcome = _outcome(replace(empty, answers=empty.answers.with_columns(lost)))
    assert isinstance(outcome, NotTestable)
    assert outcome.reason == twin_memory.NO_REPLIES


def test_replies_of_which_none_can_be_read_are_not_tested() -> None:
    outcome = _outcome(_replies({"m": "?" * 20, "r": "ACD" * 6 + "BB"}))
    assert isinstance(outcome, NotTestable)
    assert "20 replies of m" in outcome.reason


def test_models_that_answer_every_twin_are_not_tested() -> None:
    outcome = _outcome(_replies({"m": "B" * 36 + "ACAC", "r": "ABC" * 13 + "A"}))
    assert isinstance(outcome, NotTestable)
    assert "fewer than 5 images" in outcome.reason


def test_a_favourite_place_is_taken_out() -> None:
    """The model replies A to whatever it cannot answer, and A is the old answer of all but a few."""
    rng = np.random.default_rng(0)
    n = 160
    old, gold = rng.choice(4, n, p=(0.7, 0.1, 0.1, 0.1)), np.full(n, 1)
    gold = np.where(old == 1, 2, gold)
    shown = [[f"option {(place - where) % 4}" for place in range(4)] for where in old]
    frames = {}
    for model, likes in (("m", 0.9), ("r", 0.0)):
        others = [[p for p in range(4) if p != right] for right in gold]
        said = [row[int(rng.integers(3))] for row in others]
        frames[model] = np.where(rng.random(n) < likes, 0, said)
    base = _replies({"m": "A" * n, "r": "A" * n})
    assert base.answers is not None
    letters = np.asarray(list("ABCD"))
    rows = []
    for model, said in frames.items():
        part = base.answers.filter(pl.col("model") == model, pl.col("variant") == "twin")
        rows.append(
            part.sort("benchmark_id").with_columns(
                pl.Series("options", shown),
                pl.Series("gold", letters[gold]),
                pl.Series("parsed", letters[said]),
            )
        )
    originals = base.answers.filter(pl.col("variant") == "original")
    finding = _finding(replace(base, answers=pl.concat([originals, *rows])))
    assert finding.direction == "seen"
    assert finding.details["place_taken_out"]["value"] < 0.4 * finding.effect.value
    assert finding.details["place_taken_out"]["direction"] == "none"


def test_unreadable_replies_count_as_wrong_and_are_left_out() -> None:
    tables = _replies({"m": "A" * 20 + "?" * 20, "r": "ACD" * 13 + "A"})
    finding = _finding(tables)
    assert finding.statistic.value == pytest.approx(0.5)
    assert finding.details["without_unread"]["value"] > finding.effect.value
    assert finding.details["unread"] == {"twin": {"unparsed": 20}}


def test_twins_that_show_the_original_are_left_out() -> None:
    tables = _replies({"m": "A" * 10 + "C" * 20, "r": "ACD" * 10})
    spoilt = replace(tables, unchanged={"twin": frozenset(f"q{place:03d}" for place in range(10))})
    finding = _finding(spoilt)
    assert finding.statistic.value == 0.0
    assert finding.details["twins_unchanged"]["count"] == 10


def test_natural_twins_are_another_set_of_twins() -> None:
    tables = _replies({"m": "A" * 20, "r": "ACD" * 6 + "CD"})
    assert tables.answers is not None
    other = pl.col("variant").str.replace("^twin$", "twin-natural").alias("variant")
    twins = tables.answers.filter(pl.col("variant") == "twin").with_columns(other)
    both = replace(tables, answers=pl.concat([tables.answers, twins]))
    outcomes, _ = run_detectors(both, ["twin-memory"], QUICK)
    ids = [outcome.id for outcome in outcomes if outcome.cell.model == "m"]
    assert ids == ["twin-memory/m", "twin-memory/m/twin-natural"]


def test_images_are_the_unit() -> None:
    """The same replies on a fifth of the images say less."""
    replies = {"m": "A" * 30 + "C" * 30, "r": "ACD" * 20}
    alone = _finding(_replies(replies))
    shared = _finding(_replies(replies, images=[place // 5 for place in range(60)]))
    assert shared.effect.value == pytest.approx(alone.effect.value)
    assert shared.clusters == 12
    assert shared.effect.high - shared.effect.low > 1.3 * (alone.effect.high - alone.effect.low)


def test_planted_memory_is_seen_by_what_the_model_falls_for() -> None:
    settings = ASKED.model_copy(update={"permutations": 999})
    finding = _finding(planted_answers(2, dose=2.0), settings, TARGET)
    assert finding.direction == "seen"
    assert finding.details["both_wrong"]["direction"] == "seen"


# The verdict


def _by_memory(recording: Recording) -> Recording:
    return looked_at_by("twin-memory", recording)


def test_twins_that_nobody_can_answer_do_not_look_like_memory() -> None:
    """The better model drops most, and gives the old answer no more often."""
    for seed in range(3):
        recording = unanswerable(seed, share=0.75, better=1.6, references=3, lineages=3)
        (drop,) = (f for f in examined(recording)[0].findings if f.cell.model == MODEL)
        (memory,) = (
            f for f in examined(_by_memory(recording))[0].findings if f.cell.model == MODEL
        )
        assert drop.direction == "seen"
        assert abs(memory.effect.value) < 0.15


@pytest.mark.parametrize("recipe", [subtle, alike])
def test_twins_that_look_like_their_originals_do_not_convict_a_better_model(recipe: object) -> None:
    for seed in (0, 1):
        recording = _by_memory(recipe(seed, better=1.6))  # type: ignore[operator]
        (claim,) = counted_claims(recording, examined(recording))
        assert claim.status != "survives"


def test_items_that_both_answer_wrong_have_to_agree() -> None:
    """Where the pull of hard twins makes the difference, it is gone item by item."""
    recording = _by_memory(subtle(0, better=1.6, n=2000))
    (examination,) = examined(recording)
    (finding,) = (f for f in examination.findings if f.cell.model == MODEL)
    assert finding.direction == "seen"
    (claim,) = counted_claims(recording, [examination])
    assert claim.status == "qualified"
    outcomes = {control.name: control.outcome for control in claim.controls}
    assert outcomes["items that both answer wrong"] == "failed"


def test_remembered_answers_survive_beside_three_families() -> None:
    recording = _by_memory(remembered(1, known=0.4))
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status == "survives"
    assert claim.findings and claim.findings[0].startswith("twin-memory/")
    names = {control.name for control in claim.controls}
    assert names >= {
        "spread of clean models",
        "skill of the references",
        "place of the right option",
        "items that both answer wrong",
    }
    (recorded,) = counted_claims(recording, detected(recording))  # from a run folder
    assert (recorded.status, recorded.sentence) == (claim.status, claim.sentence)
    one = _by_memory(remembered(1, known=0.4, references=1, lineages=1))
    (claim,) = counted_claims(one, examined(one))
    assert claim.status == "qualified"


def test_without_references_a_share_settles_nothing() -> None:
    tables = _replies({"m": "A" * 40})
    (claim,) = examine(tables, ["twin-memory"], DetectSettings(permutations=999)).claims
    assert claim.status == "qualified"
    assert "40 of 40 wrong replies" in claim.sentence
