"""twin-margin and option-margin: probabilities of options, on both pictures and in both orders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from behaviour_answers import answers_of, finding_of, outcome_of

import heldout
from heldout.detect import DetectSettings, Finding, NotTestable, Outcome, ScoreTables, run_detectors
from heldout.detect.behaviour import margins
from heldout.errors import InputError
from heldout.lab.power.planted_answers import ASKED, TARGET, planted_answers, scored_twins
from verdict_recipes import (
    MODEL,
    TWINS,
    Recording,
    faint,
    looked_at_by,
    published,
    remembered,
    unanswerable,
)
from verdicts import counted_claims, detected, examined

QUICK = DetectSettings(permutations=999, baselines=("r",))
Chances = Sequence[float]  # of the options A, B, C, D; A is right on originals, B on twins


def _tables(
    chances: Mapping[str, tuple[Chances, Chances]], n: int = 24, images: list[int] | None = None
) -> ScoreTables:
    """By model the probabilities of four options on every original, and on every twin."""
    names = {(model, variant): "1" * n for model in chances for variant in ("original", "twin")}
    tables = answers_of(names, images=images)
    assert tables.answers is not None
    rng = np.random.default_rng(0)
    logprobs = []
    for model, variant in tables.answers.select("model", "variant").iter_rows():
        shown = np.asarray(chances[model][variant == "twin"])
        noisy = np.log(shown) + 1e-3 * rng.normal(size=4)  # no two items are quite alike
        logprobs.append((noisy - 0.7).tolist())  # letters need not sum to 1
    gold = pl.when(pl.col("variant") == "twin").then(pl.lit("B")).otherwise(pl.lit("A"))
    answers = tables.answers.with_columns(
        gold.alias("gold"), pl.Series("choice_logprobs", logprobs)
    )
    return replace(tables, answers=answers)


def _outcome(
    tables: ScoreTables,
    settings: DetectSettings = QUICK,
    model: str = "m",
    name: str = "twin-margin",
) -> Outcome:
    return outcome_of(name, tables, settings, model)


def _finding(
    tables: ScoreTables,
    settings: DetectSettings = QUICK,
    model: str = "m",
    name: str = "twin-margin",
) -> Finding:
    return finding_of(name, tables, settings, model)


SEES = ((0.7, 0.1, 0.1, 0.1), (0.1, 0.7, 0.1, 0.1))
GUESSES = ((0.25,) * 4, (0.25,) * 4)
REMEMBERS = ((0.8, 0.1, 0.05, 0.05), (0.5, 0.4, 0.05, 0.05))


def test_the_margin_is_of_old_and_new_answer_on_both_pictures() -> None:
    finding = _finding(_tables({"m": REMEMBERS, "r": SEES}))
    # half of (.8 - .1) + (.5 - .4); the reference has (.7 - .1) + (.1 - .7)
    assert finding.effect.value == pytest.approx(0.4, abs=1e-3)
    assert finding.direction == "seen"
    assert finding.details["own"]["value"] == pytest.approx(0.4, abs=1e-3)
    margin = finding.details["margin"]
    assert margin["original"]["value"] == pytest.approx(0.85, abs=1e-3)
    assert margin["twin"]["value"] == pytest.approx(0.45, abs=1e-3)
    shown = np.log(0.8 / 0.1) + np.log(0.5 / 0.4) - (np.log(7) - np.log(7))
    assert finding.details["nats"]["value"] == pytest.approx(shown, abs=1e-2)
    assert finding.details["wrong_options"]["value"] == pytest.approx(0.5 / 0.6 - 1 / 3, abs=1e-2)


def test_skill_cancels() -> None:
    finding = _finding(_tables({"m": SEES, "r": GUESSES}))
    assert finding.effect.value == pytest.approx(0.0, abs=1e-3)
    assert finding.details["wrong_options"]["value"] == pytest.approx(0.0, abs=1e-2)


def test_letters_that_a_server_did_not_list_are_as_likely_as_its_least_at_most() -> None:
    listed = margins.chances([-0.1, None, -3.0, None], 4)
    assert listed is not None
    assert listed == pytest.approx(np.exp([-0.1, -3.0, -3.0, -3.0]) / listed_sum())
    assert margins.chances([None, None], 2) is None
    assert margins.chances([-1.0], 2) is None
    assert margins.chances(None, 4) is None


def listed_sum() -> float:
    return float(np.exp([-0.1, -3.0, -3.0, -3.0]).sum())


def test_answers_are_found_by_their_words_wherever_they_stand() -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    twin = pl.col("variant") == "twin"
    options = ["option 2", "option 0", "option 3", "option 1"]  # C, A, D, B of the original
    turned = pl.concat_list([pl.col("choice_logprobs").list.get(place) for place in (2, 0, 3, 1)])
    answers = tables.answers.with_columns(
        pl.when(twin).then(pl.lit(options)).otherwise("options").alias("options"),
        pl.when(twin).then(turned).otherwise("choice_logprobs").alias("choice_logprobs"),
        pl.when(twin).then(pl.lit("D")).otherwise("gold").alias("gold"),
    )
    moved = _finding(replace(tables, answers=answers))
    assert moved.effect.value == pytest.approx(_finding(tables).effect.value)


@pytest.mark.parametrize(
    ("options", "gold"),
    [
        (["option 9", "option 1", "x", "y"], "B"),  # the old answer is gone
        (["option 0", "new", "x", "y"], "B"),  # the original does not offer the new one
        (["option 0", "option 1", "x", "y"], "A"),  # the same answer is right
        ([], "liver"),
    ],
)
def test_items_that_do_not_offer_both_answers_are_not_tested(options: list[str], gold: str) -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    twin = pl.col("variant") == "twin"
    answers = tables.answers.with_columns(
        pl.when(twin)
        .then(pl.lit(options, dtype=pl.List(pl.String)))
        .otherwise("options")
        .alias("options"),
        pl.when(twin).then(pl.lit(gold)).otherwise("gold").alias("gold"),
    )
    outcome = _outcome(replace(tables, answers=answers))
    assert isinstance(outcome, NotTestable)
    assert outcome.reason == margins.NOT_OFFERED


def test_answers_without_log_probabilities_say_how_to_record_them() -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    for answers in (
        tables.answers.drop("choice_logprobs"),
        tables.answers.with_columns(choice_logprobs=pl.lit(None, dtype=pl.List(pl.Float64))),
    ):
        outcome = _outcome(replace(tables, answers=answers))
        assert isinstance(outcome, NotTestable)
        assert outcome.reason == margins.NOT_RECORDED


def test_items_whose_log_probabilities_lack_are_counted_as_not_recorded() -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    lost = (pl.col("benchmark_id") < "q006") & (pl.col("model") == "m")
    answers = tables.answers.with_columns(
        pl.when(lost).then(None).otherwise("choice_logprobs").alias("choice_logprobs")
    )
    finding = _finding(replace(tables, answers=answers))
    assert finding.n == 18
    assert finding.details["pairs_recorded"]["m"] == {"recorded": 18, "possible": 24}
    assert finding.details["pairs_recorded"]["r"] == {"recorded": 24, "possible": 24}


def test_unreadable_replies_are_left_out_as_well() -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    mumbled = (pl.col("benchmark_id") < "q006") & (pl.col("model") == "m")
    answers = tables.answers.with_columns(
        pl.when(mumbled).then(pl.lit("unparsed")).otherwise("outcome").alias("outcome")
    )
    finding = _finding(replace(tables, answers=answers))
    assert (finding.n, finding.details["without_unread"]["n"]) == (24, 18)


def test_images_are_the_unit() -> None:
    images = [place // 4 for place in range(24)]
    finding = _finding(_tables({"m": REMEMBERS, "r": SEES}, images=images))
    assert (finding.n, finding.clusters) == (24, 6)
    assert finding.details["least_p"] == pytest.approx(2 / 2**6)


def test_a_reference_of_another_set_of_twins_is_another_finding() -> None:
    tables = _tables({"m": REMEMBERS, "r": SEES})
    assert tables.answers is not None
    natural = tables.answers.filter(pl.col("variant") == "twin").with_columns(
        variant=pl.lit("twin-natural")
    )
    outcomes, _ = run_detectors(
        replace(tables, answers=pl.concat([tables.answers, natural])), ["twin-margin"], QUICK
    )
    ids = [outcome.id for outcome in outcomes if outcome.cell.model == "m"]
    assert ids == ["twin-margin/m", "twin-margin/m/twin-natural"]


def test_planted_memory_is_seen() -> None:
    settings = ASKED.model_copy(update={"permutations": 999})
    tables = planted_answers(2, dose=1.0)
    for name in ("twin-margin", "option-margin"):
        assert _finding(tables, settings, TARGET, name).direction == "seen"


# Options


def test_the_probability_of_the_right_option_is_compared_between_orders() -> None:
    """In the released order the model is surer by .2, whatever the place; the reference is not."""
    n = 32
    codes = {
        (model, variant): "1" * n for model in ("m", "r") for variant in ("original", "shuffle-1")
    }
    tables = answers_of(codes)
    assert tables.answers is not None
    rng = np.random.default_rng(1)
    gold, logprobs = [], []
    for model, variant in tables.answers.select("model", "variant").iter_rows():
        place = int(rng.integers(4))
        chance = 0.7 if (model, variant) == ("m", "original") else 0.5
        row = np.full(4, (1 - chance) / 3)
        row[place] = chance
        gold.append("ABCD"[place])
        logprobs.append(np.log(row).tolist())
    answers = tables.answers.with_columns(
        pl.Series("gold", gold), pl.Series("choice_logprobs", logprobs)
    )
    words = ["liver", "spleen", "kidney", "heart"]
    answers = answers.with_columns(pl.lit(words).alias("options"))
    finding = _finding(replace(tables, answers=answers), name="option-margin")
    assert finding.effect.value == pytest.approx(0.2, abs=0.01)
    assert finding.direction == "seen"
    assert finding.details["probability"]["as released"]["value"] == pytest.approx(0.7)


# The verdict


def _by_margin(recording: Recording) -> Recording:
    return looked_at_by("twin-margin", recording)


def test_twins_that_nobody_can_answer_do_not_convict_a_better_model() -> None:
    """The margin drops as accuracy does, and no wrong option of the twin is preferred."""
    for seed in (0, 1):
        recording = _by_margin(unanswerable(seed, share=0.75, better=1.6, references=3, lineages=3))
        (examination,) = examined(recording)
        (finding,) = (f for f in examination.findings if f.cell.model == MODEL)
        assert finding.direction == "seen"
        assert abs(finding.details["wrong_options"]["value"]) < 0.1
        (claim,) = counted_claims(recording, [examination])
        assert claim.status == "qualified"


def test_remembered_answers_survive_beside_three_families() -> None:
    recording = _by_margin(remembered(1, known=0.2))
    (claim,) = counted_claims(recording, examined(recording))
    assert claim.status == "survives"
    assert "from original to twin" in claim.sentence
    (recorded,) = counted_claims(recording, detected(recording))  # from a run folder
    assert (recorded.status, recorded.sentence) == (claim.status, claim.sentence)
    one = _by_margin(remembered(1, known=0.2, references=1, lineages=1))
    (claim,) = counted_claims(one, examined(one))
    assert claim.status == "qualified"


def test_a_lean_that_changes_few_replies_shows_in_the_margin() -> None:
    """Of two simulated models it is seen in both, and by right answers alone in one."""
    seen = dict.fromkeys(("twin-drop", "twin-margin"), 0)
    for seed in (1, 2):
        for name in seen:
            recording = looked_at_by(name, faint(seed, nats=0.8))
            (examination,) = examined(recording)
            (finding,) = (f for f in examination.findings if f.cell.model == MODEL)
            seen[name] += finding.direction == "seen"
    assert seen == {"twin-drop": 1, "twin-margin": 2}


def test_a_better_model_that_prefers_the_old_answer_among_wrong_ones_passes_the_control() -> None:
    sees = ((0.9, 0.04, 0.03, 0.03), (0.25, 0.7, 0.03, 0.02))
    weak = ((0.4, 0.2, 0.2, 0.2), (0.2, 0.4, 0.2, 0.2))
    references = ("r", "s", "t")
    tables = _tables({"m": sees, **dict.fromkeys(references, weak)})
    settings = DetectSettings.read(
        {"permutations": 999, "baselines": references, "families": {n: n for n in references}}
    )
    claims = heldout.verdict.examine(tables, ["twin-margin"], settings).claims
    controls = {c.name: c for claim in claims if claim.cell.model == "m" for c in claim.controls}
    skill = controls["skill of the references"]
    assert skill.outcome == "passed"
    assert "their wrong options" in skill.reason


# Recorded files


def _files(folder: Path, logprobs: object) -> tuple[Path, Path]:
    options = ["red", "green", "blue"]
    items = [
        {
            "id": f"i{n}",
            "question": f"Which colour is thing {n}?",
            "options": options,
            "answer": "A",
        }
        for n in range(4)
    ]
    rows = [{"id": f"i{n}", "prediction": "A", "choice_logprobs": logprobs} for n in range(4)]
    bench, answers = folder / "bench.jsonl", folder / "answers.jsonl"
    bench.write_text("".join(json.dumps(item) + "\n" for item in items))
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bench, answers


@pytest.mark.parametrize("logprobs", [[-0.1, None, -3], "[-0.1, null, -3]"])
def test_recorded_answers_keep_their_log_probabilities(tmp_path: Path, logprobs: object) -> None:
    bench, answers = _files(tmp_path, logprobs)
    run = heldout.ask(bench, recorded=answers, name="m", run=tmp_path / "run").run
    assert run.frame("answers")["choice_logprobs"].to_list() == [[-0.1, None, -3.0]] * 4


@pytest.mark.parametrize(
    ("logprobs", "message"),
    [
        ([-0.1, -3], "2 choice_logprobs for the 3 options of item i0"),
        ([-0.1, -3, 2.0], "row 1: 'choice_logprobs' is"),
        ("A", "expected a list of the log-probabilities"),
    ],
)
def test_recorded_log_probabilities_that_cannot_be_are_refused(
    tmp_path: Path, logprobs: object, message: str
) -> None:
    bench, answers = _files(tmp_path, logprobs)
    with pytest.raises(InputError, match=message):
        heldout.ask(bench, recorded=answers, name="m", run=tmp_path / "run")


def test_a_smaller_gain_beside_weaker_references_confirms_nothing() -> None:
    """The published rates of a clean model, beside references of three families that are worse."""
    for seed in range(3):
        recording = _by_margin(published(seed, lineages=3))
        (claim,) = counted_claims(recording, examined(recording))
        assert claim.status == "qualified"


# Both answers scored on both pictures: open items


def _scored(dose: float = 0.0, seed: int = 0) -> tuple[ScoreTables, ScoreTables]:
    lettered = planted_answers(seed, dose=dose, easier=1.0)
    return lettered, scored_twins(lettered)


def test_scores_of_both_answers_say_what_letters_say() -> None:
    lettered, scored = (_finding(t, ASKED, TARGET) for t in _scored(dose=1.0))
    assert scored.n == lettered.n
    assert scored.direction == lettered.direction == "seen"
    assert scored.effect.value == pytest.approx(lettered.effect.value, abs=0.03)
    assert scored.details["nats"] == pytest.approx(lettered.details["nats"])
    assert scored.details["wrong_options"] is None  # there are no other wrong answers


def test_skill_cancels_in_scores() -> None:
    better = scored_twins(_tables({"m": SEES, "r": GUESSES}))
    assert _finding(better).effect.value == pytest.approx(0.0, abs=1e-3)


def test_an_item_is_measured_in_one_way_for_all_models() -> None:
    """Letters of one model and scores of another are never compared."""
    lettered, scored = _scored(dose=1.0)
    assert lettered.answers is not None
    half = [f"item{place:05d}" for place in range(90)]
    answers = lettered.answers.filter(
        pl.col("benchmark_id").is_in(half) | ~pl.col("variant").is_in(["original", "twin"])
    )
    both = replace(scored, answers=answers)
    assert _finding(both, ASKED, TARGET).n == _finding(scored, ASKED, TARGET).n
    # A reference whose letters are missing has no margin there, whatever its scores are.
    reference = ASKED.baselines[0]
    lacking = answers.filter(pl.col("model") != reference)
    fewer = _finding(replace(both, answers=lacking), ASKED, TARGET)
    assert fewer.details["references"][reference]["n"] == len(
        set(scored.items["benchmark_id"]) - set(half)
    )


def test_scores_by_another_backend_are_no_reference() -> None:
    _, scored = _scored()
    backends = {name: {"backend": f"backend of {name}"} for name in scored.answering}
    finding = _finding(replace(scored, identities=backends), ASKED, TARGET)
    assert not finding.details["references"]
    assert set(finding.details["references_unusable"]) == set(ASKED.baselines)


def test_scores_that_failed_their_checks_are_not_used() -> None:
    _, scored = _scored()
    assert isinstance(_outcome(scored.without([TARGET]), ASKED, TARGET), NotTestable)
    assert TARGET not in scored.of_models(list(ASKED.baselines)).answering


def test_a_favourite_answer_is_a_place() -> None:
    _, scored = _scored()
    assert scored.twin_scores is not None
    said = scored.twin_scores.with_columns(old_answer=pl.lit("Yes"), new_answer=pl.lit("no."))
    arms = margins.probe_for().read(replace(scored, twin_scores=said), ASKED, TARGET)
    assert not isinstance(arms, str)
    assert set(arms.rows.filter("released")["place"]) == {"yes"}
    assert set(arms.rows.filter(~pl.col("released"))["place"]) == {"no"}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("75 % unanswerable, model better by 1.6", "qualified"),
        ("40 % of the answers remembered", "survives"),
    ],
)
def test_a_run_of_scores_alone_is_looked_at_by_twin_margin(name: str, status: str) -> None:
    """Without one reply: twins that nobody can answer convict no model, and remembered answers are found."""
    (recipe,) = [recipe for recipe in TWINS if recipe.name == name]
    recording = looked_at_by("twin-margin", recipe.make(1))
    recording = replace(recording, tables=scored_twins(recording.tables))
    (claim,) = counted_claims(recording, detected(recording))
    assert claim.status == status
