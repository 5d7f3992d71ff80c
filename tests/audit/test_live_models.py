"""An audit that asks a server and runs a local model: real processes, real weights, tiny ones."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from PIL import Image

from heldout.audit.plan import ABLATIONS
from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.errors import InputError
from heldout.model.endpoint import connection as pace

TESTS = Path(__file__).parents[1]


def _edit(folder: Path, **changed: Any) -> Path:
    path = folder / "audit.yaml"
    told = yaml.safe_load(path.read_text())
    told["benchmarks"] = told["benchmarks"][:1]
    path.write_text(yaml.safe_dump({**told, "corpora": [], **changed}))
    return path


@pytest.fixture
def server(audit_folder: Path) -> Iterator[int]:
    """Knows every answer of the benchmark; its port."""
    rows = [
        json.loads(line) for line in (audit_folder / "leaky/test.jsonl").read_text().splitlines()
    ]
    answers = audit_folder / "answers.json"
    answers.write_text(json.dumps({row["question"]: row["answer"] for row in rows}))
    script = TESTS / "model/endpoint/asking_server.py"
    process = subprocess.Popen(
        [sys.executable, str(script), str(answers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.kill()
    process.communicate()


def _answered(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as reply:
        return int(json.loads(reply.read())["answered"])


def test_a_server_is_asked_once_and_a_death_is_gone_on_from(
    audit_folder: Path, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace.Backoff.__init__, "__defaults__", (3, 0.01, 0.05))

    def served(how: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{server}/{how}/v1"
        return [{"name": "served", "endpoint": {"url": url, "concurrency": 1, "timeout": 5}}]

    path = _edit(audit_folder, models=served("mortal-10"), baselines=[])
    with pytest.raises(InputError):
        run_audit(read_audit(path), quiet=True)  # the server is gone after ten answers
    before = _answered(server)
    assert before >= 10
    done = run_audit(
        read_audit(_edit(audit_folder, models=served("plain"), baselines=[])), quiet=True
    )
    assert "leaky/answers/served" in done.made
    assert _answered(server) == 40  # nothing that had arrived was asked for again
    again = run_audit(read_audit(path.parent / "audit.yaml"), quiet=True)
    assert again.made == []
    assert _answered(server) == 40
    (model,) = done.overall.benchmarks[0].corrected["models"]
    assert model["lines"][0]["value"] == 1.0


def _tiny_models() -> Any:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    spec = importlib.util.spec_from_file_location("tiny", TESTS / "model/local/tiny_models.py")
    assert spec is not None
    assert spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    return tiny


def test_a_local_model_is_scored_and_asked(audit_folder: Path) -> None:
    _tiny_models().save("qwen2_5_vl", audit_folder / "tiny")
    local = {
        "name": "tiny",
        "local": "tiny",
        "dtype": "float32",
        "device": "cpu",
        "max_new_tokens": 2,
    }
    named = ["order-neighbour", "image-membership"]
    path = _edit(audit_folder, models=[local], baselines=[], budget={"items": 12}, detectors=named)
    done = run_audit(read_audit(path), quiet=True)
    assert {"leaky/scores/tiny", "leaky/answers/tiny"} <= set(done.made)
    tables = audit_folder / "out/leaky/tables"
    assert len(pl.read_parquet(tables / "scores.parquet")) == 12
    assert set(pl.read_parquet(tables / "answers.parquet")["variant"]) == {"original"}
    assert (tables / "order_neighbour.parquet").exists()
    read = pl.read_parquet(tables / "entropies.parquet")
    assert read["benchmark_id"].n_unique() == 12
    assert set(read["slice"]) == {"image", "question", "answer"}
    assert run_audit(read_audit(path), quiet=True).made == []
    (
        audit_folder / "tiny/config.json"
    ).touch()  # the checkpoint changed: its scores are another model's
    assert "leaky/scores/tiny" in run_audit(read_audit(path), quiet=True).made


def test_twins_are_asked_and_tested_against_what_was_released(
    audit_folder: Path, server: int
) -> None:
    """The server answers every question as released, whatever the picture shows: it falls on twins."""
    rows = [
        json.loads(line) for line in (audit_folder / "leaky/test.jsonl").read_text().splitlines()
    ]
    twins = []
    for n, row in enumerate(rows):
        with Image.open(audit_folder / "leaky" / row["image"]) as picture:
            picture.rotate(90).save(audit_folder / f"leaky/twin-{n}.png")
        twins.append({**row, "image": f"twin-{n}.png", "answer": f"another finding {n}"})
    (audit_folder / "leaky/twins.jsonl").write_text("\n".join(map(json.dumps, twins)))
    url = f"http://127.0.0.1:{server}/plain/v1"
    path = _edit(audit_folder, models=[{"name": "served", "endpoint": {"url": url}}], baselines=[])
    told = yaml.safe_load(path.read_text())
    told["benchmarks"][0]["twins"] = {"twin": "leaky/twins.jsonl"}
    path.write_text(yaml.safe_dump(told))
    done = run_audit(read_audit(path), quiet=True)
    assert done.plan.claims["leaky"] == ["twin-drop/served", "twin-memory/served"]
    (cell,) = done.overall.cells
    claim, memory = cell.claims
    assert "the old answer" in memory.sentence
    assert memory.status == "qualified"
    assert (
        claim.status == "qualified"
    )  # without a clean reference twins may be harder for everybody
    # A baseline is what would settle it.
    assert claim.rule == "answers/no-baseline"
    advice = [one["sentence"] for one in done.overall.recommendations if one["kind"] == "control"]
    assert any("baseline" in one for one in advice)


@pytest.mark.parametrize(
    ("named", "recorded"), [(["twin-margin"], True), (["twin-drop"], False), ([], False)]
)
def test_log_probabilities_of_options_are_recorded_for_detectors_that_are_named(
    audit_folder: Path, named: list[str], recorded: bool
) -> None:
    models = [{"name": "served", "endpoint": {"url": "http://127.0.0.1:9/v1"}}]
    file = read_audit(_edit(audit_folder, models=models, baselines=[], detectors=named)).file
    assert file.reads_choices == recorded
    assert file.models[0].ask_settings(file).choice_logprobs == recorded


@pytest.mark.parametrize("record", [["scores"], ["scores", "answers"]])
def test_twins_are_scored_where_twin_margin_is_named(audit_folder: Path, record: list[str]) -> None:
    """Models that are only scored are tested, too; where letters are recorded, twins that offer both answers
    are not scored."""
    tiny = _tiny_models()
    leaky = audit_folder / "leaky"
    rows = [json.loads(line) for line in (leaky / "test.jsonl").read_text().splitlines()][:12]
    for n, row in enumerate(rows):
        row["answer"] = "lung"
        if n % 2:
            row["options"] = ["lung", "heart"]
        with Image.open(leaky / row["image"]) as picture:
            picture.rotate(90).save(leaky / f"twin-{n}.png")
    twins = [{**row, "image": f"twin-{n}.png", "answer": "heart"} for n, row in enumerate(rows)]
    for name, written in (("test", rows), ("twins", twins)):
        (leaky / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    models = []
    for name, side in (("suspect", "right"), ("clean", "left")):
        tiny.save("qwen2_5_vl", audit_folder / name, side=side)
        models.append(
            {
                "name": name,
                "local": name,
                "dtype": "float32",
                "device": "cpu",
                "max_new_tokens": 2,
                "record": record,
            }
        )
    path = _edit(audit_folder, models=models, baselines=["clean"], detectors=["twin-margin"])
    told = yaml.safe_load(path.read_text())
    told["benchmarks"][0]["twins"] = {"twin": "leaky/twins.jsonl"}
    path.write_text(yaml.safe_dump(told))
    done = run_audit(read_audit(path), quiet=True)
    assert done.plan.claims["leaky"] == ["twin-margin/suspect"]
    scored = pl.read_parquet(audit_folder / "out/leaky/tables/twin_scores.parquet")
    open_items = {row["id"] for n, row in enumerate(rows) if n % 2 == 0}
    wanted = {row["id"] for row in rows} if record == ["scores"] else open_items
    assert set(scored["benchmark_id"]) == wanted
    requests = {s.stage: s.requests for s in done.plan.steps if s.on == "suspect"}
    assert requests["scores"] == len(rows) * (1 + ABLATIONS) + 3 * len(wanted)
    assert run_audit(read_audit(path), quiet=True).made == []
