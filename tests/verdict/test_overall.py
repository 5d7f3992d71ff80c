"""The verdict of a whole audit: cells, the ladder, what is recommended and what it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.detect import Cell
from heldout.evidence import Rung, leaks
from heldout.store import Run, empty_table, make_table
from heldout.verdict import Claim, Control, Status
from heldout.verdict.claim import actions
from heldout.verdict.corrected import correct_scores
from heldout.verdict.overall import (
    BenchmarkVerdict,
    CellVerdict,
    benchmark_verdict,
    cell_status,
    overall_verdict,
)


def _claim(id: str, status: Status, rule: str = "", controls: tuple[Control, ...] = ()) -> Claim:
    kind, _, on = id.partition("/")
    model = None if kind in ("overlap", "text", "nearness") else on
    cell = Cell(benchmark="b", corpus=None if model else on, model=model)
    return Claim(
        id=id,
        cell=cell,
        sentence="s",
        status=status,
        why="w",
        rule=rule,
        findings=[],
        controls=list(controls),
    )


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ([("overlap/web", "clean"), ("text/web", "survives")], "survives"),
        ([("order/m", "clean"), ("cohort/m", "collapses")], "collapses"),
        ([("order/m", "re-attributed"), ("membership/m", "not testable")], "re-attributed"),
        ([("overlap/web", "clean"), ("nearness/web", "survives")], "clean"),  # never a leak
        ([("nearness/web", "qualified")], "qualified"),
        ([], "not testable"),
    ],
)
def test_a_cell_is_called_by_its_most_pressing_claim(
    claims: list[tuple[str, Status]], status: Status
) -> None:
    assert cell_status([_claim(*one) for one in claims]) == status


def test_a_claim_with_nothing_to_compare_does_not_speak_for_its_cell() -> None:
    idle = Control(name="something to compare", outcome="missing", reason="no words")
    claims = [_claim("overlap/web", "clean"), _claim("text/web", "not testable", controls=(idle,))]
    assert cell_status(claims) == "clean"


def _verdict(name: str, cells: list[CellVerdict]) -> BenchmarkVerdict:
    return BenchmarkVerdict(
        name, name, cells, pl.DataFrame(empty_table("leaks")), {"models": [], "rankings": []}
    )


def _cell(*claims: Claim) -> CellVerdict:
    return CellVerdict(claims[0].cell, cell_status(claims), list(claims))


def test_the_safer_benchmark_is_named_only_where_one_is() -> None:
    leaky = _verdict("leaky", [_cell(_claim("overlap/web", "survives"))])
    fresh = _verdict("fresh", [_cell(_claim("overlap/web", "clean"))])
    unseen = _verdict("unseen", [_cell(_claim("overlap/web", "not testable"))])
    told = _kinds([leaky, fresh])
    assert told["safer benchmark"][0]["sentence"].startswith("Prefer fresh ")
    # What could not be tested is not safe, and without a leak nothing is safer than the rest.
    assert "safer benchmark" not in _kinds([leaky, unseen])
    assert "safer benchmark" not in _kinds([fresh, unseen])


def test_a_missing_control_is_recommended_with_the_claims_it_would_settle() -> None:
    missing = (Control(name="external baseline", outcome="missing", reason="none"),)
    cells = [_cell(_claim(f"order/{model}", "qualified", controls=missing)) for model in "ab"]
    (advice,) = _kinds([_verdict("b", cells)])["control"]
    assert advice["claims"] == ["order/a", "order/b"]
    assert "settle 2 claims" in advice["sentence"]


def test_a_fallen_cohort_says_what_not_to_use() -> None:
    cells = [_cell(_claim("cohort/m", "collapses", "cohort/baseline-fires-too"))]
    assert "by themselves" in _kinds([_verdict("b", cells)])["method"][0]["sentence"]


def _kinds(verdicts: list[BenchmarkVerdict]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for advice in overall_verdict(verdicts, {}).recommendations:
        found.setdefault(advice["kind"], []).append(advice)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Forty items, each on a picture of its own; the first few stand on one rung each."""
    made = Run.create(tmp_path / "run", command=["test"])
    items = [
        {
            "benchmark_id": f"q{n}",
            "position": n,
            "cluster": f"c{n}",
            "question": "?",
            "options": [],
            "answer": "a",
            "image_names": ["x"],
            "image_digests": [f"d{n}"],
            "metadata": "{}",
        }
        for n in range(40)
    ]
    made.write_table("items", make_table("items", items))
    kinds = [
        ("q0", "look-alike", "image only"),
        ("q1", "undecided", "image only"),
        ("q2", "same image", "image only"),
        ("q3", "transformed copy", "full"),
        ("q3", "undecided", "image only"),
        ("q4", "unrelated", "image only"),
    ]
    matches = [
        {
            "benchmark_id": id,
            "image_index": 0,
            "corpus": "web",
            "corpus_id": f"w{n}",
            "method": "hash",
            "similarity": 0.9,
            "degree": "none",
            "relation": relation,
            "transform": "",
            "modality": modality,
            "label_relation": "same",
            "evidence": "{}",
        }
        for n, (id, relation, modality) in enumerate(kinds)
    ]
    made.write_table("matches", make_table("matches", matches))
    return made


