"""What is wrong with the published tables, found by reading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heldout.detect.top_k_overlap import overlap_of
from heldout.verdict._published import (
    orders_that_change_nothing,
    reread,
    reread_cells,
    tied_columns,
)


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    return shared_data.parent / "golden/medvlm"


def _load(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("p", "two_sided", "direction"),
    [
        (1.0, 2 / 10001, "later easier"),
        (1 / 10001, 2 / 10001, "earlier easier"),
        (0.5, 1.0, "neither"),
        (0.02, 0.04, "earlier easier"),
        (0.985, 0.03, "later easier"),
    ],
)
def test_one_sided_p_values_have_two_ends(p: float, two_sided: float, direction: str) -> None:
    found = reread(p, 10_000)
    assert found.p_two_sided == pytest.approx(two_sided, abs=3e-4)
    assert found.direction == direction


def test_the_baseline_that_stays_clean_is_in_the_opposite_tail(golden: Path) -> None:
    cells = _load(golden / "exchangeability_refined.json")["cells"]
    ablation = _load(golden / "exchangeability_order_ablation.json")["cells"]
    remarks = {one.where: one.sentence for one in reread_cells(cells, ablation)}
    assert set(remarks) == {
        "omnimedvqa × Salesforce/blip2-opt-2.7b",
        "pathvqa × Salesforce/instructblip-vicuna-7b",
        "pathvqa × StanfordAIMI/CheXagent-8b",
    }
    told = remarks["omnimedvqa × Salesforce/blip2-opt-2.7b"]
    assert "p = 0.0002 (Holm over 27 cells 0.0054)" in told
    assert "never varies" not in told  # under a hash order its p is .31: the statistic does vary


def test_sorts_that_sorted_nothing_are_named(golden: Path) -> None:
    ablation = _load(golden / "exchangeability_order_ablation.json")
    remarks = orders_that_change_nothing(ablation["cells"], ablation["n_permutations"])
    assert {one.where for one in remarks} == {
        "omnimedvqa / by_answer_len",
        "omnimedvqa / by_question_len",
        "pathvqa / by_question_len",
        "slake_en / by_question_len",
        "vqa_rad / by_question_len",
    }
    first = next(one for one in remarks if one.where == "omnimedvqa / by_answer_len")
    assert "5 of 6 cells " in first.sentence


def test_ties_in_one_column_show_a_model_that_does_not_get_the_question(
    golden: Path, shared_data: Path
) -> None:
    published = _load(golden / "slake_en_overlap_inflation.json")
    rows = {row["qid"]: row for row in _load(shared_data / "slake/official_test.json")}
    items = [rows[int(r["example_id"].rsplit("::", 1)[1])] for r in published["records"]]
    columns = {
        model: [record["mean_logprob"][model] for record in published["records"]]
        for model in published["models"]
    }
    (remark,) = tied_columns(columns, [item["question"] for item in items])
    assert remark.where == "CheXagent-8b"
    assert remark.sentence.startswith("36 of 1,060 neighbouring pairs")
    # Every one of those pairs shares image and answer: only the question told them apart.
    column = columns["CheXagent-8b"]
    tied = [i for i in range(len(column) - 1) if column[i] == column[i + 1]]
    assert len(tied) == 36
    assert all(
        items[i]["img_name"] == items[i + 1]["img_name"]
        and items[i]["answer"] == items[i + 1]["answer"]
        and items[i]["question"] != items[i + 1]["question"]
        for i in tied
    )


def test_top_k_overlaps_come_out_exactly(golden: Path) -> None:
    published = _load(golden / "topk_overlap.json")
    pairs = 0
    for benchmark, table in published.items():
        for pair in table["pairs"]:
            tops = [
                [
                    row["example_id"]
                    for row in _load(golden / f"tail_enrichment_topk/{m}__{benchmark}.json")
                ]
                for m in (pair["a"], pair["b"])
            ]
            found = overlap_of(tops[0], tops[1], table["n_examples"])
            assert found.intersection == pair["intersection"]
            assert found.union == pair["union"]
            assert found.jaccard == pair["jaccard"]
            assert found.lift == pytest.approx(pair["lift_vs_chance"], rel=1e-14)
            assert found.expected == pytest.approx(table["expected_intersection_size"], rel=1e-14)
            pairs += 1
    assert pairs == 40
