"""Commands to copy: whole, with this run's paths, each where there is something for it to do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from heldout.evidence import Rung
from heldout.report._next_steps import commands_folder, further, next_steps, with_paths
from heldout.store import TEXT, Judgement, Run, append
from heldout.verdict.claim import ACTIONS, CORPUS_COVERAGE
from heldout.verdict.overall import REPLACE
from heldout.verdict.text_claims import TOO_FEW


def _run(folder: Path, name: str = "b", settings: dict[str, Any] | None = None) -> Run:
    run = Run.create(folder)
    benchmark = {"name": name, "source": "my bench.jsonl", "items": 40, "settings": settings or {}}
    stages = {"overlap:web": {"corpus": "web"}}
    run.write_json(
        "manifest.json", {**run.manifest(), "inputs": {"benchmark": benchmark}, "stages": stages}
    )
    return run


def _advice(rung: Rung, items: int, benchmark: str = "b") -> dict[str, Any]:
    return {
        "kind": "items",
        "benchmark": benchmark,
        "sentence": ".",
        "action": ACTIONS[rung],
        "items": items,
    }


def _commands(steps: list[dict[str, Any]]) -> list[list[str]]:
    return [shlex.split(command) for step in steps for command in step["commands"]]


def test_leaked_and_undecided_items_have_a_command_each_and_the_training_set_too(
    tmp_path: Path,
) -> None:
    settings = {"mapping": {"answer": "Answer text"}, "images": "img"}
    run = _run(tmp_path / "a run", settings=settings)
    advice = [_advice(Rung.FULL, 2), _advice(Rung.COPY, 9), _advice(Rung.UNDECIDED, 3)]
    advice.append(_advice(Rung.UNCOMPARED, 1))
    steps = next_steps([run], advice)
    assert (
        "11 items " in steps[0]["sentence"]
        and "(29 items stay, 4 of them undecided)" in steps[0]["sentence"]
    )
    assert " 3 of these 4 undecided items" in steps[1]["sentence"]
    # What a step does is not advised again; what none does is.
    assert [record["action"] for record in further(advice, steps)] == [ACTIONS[Rung.UNCOMPARED]]
    assert commands_folder([run]) == ""
    here = Run(Path("runs/b"))
    assert "holds runs/" in commands_folder([here]) and "this page" in commands_folder(
        [here, Run(Path("../c"))]
    )
    assert "train on web" in steps[2]["sentence"]
    folder = str(run.path)
    assert _commands(steps) == [
        [
            *("heldout", "sanitize", "my bench.jsonl", "--map", "answer=Answer text"),
            *("--images", "img", "--run", folder, "--out", "clean-b"),
        ],
        ["heldout", "review", folder],
        ["heldout", "report", folder],
        ["heldout", "gate", folder, "--out", "gate"],
    ]


def test_a_split_that_would_be_empty_is_not_asked_for(tmp_path: Path) -> None:
    gone = {**_advice(Rung.FULL, 40), "action": REPLACE, "sentence": "Use another benchmark."}
    steps = next_steps([_run(tmp_path / "run")], [gone, _advice(Rung.FULL, 40)])
    assert [words[1] for words in _commands(steps)] == ["gate"]
    assert steps[0]["sentence"] == "Use another benchmark."


def test_nothing_leaked_nothing_to_remove(tmp_path: Path) -> None:
    assert next_steps([_run(tmp_path / "run")], []) == []
    steps = next_steps([_run(tmp_path / "near")], [_advice(Rung.LOOK_ALIKE, 4)])
    assert [words[1] for words in _commands(steps)] == ["review", "report"]


def test_similar_words_alone_have_the_command_that_settles_and_the_one_that_removes(
    tmp_path: Path,
) -> None:
    run = _run(tmp_path / "run")
    advice = [_advice(Rung.SIMILAR, 24), _advice(Rung.WORDING, 1)]
    steps = next_steps([run], advice)
    folder = str(run.path)
    removed = ("--run", folder, "--policy", "soft", "--text", "--out", "clean-unread-b")
    assert "25 items" in steps[0]["sentence"] and "these 25 items" in steps[1]["sentence"]
    assert _commands(steps) == [
        ["heldout", "review", folder, "--kind", "texts"],
        ["heldout", "report", folder],
        ["heldout", "sanitize", "my bench.jsonl", *removed],
    ]
    assert further(advice, steps) == []
    # Beside doubtful pictures that policy would remove more than the words.
    steps = next_steps([run], [*advice, _advice(Rung.LOOK_ALIKE, 3)])
    assert "sanitize" not in [words[1] for words in _commands(steps)]
    append(run.path, Judgement("ada", TEXT, "0" * 24, "same question"))
    second = _commands(next_steps([run], advice))[0]
    assert second[3:] == ["--rater", "rater-2", "--blind", "--kind", "texts"]


@pytest.mark.parametrize("installed", [True, False])
def test_rewordings_that_nobody_looked_for_are_searched_by_the_same_command(
    tmp_path: Path, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "heldout.report._next_steps.installed_text_encoder", lambda name: "e" if installed else None
    )
    run = _run(tmp_path / "run")
    asked = ["heldout", "overlap", "b.jsonl", "--against", "web", "--out", "run"]
    manifest = {**run.manifest(), "commands": [[*asked, "--text-encoder", "none"]]}
    run.write_json("manifest.json", manifest)
    control = {"name": "rewordings", "outcome": "missing", "reason": "r"}
    claim = {"id": "text/web", "status": "qualified", "controls": [control]}
    run.write_json("claims.json", {"claims": [{**claim, "cell": {"corpus": "web"}}]})
    commands = _commands(next_steps([run], []))
    assert commands[-1] == asked
    assert [words[0] for words in commands[:-1]] == ([] if installed else ["pip"])


def test_of_a_small_benchmark_the_nearest_pairs_are_read_and_not_searched_again(
    tmp_path: Path,
) -> None:
    run = _run(tmp_path / "run")
    asked = ["heldout", "overlap", "b.jsonl", "--against", "web", "--out", "run"]
    run.write_json("manifest.json", {**run.manifest(), "commands": [asked]})
    control = {"name": "rewordings", "outcome": "missing", "reason": f"{TOO_FEW} (8)"}
    claim = {"id": "text/web", "status": "qualified", "controls": [control]}
    run.write_json("claims.json", {"claims": [{**claim, "cell": {"corpus": "web"}}]})
    assert _commands(next_steps([run], [])) == [
        ["heldout", "review", str(run.path), "--kind", "texts"]
    ]


@pytest.mark.parametrize(("rule", "steps"), [("words/parts-unread", 1), ("words/evident", 0)])
def test_what_could_not_be_read_is_mended_and_searched_again(
    tmp_path: Path, rule: str, steps: int
) -> None:
    run = _run(tmp_path / "run")
    asked = ["heldout", "overlap", "b.jsonl", "--against", "web", "--out", "run"]
    run.write_json("manifest.json", {**run.manifest(), "commands": [asked]})
    control = {"name": CORPUS_COVERAGE, "outcome": "failed", "reason": "r"}
    claim = {"id": "text/web", "status": "qualified", "rule": rule, "controls": [control]}
    run.write_json("claims.json", {"claims": [{**claim, "cell": {"corpus": "web"}}]})
    assert _commands(next_steps([run], [])) == [asked] * steps


def test_what_was_not_done_yet_comes_last(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    run.write_json("manifest.json", {**run.manifest(), "stages": {}, "models": {"m": {}}})
    commands = _commands(next_steps([run], []))
    assert commands[0] == ["heldout", "detect", str(run.path)]
    assert commands[1][:3] == ["heldout", "overlap", "my bench.jsonl"]
    run.write_json("detections.json", {})
    assert [words[1] for words in _commands(next_steps([run], []))] == ["overlap"]


def test_benchmarks_of_one_audit_pass_one_gate(tmp_path: Path) -> None:
    runs = [_run(tmp_path / name, name) for name in ("b", "c")]
    advice = [_advice(Rung.FULL, 2, name) for name in ("b", "c")]
    commands = _commands(next_steps(runs, advice))
    assert [words[1] for words in commands] == ["sanitize", "sanitize", "gate"]
    assert commands[-1][2:4] == [str(run.path) for run in runs]


@pytest.mark.parametrize(
    ("sentence", "whole"),
    [
        ("judge them (heldout review RUN).", "judge them (heldout review {})."),
        ("judge them: heldout review.", "judge them: heldout review {}."),
        ("heldout review RUN --kind texts", "heldout review {} --kind texts"),
        ("heldout impact PREDICTIONS --run RUN.", "heldout impact PREDICTIONS --run {}."),
        ("heldout review shows all", "heldout review shows all"),
    ],
)
def test_no_sentence_leaves_the_folder_to_the_reader(
    tmp_path: Path, sentence: str, whole: str
) -> None:
    run = _run(tmp_path / "my run")
    once = with_paths(sentence, run)
    assert once == whole.format(shlex.quote(str(run.path)))
    assert with_paths(once, run) == once


def test_another_split_of_the_same_data_is_divided_anew_by_a_command(tmp_path: Path) -> None:
    gone = {**_advice(Rung.FULL, 40), "action": REPLACE, "sentence": "Use another benchmark."}
    for source, given in (
        ("data#split=train", True),
        ("other#split=train", False),
        ("data", False),
    ):
        run = _run(tmp_path / source)
        manifest = run.manifest()
        manifest["inputs"]["benchmark"]["source"] = "data#split=test"
        manifest["stages"] = {"overlap:train": {"corpus": "train", "source": source}}
        run.write_json("manifest.json", manifest)
        command = [c for c in _commands(next_steps([run], [gone])) if c[1] == "sanitize"]
        assert bool(command) == given
        if given:
            assert command[0][2:7] == [
                "data#split=test",
                "--resplit",
                source,
                "--run",
                str(run.path),
            ]
