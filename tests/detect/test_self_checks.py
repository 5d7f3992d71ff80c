from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from heldout.detect.registry import self_checks
from heldout.lab.power.planted_scores import TARGET, planted_scores


def _failed(**columns: Any) -> set[str]:
    tables = planted_scores(0)
    scores = tables.scores.with_columns(**{k: v for k, v in columns.items() if k != "items"})
    items = columns.get("items")
    changed = replace(tables, scores=scores, items=tables.items if items is None else items)
    return {check.name for check in self_checks(changed, TARGET) if check.failed}


def test_sound_scores_pass() -> None:
    assert _failed() == set()


def test_scores_that_cannot_be_trusted_fail_by_name() -> None:
    assert _failed(sum_logprob=pl.lit(float("nan"))) >= {"finite"}
    assert _failed(sum_logprob=pl.lit(float("-inf"))) >= {"finite"}
    assert _failed(span_ok=pl.lit(False)) == {"span"}
    tail = pl.lit(["<|im_end|>", "\n"], pl.List(pl.String))  # of the template, not of the answer
    assert _failed(tokens=tail) == {"span"}
    assert _failed(sum_logprob=pl.lit(-2.0), n_tokens=pl.lit(1)) == {"variation", "ties"}
    items = planted_scores(0).items
    assert _failed(items=items.with_columns(answer=pl.lit(""))) == {"answers"}
    assert _failed(items=items.with_columns(answer=pl.lit("yes"))) == {"answers"}
    assert _failed(items=items.head(5)) == {"coverage"}


def test_a_few_runs_of_ties_between_different_questions_are_enough() -> None:
    tables = planted_scores(0)
    target = tables.scores.filter(pl.col("model") == TARGET)
    totals, counts = target["sum_logprob"].to_list(), target["n_tokens"].to_list()
    for place in range(0, 60, 6):
        totals[place + 1], counts[place + 1] = totals[place], counts[place]
    tied = target.with_columns(
        sum_logprob=pl.Series(totals), n_tokens=pl.Series(counts, dtype=pl.Int32)
    )
    checks = {check.name: check for check in self_checks(replace(tables, scores=tied), TARGET)}
    assert not checks["ties"].passed
    assert "10 of" in checks["ties"].reason
    assert "tells them apart" in checks["ties"].reason


@pytest.mark.parametrize("certain", [0.0, -0.0])
def test_a_model_that_is_certain_is_not_called_broken(certain: float) -> None:
    """Two answers of probability 1 both have log p = 0; that is no dropped question."""
    tables = planted_scores(0)
    sure = pl.when(pl.col("sum_logprob") > -20).then(certain).otherwise(pl.col("sum_logprob"))
    scores = tables.scores.with_columns(sum_logprob=sure)
    checks = {c.name: c.passed for c in self_checks(replace(tables, scores=scores), TARGET)}
    assert checks["ties"]


def test_what_nobody_could_check_is_neither_passed_nor_failed() -> None:
    tables = planted_scores(0)
    nothing = pl.lit([], pl.List(pl.String))
    untold = replace(tables, scores=tables.scores.with_columns(tokens=nothing))
    untold.identities[TARGET] = {"backend": "recorded csv"}
    checks = {check.name: check for check in self_checks(untold, TARGET)}
    assert {name for name, check in checks.items() if check.passed is None} == {"span", "ablation"}
    assert {checks[name].outcome for name in ("span", "ablation")} == {"not checked"}
    assert not any(check.failed for check in checks.values())
    assert "have no tokens" in checks["span"].reason
    # Where a backend says itself that the span is wrong, tokens are not needed.
    wrong = replace(untold, scores=untold.scores.with_columns(span_ok=pl.lit(False)))
    assert {c.name for c in self_checks(wrong, TARGET) if c.failed} == {"span"}
