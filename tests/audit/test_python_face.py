"""Verbs as functions: the same results as the commands, and a record of how they were called."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from PIL import Image
from typer.testing import CliRunner

import heldout
from heldout.audit.audit_file import AuditFile
from heldout.cli.app import app
from heldout.detect import Cell, Detector, ImpactSettings, NotTestable
from heldout.errors import InputError
from heldout.lab import null_calibration
from heldout.report import PDF, TABLE_FORMATS, ReportSettings
from heldout.report.export.formats import FORMATS
from heldout.report.settings import FORMAT_NAMES
from heldout.store import Run, invocation
from heldout.verdict import Detection, Examination


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


def test_settings_of_report_compare_export_and_check_mean_the_same_everywhere(
    finished_folder: Path,
) -> None:
    folder = finished_folder / "out" / "leaky"
    whole = heldout.report(folder, quiet=True).page.read_text()  # type: ignore[operator]
    arguments = ["report", str(folder), "--megabytes", "0", "--quiet", "--json"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    typed = (folder / "report.html").read_text()
    assert heldout.report(folder, megabytes=0, quiet=True).page.read_text() == typed  # type: ignore[operator]
    start = "UklGR"  # of every WebP picture in base64
    assert start in whole and start not in typed
    settings = AuditFile.model_validate(
        {
            "benchmarks": [{"name": "b", "source": "b"}],
            "report": {"megabytes": 0, "texts": 3},
            "check": {"strict": True},
        }
    )
    assert settings.report == ReportSettings(megabytes=0, texts=3) and settings.check.strict
    assert (*TABLE_FORMATS, *FORMATS, PDF) == FORMAT_NAMES
    with pytest.raises(InputError, match="^examples: "):
        heldout.compare(folder, folder, examples=-1)
    with pytest.raises(InputError, match="^to: "):
        heldout.export(folder)
    source = finished_folder / "broken-lines.jsonl"
    row = {"question": "which\ncolour?", "answer": "red", "image": "picture.png"}
    Image.linear_gradient("L").save(finished_folder / "picture.png")
    source.write_text("".join(json.dumps({**row, "id": str(n)}) + "\n" for n in range(2)))
    loose, strict = heldout.check(source), heldout.check(source, strict=True, examples=0)
    severities = {problem.severity for problem in loose.problems}
    assert loose.ok and "warning" in severities and not strict.ok
    assert all(not problem.examples and problem.count for problem in strict.problems)
    done = CliRunner().invoke(app, ["check", str(source), "--strict", "--examples", "0", "--json"])
    assert done.exit_code == 1 and json.loads(done.stdout)["strict"]


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
    for frame in (study.lines, study.differences):
        assert pl.Null not in frame.schema.values()
    other = finished_folder / "other.jsonl"
    other.write_text('{"id": "nobody", "prediction": "yes"}\n')
    with pytest.raises(InputError, match="the setting map"):
        heldout.impact(other, run=folder)
    with pytest.raises(InputError, match="^metric: "):
        heldout.impact(predictions, run=folder, settings=ImpactSettings(), metric="accuracy")
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


def test_a_detection_without_claims_shows_why(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    cell = Cell(benchmark="bench", model="<m>")
    reason = NotTestable(id="d/m", detector="d", cell=cell, reason="nothing was <recorded>")
    shown = Detection(run, Examination([], [reason], [], {}))._repr_html_()
    assert "nothing was &lt;recorded&gt;" in shown and "&lt;m&gt;" in shown and "<m>" not in shown
    assert Detection(run, Examination([], [], [], {}))._repr_html_() == "<p>no detector was run</p>"


def test_the_detectors_of_the_page_can_be_copied() -> None:
    page = Path(__file__).resolve().parents[2] / "docs/own-detector.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    made = []
    for block in (block for block in blocks if "DETECTOR = " in block):
        names: dict[str, object] = {}
        exec(block, names)
        made.append(names["DETECTOR"])
    assert len(made) == 3
    for detector in made:
        assert isinstance(detector, Detector)
    assert null_calibration(made[-1], 3).cells == 3  # type: ignore[arg-type]
