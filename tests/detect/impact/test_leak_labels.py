"""Labels made elsewhere in place of a scan: what is read, what is refused, what is said."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from impact_run import line, make_run, write
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.detect.impact import study_impact
from heldout.errors import InputError
from heldout.evidence.leak_labels import NOT_VERIFIED, read_leak_labels
from heldout.store import Run

IDS = [str(n) for n in range(30)]


def predictions(folder: Path) -> Path:
    return write(folder / "p.jsonl", [{"id": n, "correct": int(int(n) < 15)} for n in IDS])


def labels(folder: Path, kind: str, values: dict[str, Any]) -> Path:
    path = folder / f"labels.{kind}"
    listed = [{"id": one, "leaked": value} for one, value in values.items()]
    if kind == "jsonl":
        return write(path, listed)
    if kind == "parquet":
        pl.DataFrame(listed).write_parquet(path)
    else:
        pl.DataFrame(listed).write_csv(path, separator="\t" if kind == "tsv" else ",")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("yes", "no"), [(True, False), (1, 0), ("leaked", "clean"), ("hard", "none")]
)
def test_labels_in_every_form_split_the_score(tmp_path: Path, kind: str, yes: Any, no: Any) -> None:
    path = labels(tmp_path, kind, {one: yes if int(one) < 10 else no for one in IDS})
    found = read_leak_labels(str(path), IDS)
    assert (len(found.leaked), len(found.clean), found.unlabelled) == (10, 20, ())
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    impact = study_impact(None, [predictions(tmp_path)], labels=found).impacts[0]
    assert line(impact, "original", "").value == 0.5
    assert line(impact, "leaked", "labelled").value == 1.0
    assert line(impact, "non-leaked", "labelled").value == 0.25


def test_kinds_are_shown_apart_and_undecided_in_neither(tmp_path: Path) -> None:
    kinds = {one: ["hard", "soft", "none", "undecided"][int(one) % 4] for one in IDS}
    found = read_leak_labels(str(labels(tmp_path, "csv", kinds)), IDS)
    impact = study_impact(None, [predictions(tmp_path)], labels=found).impacts[0]
    counts = {(one.leakage, one.subset): one.items for one in impact.lines}
    assert counts["", "original"] == 30
    assert counts["labelled", "leaked"] == 16 and counts["labelled", "non-leaked"] == 7
    assert counts["labelled: hard", "leaked"] == counts["labelled: soft", "leaked"] == 8
    owed = {one.leakage: one.compared for one in impact.owed}
    assert owed == {"labelled": 23, "labelled: hard": 15, "labelled: soft": 15}


def test_a_column_of_kinds_refines_a_column_of_truths(tmp_path: Path) -> None:
    path = write(
        tmp_path / "l.jsonl",
        [
            {"id": "0", "leaked": True, "kind": "copy"},
            {"id": "1", "leaked": True, "kind": None},
            {"id": "2", "leaked": False, "kind": "none"},
            {"id": "3", "leaked": None, "kind": ""},
        ],
    )
    assert read_leak_labels(str(path)).kinds == {"0": "copy", "1": "leaked", "2": ""}


def test_what_has_no_label_is_left_out_and_said(tmp_path: Path) -> None:
    path = labels(tmp_path, "csv", {one: int(int(one) < 10) for one in IDS[:25]})
    found = read_leak_labels(str(path), IDS)
    assert found.unlabelled == ("25", "26", "27", "28", "29") and "25, 26, 27 …" in found.sentence
    run = make_run(tmp_path / "run", [{"benchmark_id": one} for one in IDS], [])
    study = study_impact(run, [predictions(tmp_path)], labels=found)
    assert study.impacts[0].items == 25
    assert [drop.reason for drop in study.dropped["p"]] == ["no leak label"] * 5
    kept = study.as_json()["labels"]
    assert (kept["leaked"], kept["clean"], kept["unlabelled"]) == (10, 15, 5)
    assert kept["note"] == NOT_VERIFIED


def test_a_list_of_leaked_items_alone(tmp_path: Path) -> None:
    path = labels(tmp_path, "csv", dict.fromkeys(IDS[:10], True))
    alone = read_leak_labels(str(path), IDS)
    assert not alone.clean
    remark = alone.summary()["remark"]
    assert remark.endswith(f"{path.name}#unlisted=clean?") and remark[1:] in alone.sentence
    whole = read_leak_labels(str(path), IDS[:10])  # nothing is unlisted
    assert whole.one_class == "no item is labelled clean: nothing can be compared"
    found = read_leak_labels(f"{path}#unlisted=clean", IDS)
    assert len(found.clean) == 20 and not found.unlabelled
    assert found.one_class == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,leaked\n0,1\nx1,1\nx2,0\n", "2 of 3 labelled ids are not in the benchmark: x1, x2"),
        ("id,leaked\n0,1\n0,0\n", "item '0' is clean here and leaked in row 1"),
        ("id,leaked\n0,0.93\n", "the label is 0.93"),
        ("id,other\n0,1\n", "no column says what leaked"),
        ("name,leaked\n0,1\n", "no column says which item it is"),
        ("id,leaked\n,1\n", "the column 'id' is empty"),
        ("id,leaked\n0,\n", "holds no label"),
        ("id,leaked\n0,1,2\n", "too many fields"),
        ("id,leaked,kind\n0,true,none\n", "contradict each other"),
        ("id,leaked,kind\n0,false,leaked\n", "contradict each other"),
        ("id,leaked\n" + "".join(f"{n},kind {n}\n" for n in range(25)), "25 kinds of leak"),
    ],
)
def test_labels_that_cannot_be_right_are_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "l.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        read_leak_labels(str(tmp_path / "l.csv"), IDS)
    assert told in str(caught.value)


def test_columns_are_named_behind_the_file(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("name,found\n0,1\n1,0\n")
    found = read_leak_labels(f"{tmp_path / 'l.csv'}#id=name,leaked=found", IDS)
    assert found.kinds == {"0": "leaked", "1": ""}


def test_the_command_needs_no_run(tmp_path: Path) -> None:
    path = labels(tmp_path, "csv", {one: int(int(one) < 10) for one in IDS})
    bench = write(
        tmp_path / "bench.jsonl",
        [{"id": one, "question": f"{one}?", "answer": "yes"} for one in IDS],
    )
    base = ["impact", str(predictions(tmp_path)), "--leaks", str(path)]
    done = CliRunner().invoke(app, base)
    assert done.exit_code == 0, done.exception
    assert NOT_VERIFIED in " ".join(done.output.split())
    out = tmp_path / "impact.json"
    done = CliRunner().invoke(app, [*base, "--bench", str(bench), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout) == json.loads(out.read_text())
    found = json.loads(out.read_text())
    assert (
        found["benchmark"] == "bench" and found["call"]["leaks_sha256"] == found["labels"]["sha256"]
    )
    for wrong in (base[:2], [*base[:2], "--bench", str(bench)]):
        assert isinstance(CliRunner().invoke(app, wrong).exception, InputError)


def test_labels_take_the_place_of_the_runs_own_matches(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", [{"benchmark_id": one} for one in IDS], [{"benchmark_id": "29"}]
    )
    path = labels(tmp_path, "csv", {one: int(int(one) < 10) for one in IDS})
    done = CliRunner().invoke(
        app, ["impact", str(predictions(tmp_path)), "--leaks", str(path), "--run", str(run.path)]
    )
    assert done.exit_code == 0, done.exception
    kept = Run.open(run.path).read_json("impact-p.json")
    assert {one["leakage"] for one in kept["impacts"][0]["lines"]} == {"", "labelled"}
