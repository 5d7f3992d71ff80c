"""What `heldout review` says to do next is a command that takes the judgements in."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from command_line import run_inside
from heldout.cli.review import follow_up
from heldout.review import open_desks
from heldout.store.judgements import ITEM, Judgement, append


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    row = {
        "id": "q",
        "question": "Which vessel is occluded in this patient with aphasia?",
        "answer": "a",
    }
    for name in ("bench", "web"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.jsonl").write_text(
            json.dumps(row)
            + "\n"
            + json.dumps({"id": "r", "question": "What?", "answer": "b"})
            + "\n"
        )
    (tmp_path / "audit.yaml").write_text(
        "benchmarks:\n  - {name: b, source: bench/test.jsonl}\n"
        "corpora:\n  - {name: c, source: web/test.jsonl}\nsearch: {workers: 1}\noutput: out\n"
    )
    return tmp_path / "bench/test.jsonl"


def test_a_run_of_an_audit_is_followed_by_the_audit_again(bench: Path, tmp_path: Path) -> None:
    file, run = tmp_path / "audit.yaml", tmp_path / "out/b"
    assert run_inside("audit", file).returncode == 0
    (desk,) = open_desks(str(run), kind="texts", rater="r")
    assert follow_up(desk, str(run)) == shlex.join(["heldout", "audit", str(file)])
    assert run_inside(*shlex.split(follow_up(desk, str(run)))[1:]).returncode == 0


def test_items_of_a_benchmark_are_followed_by_their_agreement(bench: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    (desk,) = open_desks(str(bench), kind="items", rater="r", out=folder)
    append(folder, Judgement("r", ITEM, desk.cards[0].subject, "accept"))
    told = run_inside(*shlex.split(follow_up(desk, str(bench)))[1:])
    assert told.returncode == 0 and "judged yet" not in told.stdout
    alone = run_inside("review", folder, "--agreement")
    assert alone.returncode == 2
    assert "name that, too" in alone.stderr
