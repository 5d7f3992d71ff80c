"""heldout lab conform finds what is wrong with a detector; the leaderboard takes results of others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command_line import run_inside
from heldout.detect import Detector, DetectSettings, Outcome, ScoreTables, detectors
from heldout.errors import InputError
from heldout.lab import (
    ConformSettings,
    conform,
    find_package,
    read_results,
    results_of,
)
from heldout.lab.power import conform as conformance
from heldout.lab.power.leaderboard import rows_of

HALVES = Path(__file__).parents[2] / "example_package" / "heldout_halves.py"
ROWS = Path(__file__).parents[3] / "docs" / "data" / "detector-power.parquet"
SHORT = ConformSettings(cells=20, power_cells=4, doses=(0.0, 4.0), permutations=99)
QUICK = (
    "--cells",
    "20",
    "--power-cells",
    "4",
    "--dose",
    "0",
    "--dose",
    "4",
    "--permutations",
    "99",
)


def changed(**fields: object) -> Detector:
    """loss, with every finding changed."""
    plain = detectors()["loss"]

    def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
        for finding in plain.find(tables, settings):
            known = {name: value for name, value in fields.items() if hasattr(finding, name)}
            yield finding.model_copy(update=known)

    return replace(plain, find=find)


def of_the_seed_of_nobody() -> Detector:
    plain, rng = detectors()["loss"], np.random.default_rng()

    def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
        seed = int(rng.integers(1 << 30))
        yield from plain.find(tables, settings.model_copy(update={"seed": seed}))

    return replace(plain, find=find)


def in_need_of_a_baseline() -> Detector:
    plain = detectors()["loss"]

    def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
        assert settings.baselines[0]
        yield from plain.find(tables, settings)

    return replace(plain, find=find)


@pytest.mark.parametrize(
    ("detector", "requirement", "detail"),
    [
        (changed(p=0.01), "false alarms", "20 of 20"),
        (changed(direction="not seen"), "power", "dose 4: 0 %"),
        (of_the_seed_of_nobody(), "repeatable", "another finding"),
        (changed(blind_to=[]), "complete", "blind_to"),
        (changed(detector="min-k"), "complete", "another name"),
        (in_need_of_a_baseline(), "missing input", "raised IndexError"),
        (changed(reason=" "), "missing input", "without a reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_detector_fails_the_requirement(
    detector: Detector, requirement: str, detail: str
) -> None:
    (check,) = conform(detector, SHORT, only=[requirement]).checks
    assert not check.passed
    assert detail in check.detail


def test_a_test_that_never_fires_by_chance_is_too_careful(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = conformance.clean_cells(changed(p=0.9), 1)  # the same in every cell
    monkeypatch.setattr(conformance, "clean_cells", lambda _, cells, **how: [finding] * cells)
    many = SHORT.model_copy(update={"cells": 120})  # fewer than 105 cannot tell
    (check,) = conform(changed(p=0.9), many, only=["false alarms"]).checks
    assert not check.passed and "too careful" in check.detail


def test_a_package_is_a_file_a_module_a_detector_or_heldout() -> None:
    assert [known.name for known in find_package(str(HALVES)).detectors] == [
        "first-half",
        "first-token",
    ]
    single = find_package("heldout.detect.order_trend:DETECTOR")
    assert [known.name for known in single.detectors] == ["order-trend"]
    assert find_package("min-k").detectors == (detectors()["min-k"],)
    assert len(find_package("heldout").detectors) > 15
    for name, message in (
        ("no-such-package", "no module"),
        ("no/such/file.py", "there is no such file"),
        ("heldout.errors", "holds no heldout.detect.Detector"),
        ("heldout.detect.order_trend:NAME", "holds no heldout.detect.Detector NAME"),
    ):
        with pytest.raises(InputError, match=message):
            find_package(name)


def test_the_command_writes_results_with_which_a_detector_joins_the_leaderboard(
    tmp_path: Path,
) -> None:
    file = tmp_path / "halves.json"
    done = run_inside(
        *("lab", "conform", HALVES, *QUICK, "--out", file, "--quiet"),
        *("--authors", "Doe | Roe", "--url", "https://example.org/halves"),
    )
    assert done.returncode == 0, done.stderr
    assert "first-token" in done.stdout and "passed" in done.stdout
    rows = pl.read_parquet(ROWS).filter(pl.col("detector").is_in(["loss", "blind"]))
    rows.write_parquet(tmp_path / "rows.parquet")
    done = run_inside(
        *("lab", "leaderboard", file, "--rows", tmp_path / "rows.parquet"),
        *("--publish", tmp_path / "site"),
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/leaderboard.md").read_text()
    assert "| first-half | [Doe / Roe](https://example.org/halves) |" in page
    assert "@misc{halves2026," in page
    (line,) = [line for line in page.splitlines() if line.startswith("| loss ")]
    shares = [cell.strip() for cell in line.split("|")[4:6]]
    published = (ROWS.parents[1] / "measured/leaderboard.md").read_text()
    assert len(shares) == 2 and all(re.match(r"\d+ of \d+", share) for share in shares)
    assert any(
        row.startswith("| loss ") and all(f"| {share}" in row for share in shares)
        for row in published.splitlines()
    )
    assert "loss" in (tmp_path / "site/figures/leaderboard.svg").read_text()


def test_a_detector_that_fails_ends_the_command_with_1(tmp_path: Path) -> None:
    text = HALVES.read_text().replace("p=p,", "p=0.001,")
    (tmp_path / "wrong_halves.py").write_text(text)
    done = run_inside(
        "lab", "conform", f"{tmp_path / 'wrong_halves.py'}:FIRST_HALF", *QUICK, "--quiet", "--json"
    )
    assert done.returncode == 1
    (entry,) = json.loads(done.stdout)["detectors"]
    failed = [
        check["requirement"] for check in entry["conformance"]["checks"] if not check["passed"]
    ]
    assert failed == ["false alarms"]


def test_rows_of_others_are_judged_by_our_truth(tmp_path: Path) -> None:
    rows = pl.read_parquet(ROWS).filter(pl.col("detector") == "loss")
    theirs = rows.with_columns(detector=pl.lit("first-token"), role=pl.lit("clean"), dose=0)
    theirs.write_parquet(tmp_path / "power.parquet")
    package = find_package(f"{HALVES}:FIRST_TOKEN")
    tested = [(package.detectors[0], conform(package.detectors[0], SHORT, only=["complete"]))]
    results = results_of(package, tested, rows=tmp_path / "power.parquet")
    joined = rows_of([results], rows)
    ours, added = (joined.filter(pl.col("detector") == name) for name in ("loss", "first-token"))
    tested_rows = ours.filter(pl.col("effect").is_not_null())
    assert added["role"].to_list() == tested_rows["role"].to_list()  # not what the file said
    assert added["dose"].to_list() == tested_rows["dose"].to_list()
    with pytest.raises(InputError, match="measured already"):
        rows_of([results, results], rows)
    stranger = results.rows[0].model_copy(update={"model": "gpt"})
    with pytest.raises(InputError, match="no model gpt"):
        rows_of([results.model_copy(update={"rows": [stranger]})], rows)


def test_a_file_that_is_not_ours_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for content, message in (
        ("{", "is not what heldout lab conform"),
        ('{"schema_version": 1}', "package: Field required"),
        (
            json.dumps(
                {
                    "package": "p",
                    "heldout": "0",
                    "command": "c",
                    "detectors": [],
                    "url": "javascript:alert(1)",
                }
            ),
            "url",
        ),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=message):
            read_results(file)
    with pytest.raises(InputError, match="no such file"):
        read_results(tmp_path / "missing.json")
