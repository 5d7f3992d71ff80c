"""Detectors of other packages that fail: a reason for each model, and the others are run all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from heldout.detect import Detector, Finding, NotTestable, item_detector, registry, run_detectors
from heldout.errors import InputError
from heldout.lab.power.planted_scores import MODELS, PLANTED, planted_scores
from heldout.verdict import examine

TABLES = planted_scores(0)
ITEMS = len(TABLES.items)


def _raise(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("detector", "reason"),
    [
        (Detector("boom", "membership", "fails", _raise(ZeroDivisionError("oops"))), "oops"),
        (item_detector("boom", "fails", _raise(KeyError("gone"))), "KeyError: 'gone'"),
        (item_detector("boom", "short", lambda *_: np.zeros(3)), f"(3,) for {ITEMS}"),
        (item_detector("boom", "NaN", lambda *_: np.full(ITEMS, np.nan)), f"{ITEMS} scores"),
    ],
    ids=["find", "score", "too few", "not finite"],
)
def test_it_is_not_testable_and_the_others_are_tested(
    detector: Detector, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_of_packages", lambda path: {"boom": registry.guarded(detector)})
    outcomes, _ = run_detectors(TABLES, ("boom", "loss"), PLANTED)
    failed = [outcome for outcome in outcomes if outcome.detector == "boom"]
    assert {outcome.cell.model for outcome in failed} == set(MODELS)
    for outcome in failed:
        assert isinstance(outcome, NotTestable)
        assert reason in outcome.reason
    assert any(isinstance(outcome, Finding) for outcome in outcomes)


def test_an_error_for_the_user_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    detector = Detector("boom", "membership", "refuses", _raise(InputError("unseen: …")))
    monkeypatch.setattr(registry, "_of_packages", lambda path: {"boom": registry.guarded(detector)})
    with pytest.raises(InputError, match="unseen"):
        run_detectors(TABLES, ("boom",), PLANTED)


def test_a_comparison_with_a_baseline_that_fails_has_a_reason() -> None:
    broken = Detector(
        "boom", "membership", "fails", _raise(KeyError()), against=_raise(ValueError("no"))
    )
    assert registry.guarded(broken).against is not None
    reason = registry.guarded(broken).against(TABLES, "a", "b", PLANTED)  # type: ignore[misc]
    assert isinstance(reason, str) and "ValueError: no" in reason


@pytest.mark.parametrize(
    ("control", "problem"),
    [(_raise(KeyError("gone")), "KeyError"), (lambda _: ["fine"], "found str")],
)
def test_a_control_that_fails_confirms_nothing_and_ends_nothing(
    control: Callable[..., Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = item_detector("boom", "means", lambda _, scored, __: scored.means)
    theirs = replace(scored, controls=(control,))
    monkeypatch.setattr(registry, "_of_packages", lambda path: {"boom": registry.guarded(theirs)})
    claims = examine(planted_scores(0, dose=4.0), ("boom",), PLANTED).claims
    controls = [control for claim in claims for control in claim.controls]
    failed = [each for each in controls if "a control of boom" in each.reason]
    assert failed and all(each.outcome == "missing" for each in failed)
    assert all(problem in each.reason for each in failed)
    assert "survives" not in {claim.status for claim in claims}


def test_a_model_that_lacks_an_item_has_scores_of_those_it_has() -> None:
    first = TABLES.items["benchmark_id"][0]
    fewer = replace(TABLES, scores=TABLES.scores.filter(pl.col("benchmark_id") != first))
    theirs = registry.guarded(item_detector("mean", "means", lambda _, scored, __: scored.means))
    assert all(isinstance(outcome, Finding) for outcome in theirs.find(fewer, PLANTED))
