"""A judge reads what may be a rewording of a benchmark's question: it decides, and is paid once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from item_serving import ItemServer
from made_items import figure, five, item, write_run

import heldout
from heldout.report.synthesis import read_facts

pytest.importorskip("wordllama", reason="the extra 'text'")

AIR = five("free air", "free fluid", "liver mass", "bowel loop", "hepatic cyst")
QUESTIONS = {
    "same": "What is under the right hemidiaphragm?",  # no judge is needed
    "reworded": "What is beneath the right hemidiaphragm?",  # near enough without a judge
    "distant": "Beneath the diaphragm on the right, what can be seen?",  # for a judge alone
    "fresh": "Which vessel supplies the transverse colon?",
}


@pytest.fixture
def values(tmp_path: Path, picture: Callable[..., bytes]) -> dict[str, Any]:
    items = []
    for number, (name, question) in enumerate(QUESTIONS.items()):
        one = figure(tmp_path / "run", f"PMC{number}/{name}", [picture(number, (60, 50))])
        items.append((item(one.id, question, AIR), one))
    write_run(tmp_path / "run", items)
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "b.png").write_bytes(picture(9, (60, 50)))
    row = {"id": 1, "image": "b.png", "question": QUESTIONS["same"], "answer": "Free air"}
    (bench / "test.jsonl").write_text(json.dumps(row) + "\n")
    return {
        "source": "made",
        "against": str(bench / "test.jsonl"),
        "image_encoder": None,
        "stages": ("balance", "decontaminate"),
        "out": tmp_path / "run",
        "quiet": True,
        "workers": 1,
    }


def _removed(made: heldout.Synthesis) -> set[str]:
    rows = made.frame("decontaminate")
    return {name.partition("/")[2] for name in rows.filter(rows["removed"])["id"]}


def test_the_judge_decides_about_rewordings_alone(
    values: dict[str, Any], item_server: ItemServer
) -> None:
    assert _removed(heldout.synth(**values)) == {"same", "reworded"}
    judge = {"url": item_server.url("plain", "judge")}
    made = heldout.synth(**values, judge=judge)
    assert _removed(made) == {"same", "reworded", "distant"}
    (report,) = made.run.read_json("synth/contamination.json")["benchmarks"]
    assert report["questions"]["judge"] == {"model": "judge", "same": 2}
    words = read_facts(made.run).contamination[0]["words"]
    assert "2 pairs of questions" in words and "(judge) called 2 same." in words
    assert made.models.filter(made.models["role"] == "judge")["replies"].to_list() == [2]
    assert [(cost.stage, cost.requests) for cost in made.spent] == [("judge", 2)]
    asked = item_server.counts()["answered"]
    (made.run.path / "synth/decontaminate.parquet").unlink()
    assert _removed(heldout.synth(**values, judge=judge)) == {"same", "reworded", "distant"}
    assert item_server.counts()["answered"] == asked == 2
    contrary = {"url": item_server.url("contrary", "judge2")}
    assert _removed(heldout.synth(**values, judge=contrary)) == {"same"}
