"""Reasoning traces: kept where they can be parsed and their answer is right, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from item_serving import ItemServer
from made_items import figure, five, item, write_run

from heldout.model.request import CUT, STOPPED, Reply
from heldout.report.synthesis_page import write_synthesis_report
from heldout.synth import synth
from heldout.synth.shortcut import CUT_OFF, WRONG, read_trace


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        ("<think>It is\n  dense.</think> <answer>B</answer>", "It is dense."),
        ("<think>It is dense.</think><answer>(B) liver</answer>\n", "It is dense."),
        ("<think>It is dense.</think><answer>C</answer>", None),  # wrong
        ("<think>It is dense.</think>B", None),
        ("It is dense. <answer>B</answer>", None),
        ("<think>One <think>two</think><answer>B</answer>", None),
        ("<think>No.</think><answer>B</answer> Or rather <answer>C</answer>", None),
        ("Sure! <think>It is dense.</think><answer>B</answer>", None),
        ("<think></think><answer>B</answer>", None),
    ],
)
def test_a_trace_is_the_whole_reply_and_leads_to_the_right_answer(
    text: str, trace: str | None
) -> None:
    found, why = read_trace(Reply("x", text, STOPPED), "B")
    assert (found or None) == trace and bool(why) == (trace is None)
    assert (why == WRONG) == ("<answer>C</answer>" in text and "B" not in text)
    assert read_trace(Reply("x", text, CUT), "B") == ("", CUT_OFF)


def test_traces_are_published_with_their_items(
    tmp_path: Path, picture: Callable[..., bytes], item_server: ItemServer
) -> None:
    """The server's letters are right by chance: some items have a trace, and the counts agree."""
    items = []
    for number in range(16):
        one = figure(tmp_path, f"PMC{number}/f", [picture(number, (40, 30))])
        options = five("cyst", "stone", "clot", "node", "scar")
        items.append((item(one.id, f"What does scan {number} show?", options), one))
    write_run(tmp_path, items)
    made = synth(
        source="made",
        stages=("balance", "publish"),
        out=tmp_path,
        quiet=True,
        traces={"url": item_server.url("plain", "thinker")},
    )
    traced = made.items.filter(made.items["reasoning"] != "")
    assert 0 < len(traced) < 16
    assert set(traced["reasoning"]) == {"It is plain to see."}
    known = json.loads((tmp_path / "synth/dataset/statistics.json").read_text())
    told = known["traces"]
    assert told == {"asked": 16, "kept": len(traced), "left_out": {WRONG: 16 - len(traced)}}
    write_synthesis_report(made.run)
    for name in ("synth/dataset/README.md", "report.html"):
        assert f"{len(traced)} kept of 16" in (tmp_path / name).read_text()
    with (tmp_path / "synth/dataset/llava.jsonl").open() as lines:
        turns = [[one["value"] for one in json.loads(line)["conversations"]] for line in lines]
    # Reasoning is asked for where the reply has it, and nowhere else.
    assert all(("<think>" in question) == ("<think>" in reply) for question, reply in turns)
    assert sum("<think>" in reply for _, reply in turns) == len(traced)
    with (tmp_path / "synth/dataset/trl.jsonl").open() as lines:
        completed = ["completion" in json.loads(line) for line in lines]
    assert completed == [row["reasoning"] != "" for row in made.items.to_dicts()]
    assert {cost.stage: cost.requests for cost in made.spent} == {"traces": 16}
