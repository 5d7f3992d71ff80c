"""The first screen of models: which tests say so, one claim of each cell, advice without numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from markupsafe import Markup

from heldout.detect import Cell
from heldout.evidence import Rung
from heldout.report._first_screen import first_screen, shown_figure
from heldout.report._models import Figure
from heldout.report._scores_owed import score_rows
from heldout.report._statuses import MEANINGS, DetectableEffect, detectable, status_pill
from heldout.stats import Interval
from heldout.store import Run, empty_table
from heldout.verdict import LAB, PLAIN, PRESSING, Claim, Control, FiringCount
from heldout.verdict.claim import FalseAlarms
from heldout.verdict.overall import (
    BenchmarkVerdict,
    CellVerdict,
    LeakRate,
    cell_status,
    recommend,
)

NO_LEAKS = pl.DataFrame(empty_table("leaks"))

WHY = "+0.228 [+0.144, +0.303] above films, p = 9.9e-05"


def _claim(kind: str, model: str, status: Any, rule: str = "answers/stands", **more: Any) -> Claim:
    return Claim(
        id=f"{kind}/{model}",
        cell=Cell(benchmark="b", model=model),
        sentence=f"{kind} of {model}.",
        status=status,
        why=WHY,
        rule=rule,
        findings=[],
        **more,
    )


def _verdict(*groups: list[Claim]) -> BenchmarkVerdict:
    cells = [CellVerdict(one[0].cell, cell_status(one), one) for one in groups]
    return BenchmarkVerdict("b", "run", cells, NO_LEAKS, {"models": [], "rankings": []})


def test_a_model_that_has_seen_it_is_told_once_with_its_tests(wording: Callable[..., None]) -> None:
    seen = [_claim("twin-drop", "m", "survives"), _claim("option-order", "m", "survives")]
    seen.append(_claim("order", "m", "re-attributed", "order/baseline-fires-too"))
    verdict = _verdict(seen, [_claim("twin-drop", "n", "clean", "answers/quiet")])
    advice = recommend([verdict])
    told = [one["sentence"] for one in advice if one["kind"] == "model"]
    assert len(told) == 2
    wording(*told)
    cells = [cell.as_json() for cell in verdict.cells]
    screen = first_screen(cells, advice, {"b": {"models": []}})
    shown = {row["name"]: row["cells"][0] for row in screen["grid"]["rows"]}
    assert shown["m"]["why"].endswith(": twin-drop, option-order")
    assert shown["m"]["claim"] == "twin-drop/m"
    assert screen["statuses"] == ["survives", "re-attributed", "clean"]


def test_what_was_found_stands_before_what_is_open_and_that_before_what_is_clean() -> None:
    rate = LeakRate(0, 60, Interval(0, 0.06, 0.95, "clopper-pearson"))

    def searched(corpus: str, status: Any, rule: str, **evidence: int) -> dict[str, Any]:
        cell = Cell(benchmark="b", corpus=corpus)
        claim = Claim(
            id=f"text/{corpus}",
            cell=cell,
            sentence="s",
            status=status,
            why="w",
            rule=rule,
            findings=[],
        )
        return CellVerdict(
            cell, status, [claim], rate, {Rung(k): v for k, v in evidence.items()}
        ).as_json()

    cells = [
        searched("clean", "clean", "words/none-found"),
        searched("unread", "qualified", "words/parts-unread"),
        searched("few", "qualified", "words/like-words", **{Rung.WORDING: 1}),
        searched("reworded", "qualified", "words/like-words", **{Rung.SIMILAR: 24}),
    ]
    screen = first_screen(cells, [], {})
    shown = [(entry["value"], entry["words"]) for entry in screen["numbers"]]
    assert [value for value, _ in shown] == ["24 of 60", "1 of 60", "0 of 60", "clean"]
    assert "in reworded" in shown[0][1] and "in unread" in shown[2][1]
    assert re.findall(r"\d+", screen["sentence"]) == ["24", "60", "1", "60"]
    assert "24" in screen["grid"]["rows"][3]["cells"][0]["words"]


def test_two_models_that_share_items_have_not_seen_anything_by_that() -> None:
    verdict = _verdict([_claim("cohort", "m & n", "survives", "cohort/stands")])
    assert not [one for one in recommend([verdict]) if one["kind"] == "model"]


def test_each_cell_has_its_say_before_a_second_claim_of_any() -> None:
    def stood(model: str) -> list[Claim]:
        return [
            _claim(kind, model, "survives") for kind in ("twin-drop", "option-order", "circular")
        ]

    cells = [cell.as_json() for cell in _verdict(stood("m"), stood("n")).cells]
    top = [claim["id"] for claim in first_screen(cells, [], {})["top"]]
    assert top == ["twin-drop/m", "twin-drop/n", "option-order/m"]


def test_a_baseline_that_is_there_and_fires_is_not_asked_for_again() -> None:
    def told(outcome: Any) -> str:
        control = Control(name="external baseline films", outcome=outcome, reason="r")
        doubt = _claim("twin-drop", "m", "qualified", "answers/doubt", controls=[control])
        (one,) = [one for one in recommend([_verdict([doubt])]) if one["kind"] == "control"]
        return str(one["sentence"])

    assert "cannot have seen" in told("missing")
    assert told("failed").startswith("To settle 1 claim (external baseline films): ")


def test_without_a_corpus_nobody_says_that_nothing_leaked() -> None:
    lines = [{"subset": "original", "value": 0.9, "items": 10}]
    corrected = {
        "b": {"models": [{"model": "m", "metric": "accuracy", "lines": lines, "owed": []}]}
    }
    cells = [cell.as_json() for cell in _verdict([_claim("twin-drop", "m", "clean")]).cells]
    (alone,) = first_screen(cells, [], corrected)["owed"]
    assert "corpus was searched" in alone["sentence"]
    searched = [{**cells[0], "corpus": "web", "model": None}]
    (told,) = first_screen(searched, [], corrected)["owed"]
    assert "none of them" in told["sentence"]


def test_no_part_of_a_benchmark_is_clean_for_a_model_that_has_seen_it() -> None:
    def scored(name: str, clean: float) -> dict[str, Any]:
        subsets = (("original", 0.8, 20), ("non-leaked", clean, 10), ("leaked", 0.7, 10))
        lines = [
            {"subset": subset, "value": value, "items": items, "interval": None}
            for subset, value, items in subsets
        ]
        return {"model": name, "metric": "accuracy", "lines": lines, "owed": []}

    corrected = {
        "models": [scored("base", 0.4), scored("n", 0.7), scored("m", 0.9)],
        "rankings": [],
    }
    seen, clean = _claim("twin-drop", "m", "survives"), _claim("twin-drop", "n", "clean")
    verdict = _verdict([seen], [clean])
    verdict = BenchmarkVerdict("b", "run", verdict.cells, NO_LEAKS, corrected)
    (told,) = (one for one in recommend([verdict]) if one["kind"] == "model")
    assert "perturbed twins" in told["sentence"] and "%" not in told["sentence"]
    assert told["claims"] == ["twin-drop/m"]
    advice = {
        one["sentence"].split()[1]: one for one in recommend([verdict]) if one["kind"] == "score"
    }
    assert "m" not in advice
    assert "10 clean items" in advice["n"]["sentence"]
    cells = [cell.as_json() for cell in verdict.cells]
    screen = first_screen(
        [*cells, {**cells[0], "corpus": "web", "model": None}], [], {"b": corrected}
    )
    assert [one["model"] for one in screen["owed"]] == ["m", "n", "base"]  # a baseline comes last
    assert screen["owed"][0]["points"] == "" and "has seen" in screen["owed"][0]["sentence"]


def test_what_a_score_owes_is_one_number_wherever_it_stands() -> None:
    """Undecided items are in the score of all items and on neither side of the test."""

    def line(subset: str, value: float, items: int) -> dict[str, Any]:
        return {"subset": subset, "value": value, "items": items, "interval": None}

    owed = {"value": -0.0313, "compared": 386, "p_adjusted": 1.0, "interval": None}
    model = {
        "model": "n",
        "metric": "accuracy",
        "items": 412,
        "lines": [
            line("original", 0.7816, 412),
            line("non-leaked", 0.8163, 98),
            line("leaked", 0.7743, 288),
        ],
        "owed": [owed],
    }
    corrected = {"models": [model], "rankings": []}
    cells = _verdict([_claim("twin-drop", "n", "clean")]).cells
    verdict = BenchmarkVerdict("b", "run", cells, NO_LEAKS, corrected)
    (advice,) = [record for record in recommend([verdict]) if record["kind"] == "score"]
    assert "−3.1 points" in advice["sentence"]
    (row,) = score_rows(corrected)
    assert row["owed"]["value"] == "−3.1 points"
    searched = [{**cell.as_json(), "corpus": "web", "model": None} for cell in cells]
    screen = first_screen(searched, [], {"b": corrected})
    (shown,) = screen["owed"]
    assert shown["points"] == "−3.1 points"
    # and the two scores beside it are those that it is the difference of
    assert "78.5 % on the 386 items" in shown["sentence"]
    assert "81.6 % on the 98 clean" in shown["sentence"]
    assert [entry["value"] for entry in screen["numbers"]] == ["−3.1 points"]


@pytest.mark.parametrize("status", PRESSING)
def test_every_status_has_a_plain_name_its_meaning_and_its_stored_value(status: str) -> None:
    pill = status_pill(status)
    assert PLAIN[status] in pill and MEANINGS[status] in pill and status in pill
    assert ("stored" in pill) == (PLAIN[status] != status)


@pytest.mark.parametrize(("clusters", "words"), [(18, "items"), (9, "picture groups")])
def test_a_share_is_of_picture_groups_only_where_items_share_pictures(
    tmp_path: Path, clusters: int, words: str
) -> None:
    run = Run.create(tmp_path / "run", command=["heldout", "overlap"])
    finding = {"id": "f", "n": 18, "clusters": clusters, "minimum_detectable_effect": 0.25}
    reworded = {**finding, "id": "f/embedding", "minimum_detectable_effect": 0.5}
    claim = {"status": "clean", "findings": ["f"], "cell": {"corpus": "web"}}
    claims = [{**claim, "id": "overlap/web"}]
    claims += [{**claim, "id": "text/web", "findings": ["f", "f/embedding"]}]
    (run.path / "findings.json").write_text(json.dumps({"findings": [finding, reworded]}))
    (run.path / "claims.json").write_text(json.dumps({"claims": claims}))
    least = detectable(run)
    assert str(least["overlap/web"]) == f"25.0 % of {words}"
    # nobody can say which share of rewordings would have been found
    assert least["text/web"].value == 0.25
    assert least["text/web"].share_of.startswith(f"{words} (in ")


def test_nothing_found_names_the_effect_that_would_have_been_detected() -> None:
    claims = [_claim("twin-drop", "n", "clean"), _claim("option-order", "n", "clean")]
    cells = [cell.as_json() for cell in _verdict(claims).cells]
    effects = {
        claim.id: DetectableEffect(value, "")
        for claim, value in zip(claims, (0.12, 0.2), strict=True)
    }
    (row,) = first_screen(cells, [], {}, effects)["grid"]["rows"]
    # A drop is no gain: each test has its own.
    least = " 0.12 (twin-drop), 0.2 (option-order) or more "
    assert least in status_pill("clean", row["cells"][0]["least"])
    # A claim whose effect is not known leaves it open for the cell.
    (row,) = first_screen(cells, [], {}, {claims[0].id: effects[claims[0].id]})["grid"]["rows"]
    assert row["cells"][0]["least"] == ""


def test_the_answer_is_said_in_a_sentence_for_models_alone(wording: Callable[..., None]) -> None:
    claim = _claim("twin-drop", "m", "survives")
    rate = "twin-drop raised 0 false alarms in 8 small models trained without the benchmark (95 % interval 0 % to 37 %)"
    counted = FalseAlarms(detector="twin-drop", clean=FiringCount.of(0, 8, 8))
    claim.controls.append(Control(name=LAB, outcome="passed", reason=rate, false_alarms=counted))
    screen = first_screen([cell.as_json() for cell in _verdict([claim]).cells], [], {})
    (number,) = screen["numbers"]
    assert number["value"] == "m" and number["words"].endswith("twin-drop 0 of 8 (rate up to 37 %)")
    wording(screen["sentence"], number["words"], *screen["sure"])
    assert list(screen["tests"]) == ["twin-drop"]  # and what it asks, for "What the words mean"
    cells = [cell.as_json() for cell in _verdict([_claim("twin-drop", "m", "qualified")]).cells]
    screen = first_screen(cells, [], {})
    assert (
        screen["sentence"].startswith("Nothing is confirmed")
        and screen["numbers"][0]["value"] == "m"
    )


def test_whoever_is_not_named_as_unsettled_is_counted() -> None:
    claims = [[_claim("twin-drop", model, "qualified")] for model in "mnop"]
    screen = first_screen([cell.as_json() for cell in _verdict(*claims).cells], [], {})
    assert "m, n, o and 1 more " in screen["sentence"]


def test_the_picture_is_the_figure_of_the_most_pressing_claim() -> None:
    figures = [Figure(name, Markup(""), "") for name in ("order-trend", "slopes-twin")]
    chosen = shown_figure(figures, [{"id": "option-order/m"}, {"id": "twin-drop/m"}])
    assert chosen is not None and chosen.name == "slopes-twin"
    assert shown_figure(figures, []) is figures[0] and shown_figure([], []) is None


def test_what_would_settle_it_is_about_the_claim_that_is_open() -> None:
    cells = [cell.as_json() for cell in _verdict([_claim("option-order", "m", "qualified")]).cells]
    controls = [
        {"kind": "control", "sentence": f"To settle it (x): {claim}.", "claims": [claim]}
        for claim in ("nearness/web", "option-order/m")
    ]
    (sentence,) = first_screen(cells, controls, {})["sure"]
    assert sentence.startswith("Not settled: option-order of m.")
    assert sentence.endswith(": option-order/m.")