def test_items_stand_on_the_highest_rung_that_was_proven(run: Run) -> None:
    assert dict(leaks(run).select("benchmark_id", "rung").iter_rows()) == {
        "q0": Rung.LOOK_ALIKE,
        "q1": Rung.UNDECIDED,
        "q2": Rung.COPY,
        "q3": Rung.FULL,
    }
    told = {row["benchmark_id"]: row["action"] for row in actions(run)}
    assert told["q3"] == "remove"
    assert told["q1"] == "have people judge it"
    assert "keep" not in told["q0"] and "not ruled out" in told["q0"]


def test_what_is_undecided_is_neither_leaked_nor_clean(run: Run) -> None:
    answers = [
        {
            "benchmark_id": f"q{n}",
            "model": "m",
            "variant": "original",
            "draw": 0,
            "options": [],
            "order": [],
            "gold": "a",
            "reply": "a",
            "parsed": "a",
            "outcome": "right" if n % 2 else "wrong",
            "rule": "",
            "choice_logprobs": [],
            "prompt_tokens": 1,
            "reply_tokens": 1,
            "template": "",
        }
        for n in range(40)
    ]
    run.write_table("answers", make_table("answers", answers))
    (model,) = correct_scores(run, ["m"]).models
    lines = {line.subset: line for line in model.lines}
    assert [lines[name].items for name in ("original", "leaked", "non-leaked")] == [40, 2, 37]
    assert lines["original"].value == 0.5
    assert lines["leaked"].value == 0.5
    assert lines["non-leaked"].value == pytest.approx(18 / 37)
    assert lines["random"].items == 2


def test_an_item_whose_picture_was_not_compared_is_in_no_corrected_score(run: Run) -> None:
    items = run.read_table("items").to_pylist()
    items[10]["image_digests"] = [""]
    run.write_table("items", make_table("items", items))
    scores = [
        {
            "benchmark_id": f"q{n}",
            "model": "m",
            "tokens": [],
            "logprobs": [],
            "mu": [],
            "sigma": [],
            "sum_logprob": -2.0,
            "n_tokens": 2,
            "span_ok": True,
        }
        for n in range(40)
    ]
    run.write_table("scores", make_table("scores", scores))
    made = correct_scores(run, ["m", "absent"])
    assert [(one.model, one.metric, one.items) for one in made.models] == [
        ("m", "log-likelihood", 39)
    ]
    assert made.models[0].lines[0].value == -1.0
    assert made.rankings == []  # one model has no rank
    found = _claim("overlap/web", "survives", "copies/copy-found")
    run.write_json("claims.json", {"claims": [found.model_dump(mode="json")]})
    (cell,) = benchmark_verdict(run, "b", {}).cells
    assert cell.leak is not None
    assert (cell.leak.leaked, cell.leak.items, cell.leak.uncompared) == (2, 40, 1)
