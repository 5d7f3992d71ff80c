"""The grid at toy size, from end to end: its tables are what the product's own backend would write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from heldout.cli.app import app  # noqa: E402
from heldout.detect import ScoreTables, detectors  # noqa: E402
from heldout.lab.models.sheet import Sheet  # noqa: E402
from heldout.lab.models.tables import train_grid  # noqa: E402
from heldout.lab.models.vlm import TOY  # noqa: E402
from heldout.lab.power.models import read_grid  # noqa: E402
from heldout.lab.settings import GridSettings  # noqa: E402
from heldout.store import Run  # noqa: E402

ARM = "scenes0-d2"
SETTINGS = GridSettings(
    size="toy",
    steps=6,
    batch=8,
    pictures=16,
    images=5,
    bases=("scenes0",),
    arms=(ARM,),
    keeps=(ARM,),
    device="cpu",
)


def _train(out: Path, lines: list[str]) -> bool:
    return train_grid(out, SETTINGS, tell=lines.append)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("grid")
    assert _train(out, [])
    return out


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return bool(one == pytest.approx(other, abs=2e-2))  # the checkpoint is float16
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def test_the_products_backend_writes_the_same_tables(trained: Path, tmp_path: Path) -> None:
    release = str(trained / "prepared" / "scenes" / "release" / "test.jsonl")
    model = str(trained / "models" / ARM)
    run = str(tmp_path / "run")
    runner = CliRunner()
    scored = runner.invoke(
        app,
        [
            "score",
            release,
            "--model",
            model,
            "--dtype",
            "float32",
            "--options",
            "--order-neighbour",
            "--out",
            run,
            "--json",
        ],
    )
    assert scored.exit_code == 0, scored.output
    checks = json.loads(scored.stdout)["models"][0]["checks"]
    assert all(check["passed"] for check in checks), checks
    asked = runner.invoke(
        app,
        [
            "ask",
            release,
            "--model",
            model,
            "--dtype",
            "float32",
            "--variants",
            "original,no-image",
            "--max-new-tokens",
            "16",
            "--out",
            run,
            "--json",
        ],
    )
    assert asked.exit_code == 0, asked.output
    ours, theirs = Run.open(trained / "runs" / "scenes"), Run.open(Path(run))
    for table in ("scores", "option_scores", "order_neighbour"):
        lab = [row for row in ours.read_table(table).to_pylist() if row["model"] == ARM]
        product = theirs.read_table(table).to_pylist()
        assert len(lab) == len(product) > 0
        for one, other in zip(lab, product, strict=True):
            assert all(_same(one[name], other[name]) for name in one), (table, one, other)
    answers = ours.read_table("answers").to_pylist()
    variants = {row["variant"] for row in answers}
    assert {"original", "no-image", "rotation-1", "twin", "confused-choices"} <= variants
    assert {"slot", "slot-paraphrase", "ngram", "ngram-paraphrase"} <= variants
    chosen = [row for row in answers if row["options"] and row["variant"] in ("original", "twin")]
    assert chosen and all(len(row["choice_logprobs"]) == len(row["options"]) for row in chosen)


def test_what_was_read_is_counted_as_the_sheet_holds_it(trained: Path) -> None:
    sheet = Sheet.load(trained / "prepared", "scenes")
    run = Run.open(trained / "runs" / "scenes")
    read = run.manifest()["models"][ARM]["forward_tokens"]
    tables = ScoreTables.load(run)
    # A document that scores its first token is a shard read whole; all orders of a shard stand there.
    whole = np.asarray([sheet.places[row][0] == 1 for row in range(len(sheet.scored))])
    joint = sheet.scored.lengths[sheet.sums & whole]
    assert detectors()["order-joint"].forward_tokens(tables, ARM, read) == joint.sum() > 0
    items = len(tables.items)
    pictures = TOY.places * (sheet.scored_picture[:items] >= 0).sum()
    assert read["scores"] == sheet.scored.lengths[:items].sum() + pictures
    grid = read_grid(trained)
    assert grid.about.counted and grid.about.weights and grid.about.weights > 10_000


def test_what_is_finished_is_not_trained_again(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (trained / "state" / "readings").iterdir()}
    lines: list[str] = []
    assert _train(trained, lines)
    assert not any(f"{ARM}:" in line for line in lines)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_detect_reads_the_grids_tables(trained: Path) -> None:
    told = json.loads((trained / "runs" / "models.json").read_text())
    assert {one["name"] for one in told} == {"scenes0", ARM}
    planted = next(one for one in told if one["name"] == ARM)
    assert planted["contamination"]["dose"] == 2 and len(planted["leaked"]) == 5
    found = CliRunner().invoke(
        app, ["detect", str(trained / "runs" / "scenes"), "--detector", "order-joint", "--json"]
    )
    assert found.exit_code == 0, found.output
    assert any(f["cell"]["model"] == ARM for f in json.loads(found.stdout)["findings"])
