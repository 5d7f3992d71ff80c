"""heldout detect and heldout lab confound, as a stranger meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import ForkedCommand, run_inside
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.lab.power.planted_scores import planted_scores
from heldout.store import SCHEMAS, Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("detect") / "run"
    made, tables = Run.create(folder, command=["test"]), planted_scores(2, dose=3.0)
    made.update("inputs", {"benchmark": {"name": "planted", "fingerprint": "cafe"}})
    for name in ("items", "scores", "order_joint", "order_neighbour"):
        frame = getattr(tables, name).select(SCHEMAS[name].names)
        made.write_table(name, frame.to_arrow().cast(SCHEMAS[name]))
    return folder


def test_detect_prints_findings_and_claims_and_keeps_what_others_found(run: Path) -> None:
    cell = {"benchmark": "planted", "corpus": "x"}
    words = {"sentence": "a", "status": "clean", "why": "b"}
    kept = {"id": "overlap/x", "cell": cell, **words, "findings": []}
    (run / "claims.json").write_text(json.dumps({"schema_version": 1, "claims": [kept]}))
    done = run_inside(
        "detect",
        run,
        "--verbose",
        "--baseline",
        "baseline",
        "--detector",
        "order-joint",
        "--detector",
        "loss",
    )
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "has seen planted" in told
    assert "not testable" in told
    assert "--unseen" in told
    claims = json.loads((run / "claims.json").read_text())["claims"]
    assert any(kept.items() <= claim.items() for claim in claims)
    assert "order/target" in {claim["id"] for claim in claims}
    findings = json.loads((run / "findings.json").read_text())["findings"]
    assert {finding["id"] for finding in findings} >= {"order-joint/target"}


def test_json_is_one_document_and_the_same_twice(run: Path) -> None:
    arguments = (
        "detect",
        run,
        "--baseline",
        "baseline",
        "--unseen",
        "origin=fresh",
        "--json",
        "--permutations",
        "1000",
    )
    first, complaints = ForkedCommand(*arguments).communicate()
    assert CliRunner().invoke(app, [str(part) for part in arguments]).stdout == first, complaints
    told = json.loads(first)
    assert {f["detector"] for f in told["findings"]} >= {"order-trend", "min-k++", "blind"}
    assert told["self_checks"]["target"][0]["passed"] is True
    for name in ("findings", "claims"):  # said again, in the place of what was said before
        ids = [one["id"] for one in json.loads((run / f"{name}.json").read_text())[name]]
        assert len(ids) == len(set(ids)) > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{run}", "--detector", "mink"], "detector 'mink'"),
        (["{run}", "--baseline", "blip"], "scores of 'blip'"),
        (["{run}", "--unseen", "fresh"], "expected FIELD=VALUE"),
        (["{run}", "--stratum", "modality"], "field 'modality'"),
        (["{run}", "--rank-by", "loss"], "--rank-by"),
        (["{run}/tables"], "a run folder"),
        ([], "the run folder"),
    ],
)
def test_bad_input_gets_a_sentence(run: Path, arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(app, ["detect", *(part.format(run=run) for part in arguments)])
    assert isinstance(done.exception, InputError)  # which main() prints, with exit code 2
    assert told in str(done.exception)


def test_a_run_without_scores_says_how_to_get_them(tmp_path: Path) -> None:
    Run.create(tmp_path / "empty", command=["test"])
    done = run_inside("detect", tmp_path / "empty")
    assert done.returncode == 2
    assert "heldout score" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_and_examples() -> None:
    def told(*arguments: str) -> str:
        return " ".join(CliRunner().invoke(app, list(arguments)).stdout.split())

    assert "Example: heldout detect" in told("detect", "--help")
    assert "heldout lab confound" in told("lab", "confound", "--help")
    assert "max-renyi-k" in told("detect", "--list")
    assert len(json.loads(told("detect", "--list", "--json"))) >= 12


def test_confound_writes_its_page_and_refuses_nonsense(tmp_path: Path) -> None:
    done = run_inside("lab", "confound", "--repeats", "3", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "**flagged**" in done.stdout
    assert (tmp_path / "out/tails.svg").exists()
    assert (tmp_path / "out/composition.svg").exists()
    told = CliRunner().invoke(app, ["lab", "confound", "--repeats", "2", "--json"]).stdout
    assert [p["flag_probability"] for p in json.loads(told)["sweep"]] == [0, 0, 1, 1, 1]
    refused = CliRunner().invoke(app, ["lab", "confound", "--gain", "1"])
    assert isinstance(refused.exception, InputError)
