"""Advice as one run can follow it: commands told whole, and what they do."""

from __future__ import annotations

from pathlib import Path

from heldout.evidence import Rung
from heldout.report._next_steps import advice_for
from heldout.store import Run
from heldout.verdict.claim import ACTIONS


def _advice(rung: Rung) -> dict[str, object]:
    return {"kind": "items", "sentence": f"Do it with {rung}.", "action": ACTIONS[rung]}


def test_sanitize_is_said_to_remove_what_the_next_sentence_only_down_weights(
    tmp_path: Path,
) -> None:
    run = Run.create(tmp_path / "run")
    inputs = {"benchmark": {"source": "bench.jsonl"}}
    run.write_json("manifest.json", {**run.manifest(), "inputs": inputs})
    whole, bare = _advice(Rung.FULL), _advice(Rung.COPY)
    (alone,) = advice_for(run, [whole])
    assert alone["sentence"].endswith("without what leaked.")
    told, _ = advice_for(run, [whole, bare])
    assert told["sentence"] != alone["sentence"] and "picture alone" in told["sentence"]
