"""Predictions that nobody could read, and cells that hold none: said, and counted alike in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from impact_run import line, make_run, write
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.detect.impact import study_impact
from heldout.store import Run

ORGANS = ["liver", "heart", "left lung", "spleen"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    items = [{"benchmark_id": str(n), "options": ORGANS, "answer": ORGANS[n % 4]} for n in range(8)]
    return make_run(tmp_path / "run", items, [{"benchmark_id": "0"}])


def told(run: Run, path: Path) -> str:
    found = study_impact(run, [path])
    return " | ".join(found.as_json()["remarks"]["m"])


def test_places_from_zero_are_said_with_what_to_do(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", [{"id": str(n), "prediction": n % 4} for n in range(8)])
    assert "8 of 8 predictions" in told(run, path)
    assert "write 0 as A, 1 as B" in told(run, path)
    found = study_impact(run, [path]).as_json()
    assert found["unparsed_predictions"] == {"m": [str(n) for n in range(8)]}
    shown = CliRunner().invoke(app, ["impact", str(path), "--run", str(run.path)])
    assert "8 of 8 predictions" in shown.output


def test_other_words_get_no_advice_about_places(run: Run, tmp_path: Path) -> None:
    said = ["A", "who knows", "7", "D", "A", "B", "C", "D"]
    path = write(
        tmp_path / "m.jsonl", [{"id": str(n), "prediction": s} for n, s in enumerate(said)]
    )
    sentence = told(run, path)
    assert "2 of 8 predictions" in sentence and "(2 items: 1, 2)" in sentence
    assert "write 0 as A" not in sentence


def test_all_read_says_nothing(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", [{"id": str(n), "prediction": "A"} for n in range(8)])
    assert told(run, path) == ""


def test_null_and_empty_cells_count_alike_and_missing_rows_are_left_out(
    run: Run, tmp_path: Path
) -> None:
    said: list[Any] = ["A", "B", "", None, "A", "B", "C"]  # and no row for item 7
    for kind in ("jsonl", "csv"):
        path = tmp_path / kind / f"m.{kind}"
        path.parent.mkdir()
        with path.open("w", newline="") as file:
            if kind == "jsonl":
                for n, one in enumerate(said):
                    file.write(json.dumps({"id": str(n), "prediction": one}) + "\n")
            else:
                csv.writer(file).writerows([["id", "prediction"], *enumerate(said)])
        study = study_impact(run, [path])
        whole = line(study.impacts[0], "original", "")
        assert (whole.items, whole.value) == (7, 5 / 7)
        assert study.empty == {"m": ["2", "3"]}
        assert [(drop.id, drop.reason) for drop in study.dropped["m"]] == [("7", "no prediction")]


def test_below_eight_clusters_a_rate_has_an_interval_and_a_difference_has_none(
    run: Run, tmp_path: Path
) -> None:
    said = ["A", "B", "A", "D", "A", "C", "C"]  # seven items, each a cluster
    path = write(
        tmp_path / "m.jsonl", [{"id": str(n), "prediction": s} for n, s in enumerate(said)]
    )
    impact = study_impact(run, [path]).impacts[0]
    whole = line(impact, "original", "")
    assert whole.clusters == 7 and whole.interval is not None
    assert whole.interval.low < whole.value < whole.interval.high  # type: ignore[operator]
    assert line(impact, "leaked", "copy").gain_interval is None
    assert [owed.interval for owed in impact.owed] == [None]
