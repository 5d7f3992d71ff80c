"""The first screen of models: which tests say so, one claim of each cell, advice without numbers."""

from __future__ import annotations

from typing import Any

import polars as pl

from heldout.detect import Cell
from heldout.report.first_screen import first_screen
from heldout.store import empty_table
from heldout.verdict import Claim, Control
from heldout.verdict.overall import BenchmarkVerdict, CellVerdict, cell_status, recommend

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


def test_a_model_that_has_seen_it_is_told_once_with_its_tests() -> None:
    seen = [_claim("twin-drop", "m", "survives"), _claim("option-order", "m", "survives")]
    seen.append(_claim("order", "m", "re-attributed", "order/baseline-fires-too"))
    verdict = _verdict(seen, [_claim("twin-drop", "n", "clean", "answers/quiet")])
    advice = recommend([verdict])
    told = [one["sentence"] for one in advice if one["kind"] == "model"]
    assert told == [
        "Say that m has seen b wherever you report it: 2 tests passed every control (twin-drop, "
        "option-order).",
        "Do not read the order effect of m on b as memory: a model that cannot have seen it shows it as "
        "much: the release has structure.",
    ]
    cells = [cell.as_json() for cell in verdict.cells]
    screen = first_screen(cells, advice, {"b": {"models": []}})
    shown = {row["name"]: row["cells"][0] for row in screen["grid"]["rows"]}
    assert shown["m"]["why"] == "2 tests passed every control: twin-drop, option-order"
    assert shown["m"]["claim"] == "twin-drop/m"
    assert screen["statuses"] == ["survives", "re-attributed", "clean"]


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
    assert told("failed").startswith(
        "To settle 1 claim (external baseline films): ask or score more"
    )


def test_without_a_corpus_nobody_says_that_nothing_leaked() -> None:
    lines = [{"subset": "original", "value": 0.9, "items": 10}]
    corrected = {
        "b": {"models": [{"model": "m", "metric": "accuracy", "lines": lines, "owed": []}]}
    }
    cells = [cell.as_json() for cell in _verdict([_claim("twin-drop", "m", "clean")]).cells]
    (alone,) = first_screen(cells, [], corrected)["owed"]
    assert "no corpus was searched" in alone["sentence"]
    searched = [{**cells[0], "corpus": "web", "model": None}]
    (told,) = first_screen(searched, [], corrected)["owed"]
    assert "none of them leaked" in told["sentence"]


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
    advice = {
        one["sentence"].split()[1]: one for one in recommend([verdict]) if one["kind"] == "score"
    }
    assert "perturbed twins" in advice["m"]["sentence"] and "%" not in advice["m"]["sentence"]
    assert advice["m"]["claims"] == ["twin-drop/m"]
    assert "10 clean items" in advice["n"]["sentence"]
    cells = [cell.as_json() for cell in verdict.cells]
    screen = first_screen(
        [*cells, {**cells[0], "corpus": "web", "model": None}], [], {"b": corrected}
    )
    assert [one["model"] for one in screen["owed"]] == ["m", "n", "base"]  # a baseline comes last
    assert screen["owed"][0]["points"] == "" and "has seen" in screen["owed"][0]["sentence"]
