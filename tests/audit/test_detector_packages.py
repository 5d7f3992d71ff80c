"""Detectors of another package: found by their entry point, used by every verb."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
sys.path.insert(0, str(Path(__file__).parents[1] / "lab" / "power"))
from small_grid import write_small_grid

from command_line import run_inside
from heldout.detect import DetectSettings, detectors, run_detectors
from heldout.lab.power.conform import null_calibration, power_by_dose
from heldout.lab.power.planted_scores import MODELS, planted_scores
from heldout.store import Run, make_table
from heldout.verdict import examine

PACKAGE = Path(__file__).parents[1] / "example_package"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as an installer lays it out: its module, and the metadata of its entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    name, version = project["name"], project["version"]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    shutil.copy(PACKAGE / "heldout_halves.py", folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "heldout_halves", raising=False)
    return metadata / "entry_points.txt"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return install(tmp_path / "site", monkeypatch)


def test_detect_report_and_bibtex_know_them(installed: Path, tmp_path: Path) -> None:
    tables = planted_scores(3, dose=4.0)
    run = Run.create(tmp_path / "run", command=["heldout", "score"])
    run.update("inputs", {"benchmark": {"name": "planted", "source": "planted", "items": 1}})
    for name in ("items", "scores"):
        run.write_table(name, make_table(name, getattr(tables, name).to_dicts()))
    listed = json.loads(run_inside("detect", "--list", "--json").stdout)
    assert {"first-half", "first-token"} <= {entry["name"] for entry in listed}
    done = run_inside(
        *("detect", run.path, "--baseline", "baseline", "--unseen", "origin=fresh"),
        *("--permutations", "199", "--json"),
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    claims = {claim["id"]: claim for claim in printed["claims"]}
    half = claims["first-half/target"]  # a family of its own
    assert half["rule"].startswith("order/")
    by_detector = {finding["detector"] for finding in printed["findings"]}
    assert {"first-half", "first-token"} <= by_detector
    (token,) = [f for f in printed["findings"] if f["id"] == "first-token/target"]
    assert token["direction"] == "seen" and token["p"] < 0.05
    assert "first-token/target" in claims["membership/target"]["findings"]
    assert "first-token" in {top["score"] for top in printed["easiest_items"]}


def test_a_claim_on_them_goes_through_their_controls(installed: Path) -> None:
    tables = planted_scores(3, dose=0.0)
    raised = tables.scores.with_columns(
        pl.when((pl.col("model") == "target") & pl.col("benchmark_id").is_in(_early(tables.items)))
        .then(pl.col("sum_logprob") + 9.0)
        .otherwise(pl.col("sum_logprob"))
        .alias("sum_logprob")
    )
    settings = DetectSettings(baselines=("baseline",), permutations=499)
    made = examine(replace(tables, scores=raised), ["first-half"], settings)
    (claim,) = [claim for claim in made.claims if claim.id == "first-half/target"]
    names = [control.name for control in claim.controls]
    assert names[:2] == ["external baseline baseline", "answer length"]
    assert claim.controls[0].outcome == "passed"


def test_an_audit_plans_runs_and_reports_them(
    installed: Path, tmp_path: Path, prepared: Path
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "audit"))
    file = folder / "audit.yaml"
    file.write_text(file.read_text() + "detectors: [first-half, first-token, order-trend]\n")
    plan = json.loads(run_inside("audit", file, "--plan", "--json").stdout)
    assert "first-half/target" in plan["family"]["claims"]["fresh"]
    lacking = {test["detector"] for test in plan["family"]["tests"] if test["lacks"]}
    assert lacking == {"first-token"}  # nobody named items that no model can have seen
    done = run_inside("audit", file, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    run = folder / "out" / "fresh"
    claims = {
        claim["id"]: claim for claim in json.loads((run / "claims.json").read_text())["claims"]
    }
    assert claims["first-half/target"]["status"] != "not testable"
    page = (run / "report.html").read_text()
    assert "first-half" in page
    cited = run_inside("export", run, "--to", "bibtex").stdout
    assert "halves2026" in cited and "% used for: first-half" in cited


def test_the_lab_measures_them(installed: Path, tmp_path: Path) -> None:
    lab = write_small_grid(tmp_path / "lab")
    done = run_inside(
        *("lab", "power", lab, "--out", tmp_path / "out", "--publish", tmp_path / "docs"),
        *("--permutations", "99", "--detector", "first-half", "--detector", "first-token"),
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "docs" / "detector-power.md").read_text()
    assert "| first-half | " in page and "| first-token | " in page
    rows = pl.read_parquet(tmp_path / "docs" / "data" / "detector-power.parquet")
    assert set(rows.filter(pl.col("effect").is_not_null())["detector"]) == {
        "first-half",
        "first-token",
    }
    token = detectors()["first-token"]
    assert null_calibration(token, 15, permutations=99).holds
    none, much = power_by_dose(token, (0.0, 4.0), 4, permutations=99)
    assert none < much


def test_a_package_that_is_broken_or_takes_a_name_has_a_reason_and_ends_nothing(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, expected in (
        ("heldout_halves:MISSING", "heldout-halves cannot be loaded"),
        ("heldout_halves:NAME", "expected a heldout.detect.Detector"),
        ("heldout.detect.order_trend:DETECTOR", "the name of another"),
    ):
        monkeypatch.syspath_prepend(str(tmp_path / "site" / expected))  # the search starts again
        other = "first-token = heldout_halves:FIRST_TOKEN"
        installed.write_text(f"[heldout.detectors]\nfirst-half = {value}\n{other}\n")
        outcomes, _ = run_detectors(planted_scores(0), ("first-half",))
        assert all(expected in getattr(outcome, "reason", "") for outcome in outcomes)
        assert {outcome.cell.model for outcome in outcomes} == set(MODELS)
        assert {"first-token", "order-trend"} <= set(detectors())


def _early(items: pl.DataFrame) -> list[str]:
    images = items["cluster"].unique(maintain_order=True).to_list()
    first = images[: len(images) // 2]
    return items.filter(pl.col("cluster").is_in(first))["benchmark_id"].to_list()
