"""The nine claims of the published map from the command line: its statuses beside ours, with reasons."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.verdict._published import hits_that_chance_gives
from heldout.verdict.published_claims import published_map


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    return shared_data.parent / "golden"


def _json(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["lab", "published", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_nine_claims_with_both_statuses(golden: Path) -> None:
    told = _json(str(golden))
    claims = {one["number"]: one for one in told["claims"]}
    # Appendix E of the audit, in its order; "clean control" is our clean.
    assert [claims[number]["published"] for number in range(1, 10)] == [
        "survives",
        "survives",
        "qualified",
        "survives",
        "survives",
        "re-attributed",
        "collapses",
        "collapses",
        "clean",
    ]
    assert {number for number, one in claims.items() if one["agrees"]} == {3, 6, 8}
    assert claims[4]["ours"] == ["re-attributed", "clean"]
    assert claims[5]["ours"] == ["qualified"]  # from p-values alone
    assert not told["items_read"]
    for one in claims.values():
        assert one["cells"]
        assert all(cell["why"] and cell["rule"] for cell in one["cells"])
    # Every cell stands once: under a claim or beside the map.
    cells = [c for one in claims.values() for c in one["cells"]] + told["other_cells"]
    keys = [(c["kind"], c["benchmark"], c["on"]) for c in cells]
    assert len(set(keys)) == len(keys)


def test_items_of_the_benchmark_change_what_tables_allow(golden: Path, shared_data: Path) -> None:
    told = _json(str(golden / "medvlm"), "--benchmark", f"{shared_data}/slake#split=test,lang=en")
    fifth = told["claims"][4]
    assert (fifth["ours"], fifth["cells"][0]["rule"]) == (["re-attributed"], "order/structure")
    kinds = {remark["kind"] for remark in told["remarks"]}
    assert kinds == {
        "opposite tail",
        "order changes nothing",
        "triple hits by chance",
        "tie runs",
    }


def test_people_get_sentences(golden: Path) -> None:
    done = CliRunner().invoke(app, ["lab", "published", str(golden)])
    assert done.exit_code == 0, done.output
    told = " ".join(done.stdout.split())
    assert re.search(r"\bsurvives\b.*\bre-attributed\b", told) and "3 of 9 claims" in told


def test_a_folder_without_the_tables_is_a_sentence(tmp_path: Path, golden: Path) -> None:
    with pytest.raises(InputError, match=r"exchangeability_refined\.json"):
        published_map(tmp_path)
    shutil.copytree(golden / "medvlm", tmp_path / "medvlm")
    (tmp_path / "medvlm" / "topk_overlap.json").write_text("{")
    with pytest.raises(InputError, match=r"topk_overlap\.json .*JSON"):
        published_map(tmp_path)


def test_another_benchmark_is_refused(golden: Path, shared_data: Path) -> None:
    from heldout.benchmark import read_benchmark

    other = read_benchmark(f"{shared_data}/slake#split=test,lang=zh")
    with pytest.raises(InputError, match=r"\b0 ids\b|English test split"):
        published_map(golden, other)


def test_triple_hits_are_held_against_chance_by_hand() -> None:
    # 10 of 100 flagged: one hit is what ten text hits give, and twenty were published.
    (remark,) = hits_that_chance_gives("b", [(0.01, 1, 10), (0.005, 0, 8), (0.001, 0, 0)], 20, 100)
    assert re.search(r"\b1 hits, 10 % .*\bfrom 10\b", remark.sentence)
    assert "0 hits" not in remark.sentence and "α = 0.005" not in remark.sentence
    assert hits_that_chance_gives("b", [(0.01, 0, 10)], 20, 100) == []
    assert hits_that_chance_gives("b", [(0.01, 3, 10)], 20, 100) == []  # thirty would be needed
