"""heldout lab leaks, whole: render, plant, audit, count; then go on from what is there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from command_line import run_inside
from heldout.scenes import KINDS, REWORDED_ALONE

ITEMS = 56


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("cv2")
    return tmp_path_factory.mktemp("lab") / "leaks"


def leaks(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return run_inside(
        "lab",
        "leaks",
        "--world",
        "films",
        "--seeds",
        "1",
        "--each",
        "1",
        "--items",
        str(ITEMS),
        "--nearest",
        "1",
        "--workers",
        "1",
        "--quiet",
        "--out",
        out,
        *more,
    )


@pytest.fixture(scope="module")
def done(out: Path) -> subprocess.CompletedProcess[str]:
    return leaks(out, "--json")


def test_every_kind_is_counted_and_exact_ones_are_found(
    done: subprocess.CompletedProcess[str], out: Path
) -> None:
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    recalls = {one["kind"]: one["levels"] for one in told["pictures"]}
    for kind in KINDS:
        if kind.found_by is not None:
            assert recalls[kind.name]["verified copy"]["n"] == 1
        if kind.found_by in ("bytes", "pixels"):
            assert recalls[kind.name]["verified copy"]["hits"] == 1
            assert recalls[kind.name]["hard"]["hits"] == 1
    labels = {one["kind"]: one["label"] for one in told["pictures"] if one["label"] is not None}
    for name in ("exact bytes with its question and answer", "exact bytes with another answer"):
        assert labels[name]["hits"] == 1
    alarms = {one["kind"]: one["pictures"]["verified copy"]["hits"] for one in told["alarms"]}
    decoys = [kind for kind in (*KINDS, *REWORDED_ALONE.values()) if kind.group == "decoy"]
    assert alarms == {**{kind.name: 0 for kind in decoys}, "stranger": 0}
    rows = pl.read_parquet(out / "data" / "leak-recall.parquet")
    assert len(rows) == ITEMS - 3  # three are broken
    truth = [json.loads(t) for t in (out / "films-0/corpus.truth.jsonl").read_text().splitlines()]
    known = {row["corpus_id"]: row for row in truth}
    assert (rows["kind"] == "stranger").sum() == ITEMS - len(truth)
    assert rows.filter(pl.col("told_by_question") >= pl.col("benchmark_items")).is_empty()
    for row in rows.filter(pl.col("kind") != "stranger").iter_rows(named=True):
        told_truth = known[row["corpus_id"]]
        assert {name: row[name] for name in told_truth} == told_truth
        assert row["pictured"] != row["kind"].endswith(("alone", "in like words"))


def test_it_goes_on_from_what_is_finished_and_refuses_other_settings(
    done: subprocess.CompletedProcess[str], out: Path, tmp_path: Path
) -> None:
    shutil.rmtree(out / "films-0" / "run")  # what is counted is not scanned again
    again = leaks(out, "--json", "--publish", str(tmp_path / "docs"))
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert not (out / "films-0" / "run").exists()
    page = (tmp_path / "docs" / "leak-recall.md").read_text()
    assert "--publish" in page and "## Films" in page and "watermarked" in page
    other = leaks(out, "--nearest", "2")
    assert other.returncode == 2 and "other settings" in other.stderr
    unknown = leaks(tmp_path / "new", "--world", "moon")
    assert (
        unknown.returncode == 2
        and "--world moon" in unknown.stderr
        and "scenes, films" in unknown.stderr
    )
