"""heldout detect on a run in which models were only asked."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "verdict"))
from measured_by_hand import NOTHING_MEASURED, measured

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.lab.power.planted_answers import MODELS, planted_answers
from heldout.store import SCHEMAS, Run
from heldout.verdict import MeasuredRates


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers") / "run"
    made, tables = Run.create(folder, command=["test"]), planted_answers(2, dose=2.0, unparsed=0.02)
    known = {
        "name": "planted",
        "fingerprint": "cafe",
        "items": 180,
        "source": "planted.jsonl",
        "reader": "jsonl",
        "split": "test",
    }
    made.update("inputs", {"benchmark": known})
    made.update("models", {name: {"backend": "recorded"} for name in MODELS})
    for name in ("items", "answers"):
        empty = pl.from_arrow(SCHEMAS[name].empty_table())
        assert isinstance(empty, pl.DataFrame)
        whole = pl.concat([empty, getattr(tables, name)], how="diagonal_relaxed")
        made.write_table(name, whole.select(SCHEMAS[name].names).to_arrow().cast(SCHEMAS[name]))
    return folder


def _detect(run: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        app,
        ["detect", str(run), "--verbose", "--permutations", "999", *arguments],
        env={"COLUMNS": "160"},
    )


def test_vanilla_and_circular_are_printed_together(run: Path) -> None:
    done = _detect(run, "--baseline", "baseline", "--detector", "circular")
    assert done.exit_code == 0, done.output
    (line,) = (
        line for line in done.output.splitlines() if line.startswith("circular  target     vanilla")
    )
    assert "circular " in line.split("vanilla", 1)[1]


def _rates(folder: Path, rates: MeasuredRates) -> str:
    path = folder / "detector-rates.json"
    path.write_text(rates.model_dump_json())
    return str(path)


def test_rates_of_an_own_lab_cap_a_claim_and_stand_in_the_list(run: Path, tmp_path: Path) -> None:
    off = _rates(tmp_path, measured("twin-drop", (12, 28), (44, 73)))
    done = _detect(
        run,
        "--baseline",
        "baseline",
        "--detector",
        "twin-drop",
        "--detector",
        "slot-guess",
        "--rates",
        off,
    )
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert re.search(r"twin-drop [a-z ]+ 12 of ", told)
    assert "not measured: slot-guess" in told
    (claim,) = (
        one
        for one in json.loads((run / "claims.json").read_text())["claims"]
        if one["id"] == "twin-drop/target"
    )
    assert (claim["status"], claim["rule"]) == ("qualified", "answers/fires-on-clean")
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.exit_code == 0, shown.output
    page = (run / "report.html").read_text()
    assert "clean, with references" in page and "<strong>off</strong>" in page
    assert "Not measured: slot-guess" in page
    listed = CliRunner().invoke(app, ["detect", "--list", "--rates", off], env={"COLUMNS": "160"})
    (line,) = (one for one in listed.output.splitlines() if one.startswith("twin-drop"))
    assert "12/28 off" in line and "44/73" in line


def test_findings_and_claims_are_kept(run: Path, tmp_path: Path) -> None:
    done = _detect(
        run,
        "--rates",
        _rates(tmp_path, NOTHING_MEASURED),
        "--baseline",
        "baseline",
        "--base",
        "base",
        "--degree",
        "baseline=0",
        "--degree",
        "target=3",
        "--category",
        "category",
        "--json",
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    status = {claim["id"]: claim["status"] for claim in told["claims"]}
    assert status["twin-drop/target"] == "qualified"  # one family of references
    assert "twin-drop/baseline" not in status
    found = {one["id"]: one for one in told["findings"]}
    assert found["twin-consistency/baseline < target"]["direction"] == "seen"
    assert set(found["twin-drop/target"]["details"]["categories"]) == {"colour", "count"}
    kept = json.loads((run / "claims.json").read_text())["claims"]
    assert {claim["id"] for claim in kept} >= set(status)


def test_p_values_that_forget_images_are_in_brackets(run: Path) -> None:
    done = _detect(run, "--detector", "twin-drop")
    (line,) = (
        line
        for line in done.output.splitlines()
        if "twin-drop  target" in line and "original" in line
    )
    assert "(" in line.split("twin", 2)[2]
    assert "share an image" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--degree", "target"], "expected MODEL=VALUE"),
        (["--degree", "target=often"], "expected a number"),
        (["--base", "=base"], "MODEL=VALUE or VALUE"),
        (["--base", "vicuna"], "--base vicuna: "),
        (["--detector", "loss"], "loss reads scores"),
        (["--baseline", "blip"], "scores of 'blip'"),
    ],
)
def test_bad_input_gets_a_sentence(run: Path, arguments: list[str], told: str) -> None:
    done = _detect(run, *arguments)
    assert isinstance(done.exception, InputError)
    assert told in str(done.exception)
