"""One run folder for both halves of an audit: copies in corpora, and what models made of the items."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.store import Run

ITEMS = 30


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    rows = []
    for number in range(ITEMS):
        (folder / f"{number}.png").write_bytes(picture(number))
        rows.append(
            {
                "id": f"q{number}",
                "image": f"{number}.png",
                "question": f"What is {number}?",
                "answer": f"a{number % 7}",
            }
        )
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "test.jsonl"


def recorded(folder: Path, count: int, **changed: Any) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "model": "m",
            "sum_logprob": -1.5 - (n * 37 % 11) / 7 - n / 100,
            "n_tokens": 2,
        }
        for n in range(count)
    ]
    path = folder / "scores.jsonl"
    path.write_text("".join(json.dumps({**row, **changed}) + "\n" for row in rows))
    return path


def heldout(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments])


def reasons(run: Path) -> set[tuple[str, str]]:
    rows = Run.open(run).read_table("dropped").to_pylist()
    return {(row["stage"], row["reason"]) for row in rows}


@pytest.mark.parametrize("first", ["score", "overlap"])
def test_scores_and_copies_share_a_run_in_either_order(
    bench: Path, tmp_path: Path, first: str
) -> None:
    run = tmp_path / "run"
    scoring = (
        "score",
        bench,
        "--recorded",
        recorded(tmp_path, 28),
        "--allow-missing",
        "--out",
        run,
    )
    scanning = (
        "overlap",
        bench,
        "--against",
        f"own={bench.parent}",
        "--exact",
        "--out",
        run,
        "--workers",
        "1",
    )
    for command in (scoring, scanning) if first == "score" else (scanning, scoring):
        done = heldout(*command)
        assert done.exit_code == 0, done.exception
    assert ("score", "no recorded score") in reasons(run)
    assert heldout("detect", run, "--detector", "order-trend").exit_code == 0
    shown = heldout("report", run, "--json")
    assert shown.exit_code == 0, shown.exception
    page = (run / "report.html").read_text()
    assert "Has m seen it?" in page
    assert 'id="gallery"' in page
    claims = {claim["id"] for claim in json.loads((run / "claims.json").read_text())["claims"]}
    assert {"order/m"} <= claims
    assert any(name.startswith("overlap/") for name in claims)


def test_a_run_of_scores_alone_has_a_page_before_anything_is_detected(
    bench: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert (
        heldout("score", bench, "--recorded", recorded(tmp_path, ITEMS), "--out", run).exit_code
        == 0
    )
    assert heldout("report", run).exit_code == 0
    page = (run / "report.html").read_text()
    assert "heldout detect" in page
    assert "Every corpus image" not in page
    # Nobody saw the tokens, and nobody can ask the model: neither passed nor failed, anywhere.
    kept = Run.open(run).manifest()["models"]["m"]["self_checks"]
    assert {one["name"] for one in kept if one["passed"] is None} == {"span", "ablation"}
    assert page.count(">not checked</td>") == 2
    shown = heldout("score", bench, "--recorded", recorded(tmp_path, ITEMS), "--out", run)
    assert "not checked ablation: " in shown.output
    assert "passed ablation" not in shown.output and "passed span" not in shown.output


def test_an_instrument_is_not_changed_within_a_run(bench: Path, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", command=["test"])
    run.update("models", {"m": {"backend": "transformers", "dtype": "float32"}})
    refused = heldout("score", bench, "--recorded", recorded(tmp_path, ITEMS), "--out", run.path)
    assert isinstance(refused.exception, InputError)
    assert "with backend 'transformers', not 'recorded'" in str(refused.exception)


def test_another_revision_of_the_benchmark_is_refused(bench: Path, tmp_path: Path) -> None:
    path = recorded(tmp_path, ITEMS, fingerprint="0123456789abcdef")
    refused = heldout("score", bench, "--recorded", path, "--out", tmp_path / "run")
    assert "scored on revision 0123456789ab" in str(refused.exception)


def test_constant_scores_fail_where_everybody_sees_it(bench: Path, tmp_path: Path) -> None:
    path = recorded(tmp_path, ITEMS, sum_logprob=-2.0)
    done = heldout("score", bench, "--recorded", path, "--out", tmp_path / "run")
    assert "FAILED variation: 1 " in done.output
    assert "not testable" in done.output


def test_help_has_examples() -> None:
    assert "Example: heldout score" in " ".join(heldout("score", "--help").output.split())
    assert "heldout model inspect" in " ".join(heldout("model", "inspect", "--help").output.split())
