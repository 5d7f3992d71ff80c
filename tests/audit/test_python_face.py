"""Verbs as functions: the same results as the commands, and a record of how they were called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import heldout
from heldout.errors import InputError
from heldout.store import Run, invocation


def test_detect_report_compare_and_export_from_python(finished_folder: Path) -> None:
    folder = finished_folder / "out" / "leaky"
    detection = heldout.detect(folder, baselines=["clean"], permutations=199)  # type: ignore[operator]
    assert {"order-trend", "top-k-overlap"} <= set(detection.findings["detector"])
    assert detection.claims["status"].is_not_null().all()
    assert "model" in detection.untested.columns
    assert detection.run.path == folder and "<table" in detection._repr_html_()
    assert repr(heldout.read_benchmark(finished_folder / "leaky" / "test.jsonl")).count("\n") == 0
    report = heldout.report(detection.run)  # type: ignore[operator]
    assert report.page.name == "report.html" and len(report.claims) > len(detection.claims)
    assert set(detection.findings["detector"]) <= set(report.findings["detector"])
    comparison = heldout.compare(folder, folder)
    assert comparison.is_empty and comparison.claims.is_empty() and comparison.findings.is_empty()
    card = heldout.export(folder, "bibtex")
    assert card.written == () and "@software{heldout" in str(card)
    written = heldout.export(folder, "hf-card", out=folder / "cards" / "card.md")
    assert [path.read_text() for path in written.written] == [written.text]
    for made in (detection, report, comparison, written, heldout.Run.open(folder)):
        assert "\n" not in repr(made) and len(repr(made)) < 300
        assert made is comparison or str(folder) in repr(made)
    with pytest.raises(InputError, match="^to: "):
        heldout.export(folder, "word")
    with pytest.raises(InputError, match="^rank_by: "):
        heldout.detect(folder, rank_by="loss")  # type: ignore[operator]
    assert heldout.report(finished_folder / "out").conclusion is None  # type: ignore[operator]


def test_impact_from_python_is_kept_beside_the_run(finished_folder: Path) -> None:
    folder = finished_folder / "out" / "leaky"
    rows = [json.loads(line) for line in (finished_folder / "answers-leaky.jsonl").open()]
    predictions = finished_folder / "predictions.jsonl"
    predictions.write_text(
        "".join(
            json.dumps({"id": row["id"], "correct": int(row["reply"] != "unsure")}) + "\n"
            for row in rows
        )
    )
    study = heldout.impact(predictions, run=folder)
    assert study.run is not None and study.path == folder / "impact-predictions.json"
    assert {"leaked", "non-leaked"} <= set(study.lines["subset"])
    assert "\n" not in repr(study) and str(study.path) in repr(study)
    with pytest.raises(InputError, match="what leaked"):
        heldout.impact(predictions)
    with pytest.raises(InputError, match="^templates: "):
        heldout.impact(predictions, run=folder, templates="simple")


def test_a_run_says_which_function_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ipykernel_launcher.py", "-f", "kernel-123.json"])
    assert invocation() == ["python", "heldout"]
    run = Run.create(tmp_path / "run")
    assert run.manifest()["commands"] == [["python", f"heldout.Run.create({str(run.path)!r})"]]
    with pytest.raises(InputError):
        heldout.detect(run, baselines=["x"])  # type: ignore[operator]
