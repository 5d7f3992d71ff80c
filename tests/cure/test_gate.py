"""The gate before training: which rows must go, and a report that CI can read."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.cure import write_gate
from heldout.cure._coverage import what_was_not_searched
from heldout.cure.gate import JunitCase, junit
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.overlap import forget_texts, scan
from heldout.store import Run, make_table

Picture = Callable[..., bytes]
HOSTILE = 'r<2>&"\n]]>\x1b[31m'


def scanned(bench: Path, corpus: Path, out: Path) -> Run:
    run = Run.create(out, command=["test"])
    with run.writing(), open_engine("local", 1) as engine:
        scan(read_benchmark(bench), [open_corpus(str(corpus), name="mix")], run, engine, quiet=True)
        forget_texts(run)
    return run


def item(name: str, n: int) -> dict[str, Any]:
    return {"id": f"{name}{n}", "image": f"{n}.png", "question": "q?", "answer": f"x{n}"}


@pytest.fixture
def data(tmp_path: Path, picture: Picture) -> Path:
    """Two benchmarks and a training set that holds two pictures of the first, one of them twice."""
    for n in range(9):
        (tmp_path / f"{n}.png").write_bytes(picture(n))
    files: dict[str, list[dict[str, Any]]] = {
        "one": [item("a", n) for n in range(4)],
        "two": [item("b", n) for n in (4, 5)],
        "mix": [
            {"id": "r1", "image": "0.png", "question": "else?", "answer": "y"},
            {"id": HOSTILE, "image": "0.png", "question": "q?", "answer": "x0"},
            {"id": "r3", "image": "1.png", "question": "else?", "answer": "y"},
            {"id": "r4", "image": "8.png", "question": "q?", "answer": "x0"},
        ],
    }
    for name, rows in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_gate_names_the_rows_and_the_rest_of_the_training_set_passes(data: Path) -> None:
    runs = [
        scanned(data / f"{name}.jsonl", data / "mix.jsonl", data / name) for name in ("one", "two")
    ]
    gate = write_gate(runs, data / "gate")
    assert not gate.passed
    assert gate.rows == 3
    assert gate.sentence().startswith("Gate failed: 3 training")
    assert [(one.benchmark, one.leaked, one.rows) for one in gate.protected] == [
        ("one", 2, 3),
        ("two", 0, 0),
    ]
    rows = pq.read_table(data / "gate/training_rows.parquet").to_pylist()
    reasons = {row["corpus_id"]: (row["benchmark_id"], row["reason"]) for row in rows}
    assert reasons == {
        "r1": ("a0", "image leaked"),
        "r3": ("a1", "image leaked"),
        HOSTILE: ("a0", "image, question and answer leaked"),
    }
    ids = (data / "gate/remove_ids.txt").read_text().splitlines()
    assert len(ids) == 3  # the line break inside an id does not make two of it
    # What the list says is enough: without these rows nothing leaks.
    kept = [
        line
        for line in (data / "mix.jsonl").read_text().splitlines()
        if json.loads(line)["id"] not in reasons
    ]
    (data / "clean.jsonl").write_text("\n".join(kept))
    again = [
        scanned(data / f"{n}.jsonl", data / "clean.jsonl", data / f"{n}2") for n in ("one", "two")
    ]
    opened = write_gate(again, data / "gate2")
    assert opened.passed
    assert opened.protected[0].unsearched == ("words",)  # this run compared pictures alone
    assert opened.sentence().endswith("for: words.")
    assert (data / "gate2/remove_ids.txt").read_text() == ""


def test_a_search_that_was_killed_before_its_texts_does_not_pass(data: Path) -> None:
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    assert write_gate(run, data / "whole").passed
    limits = len(list(what_was_not_searched(run)))
    manifest = run.read_json("manifest.json")
    del manifest["text"]
    run.write_json("manifest.json", manifest)
    killed = Run.open(data / "run")
    gate = write_gate(killed, data / "killed")
    assert not gate.passed
    assert len(gate.protected[0].problems) == 1
    assert len(list(what_was_not_searched(killed))) == limits + 1


def test_a_language_that_was_not_read_is_named(data: Path) -> None:
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    read = {"encoder": "e", "rewordings": {}, "counts": {"text_other_language": 0}}
    for count, ways in ((0, 0), (2, 1)):
        counts = {"text_other_language": count}
        run.update("text", {"mix": {**read, "counts": counts}}, replace=True)
        gate = write_gate(Run.open(run.path), data / f"gate{count}")
        assert len(gate.protected[0].unsearched) == ways


def test_what_a_gate_passes_over_is_named(data: Path) -> None:
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    read = {"encoder": "e", "counts": {}, "rewordings": {"threshold": 0.99, "below_threshold": 3}}
    run.update("text", {"mix": read}, replace=True)
    manifest = run.read_json("manifest.json")
    for stage in manifest["stages"].values():
        stage["counts"]["lost_items"] = 1
    run.write_json("manifest.json", {**manifest, "text": {"mix": read}})
    gate = write_gate(Run.open(run.path), data / "gate")
    rows, threshold = gate.protected[0].unsearched
    assert rows.startswith("1 row ") and "0.99" in threshold


def test_a_training_set_of_which_nothing_could_be_compared_does_not_pass(tmp_path: Path) -> None:
    asked = ("How many pears are in the blue box?", "Who carried the grey ladder into the barn?")
    rows = [{"id": str(k), "question": question} for k, question in enumerate(asked)]
    (tmp_path / "bench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, question in (("other", "Which knot holds the tent in a storm?"), ("empty", None)):
        row = {"id": "a", "question": question, "answer": None}
        source = tmp_path / f"{name}.jsonl"
        source.write_text(json.dumps(row) + "\n")
        run = audit_overlap(tmp_path / "bench.jsonl", source, tmp_path / name, quiet=True).run
        gate = write_gate(run, tmp_path / f"gate-{name}")
        compared = question is not None
        assert (gate.passed, len(gate.protected[0].problems)) == (compared, int(not compared))


def test_the_training_set_is_written_again_without_the_rows_in_its_own_format(data: Path) -> None:
    """Rows of a table verbatim; a conversation goes as a whole, and so does a sample of a tar."""
    run = scanned(data / "one.jsonl", data / "mix.jsonl", data / "run")
    gate = write_gate(run, data / "gate", clean=True)
    (cleaned,) = gate.cleaned
    assert (cleaned.kept, cleaned.removed, cleaned.reason) == (1, 3, "")
    assert cleaned.path == data / "gate/clean/mix/mix.jsonl"
    lines = (data / "mix.jsonl").read_text().splitlines()
    assert cleaned.path.read_text().splitlines() == lines[3:]
    assert (cleaned.path.parent / "8.png").is_file() and not (
        cleaned.path.parent / "0.png"
    ).exists()
    assert str(cleaned.path) in gate.sentence()
    again = scanned(data / "one.jsonl", cleaned.path, data / "again")
    assert write_gate(again, data / "gate2", clean=True).passed
    turns = [
        {"from": "human", "value": "<image>\nq?"},
        {"from": "gpt", "value": "x0"},
        {"from": "human", "value": "and what else is there?"},
        {"from": "gpt", "value": "nothing"},
    ]
    rows = [{"id": str(n), "image": f"{n}.png", "conversations": turns} for n in (0, 8)]
    (data / "talk.json").write_text(json.dumps(rows))
    talk = scanned(data / "one.jsonl", data / "talk.json", data / "talk")
    (cleaned,) = write_gate(talk, data / "gate3", clean=True).cleaned
    assert cleaned.path is not None
    assert [row["id"] for row in json.loads(cleaned.path.read_text())] == ["8"]
    with tarfile.open(data / "shard.tar", "w") as tar:
        for n, key in ((0, "a"), (8, "b")):
            tar.add(data / f"{n}.png", f"{key}.png")
            tar.add(data / "one.jsonl", f"{key}.txt")
    tarred = scanned(data / "one.jsonl", data / "shard.tar", data / "tarred")
    (cleaned,) = write_gate(tarred, data / "gate4", clean=True).cleaned
    assert (cleaned.kept, cleaned.removed) == (1, 1) and cleaned.path is not None
    with tarfile.open(cleaned.path) as tar:  # a sample goes as a whole
        assert tar.getnames() == ["b.png", "b.txt"]
        copied = tar.extractfile("b.png")
        assert copied is not None and copied.read() == (data / "8.png").read_bytes()
    with zipfile.ZipFile(data / "shard.zip", "w") as archive:
        archive.write(data / "0.png", "a.png")
    zipped = scanned(data / "one.jsonl", data / "shard.zip", data / "zipped")
    (left,) = write_gate(zipped, data / "gate5", clean=True).cleaned
    assert left.path is None and left.reason == "every row would go"


def test_junit_is_well_formed_whatever_the_ids_are(data: Path) -> None:
    runs = [
        scanned(data / f"{name}.jsonl", data / "mix.jsonl", data / name) for name in ("one", "two")
    ]
    write_gate(runs, data / "gate")
    content = (data / "gate/junit.xml").read_bytes()
    suite = ElementTree.fromstring(content).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    failure = cases["one"].find("failure")
    assert failure is not None and failure.text is not None
    assert re.findall(r"\d+", failure.get("message", "")) == ["2", "4", "3"]
    assert 'r<2>&"' in failure.text
    assert "\x1b" not in failure.text
    assert cases["two"].find("failure") is None
    write_gate(runs, data / "again")
    assert (data / "again/junit.xml").read_bytes() == content


def test_a_training_set_that_was_not_read_in_whole_does_not_pass(data: Path) -> None:
    (data / "mix.jsonl").write_text(
        '{"id": "r4", "image": "8.png"}\n{"id": "r5", "image": "gone.png"}\n'
    )
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    gate = write_gate(run, data / "gate")
    assert not gate.passed
    assert gate.rows == 0
    assert "not read" in gate.sentence()
    suite = ElementTree.fromstring((data / "gate/junit.xml").read_bytes()).find("testsuite")
    assert suite is not None and suite.get("errors") == "1"


@pytest.mark.parametrize(("whole", "passed"), [(1, False), (120, True)])
def test_pictures_of_the_benchmark_that_cannot_be_read_are_named(
    data: Path, whole: int, passed: bool
) -> None:
    rows = [{**item("b", 4), "id": f"b{n}"} for n in range(whole)]
    rows.append({"id": "lost", "image": "gone.png", "question": "q?", "answer": "a"})
    (data / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gate = write_gate(scanned(data / "two.jsonl", data / "mix.jsonl", data / "run"), data / "gate")
    assert gate.passed == passed
    named = (gate.protected[0].problems or gate.protected[0].unsearched)[-1]
    assert named.startswith("pictures ")
    assert re.findall(r"\d+", named) == ["1", str(whole + 1)]


def test_undecided_matches_are_listed_and_strict_removes_them(data: Path) -> None:
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    row = {
        "benchmark_id": "b4",
        "image_index": 0,
        "corpus": "mix",
        "corpus_id": "r4",
        "method": "x",
        "similarity": 0.9,
        "degree": "none",
        "relation": "undecided",
        "transform": "crop",
        "modality": "none",
        "label_relation": "unknown",
        "evidence": "{}",
    }
    near = {**row, "corpus_id": "r3", "relation": "look-alike", "degree": "hard"}
    run.write_table("matches", make_table("matches", [row, near]))
    gate = write_gate(run, data / "gate")
    assert gate.passed
    assert gate.protected[0].doubtful == 1
    assert "proven" in gate.sentence() and "1 item has matches" in gate.sentence()
    assert pq.read_table(data / "gate/training_doubtful.parquet")["corpus_id"].to_pylist() == ["r4"]
    strict = write_gate(run, data / "strict", strict=True)
    assert not strict.passed
    assert (data / "strict/remove_ids.txt").read_text() == "r4\n"


def test_words_fail_the_gate_with_their_answer_only(data: Path) -> None:
    run = scanned(data / "two.jsonl", data / "mix.jsonl", data / "run")
    picture = {
        "benchmark_id": "b4",
        "image_index": 0,
        "corpus": "mix",
        "corpus_id": "r4",
        "method": "x",
        "similarity": 0.9,
        "degree": "none",
        "relation": "undecided",
        "transform": "crop",
        "modality": "none",
        "label_relation": "unknown",
        "evidence": "{}",
    }
    run.write_table("matches", make_table("matches", [picture]))
    names = ("benchmark_id", "corpus_id", "relation", "degree", "answer_relation", "method")
    rows = [
        ("b4", "r4", "same item", "hard", "same", "exact"),  # an undecided picture excuses nothing
        ("b5", "r3", "same question", "hard", "unknown", "exact"),
        ("b5", "r1", "same source", "soft", "unknown", "provenance"),  # a hint, no match of words
    ]
    run.write_table(
        "text_matches",
        make_table(
            "text_matches",
            (
                {
                    **dict(zip(names, row, strict=True)),
                    "corpus": "mix",
                    "field": "question",
                    "corpus_field": "question",
                    "similarity": 1.0,
                    "evidence": "{}",
                }
                for row in rows
            ),
        ),
    )
    gate = write_gate(run, data / "gate")
    assert gate.sentence().startswith("Gate failed: 1 training")
    assert (data / "gate/remove_ids.txt").read_text() == "r4\n"
    doubtful = pq.read_table(data / "gate/training_doubtful.parquet").to_pylist()
    assert [(row["corpus_id"], row["reason"]) for row in doubtful] == [
        ("r3", "question without its answer")
    ]
    write_gate(run, data / "strict", strict=True)
    assert (data / "strict/remove_ids.txt").read_text() == "r3\nr4\n"


def test_a_run_without_a_scan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished scan"):
        write_gate(Run.create(tmp_path / "run"), tmp_path / "gate")


def test_details_are_cut_where_ci_would_refuse_them() -> None:
    detail = "\n".join(f"row {n} holds item {n}" for n in range(20_000))
    report = junit("gate", [JunitCase("b", ("many", detail), None)])
    assert len(report) < 150_000
    failure = ElementTree.fromstring(report).find("testsuite/testcase/failure")
    assert failure is not None and failure.text is not None
    assert failure.text.endswith(" training_rows.csv")
