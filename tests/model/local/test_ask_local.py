"""heldout ask with a model that runs here: variants and a twin, from one command to the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import save

from heldout.cli.app import app


def write(folder: Path, picture: Callable[..., bytes], shift: int) -> Path:
    folder.mkdir()
    rows = []
    for number in range(6):
        name = f"{number // 2}.png"
        (folder / name).write_bytes(picture(number // 2 + 10 * shift, (60, 44)))
        options = ["liver", "lung", "none of it"]
        rows.append(
            {
                "id": f"q{number}",
                "image": name,
                "question": f"which organ is shown? {number}",
                "options": options,
                "answer": options[(number + shift) % 3],
            }
        )
    path = folder / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_local_model_is_asked_once(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    bench, twin = write(tmp_path / "a", picture, 0), write(tmp_path / "b", picture, 1)
    save("qwen2_5_vl", tmp_path / "tiny")
    run = tmp_path / "run"
    variants = f"rotation-all,no-image,slot,twin={twin}"
    command = [
        "ask",
        str(bench),
        "--model",
        str(tmp_path / "tiny"),
        "--out",
        str(run),
        "--dtype",
        "float32",
        "--device",
        "cpu",
        "--variants",
        variants,
        "--max-new-tokens",
        "3",
        "--choice-logprobs",
        "--json",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.exception or done.output
    made = json.loads(done.stdout)["models"][0]
    assert (made["asked"], made["reused"], made["dropped"]) == (36, 0, {})
    found = pl.read_parquet(run / "tables/answers.parquet")
    assert dict(found.group_by("variant").len().iter_rows()) == {
        "original": 6,
        "rotation-1": 6,
        "rotation-2": 6,
        "no-image": 6,
        "slot": 6,
        "twin": 6,
    }
    pairs = found.filter(pl.col("variant").is_in(["original", "twin"]))
    golds = pairs.pivot(on="variant", index="benchmark_id", values="gold")
    assert (golds["original"] != golds["twin"]).all()
    choices = found.filter(pl.col("variant") != "slot")
    assert choices["choice_logprobs"].list.len().unique().to_list() == [3]
    assert found["reply_tokens"].max() == 3
    assert set(found["model"]) == {"tiny"}
    again = CliRunner().invoke(app, command)
    made = json.loads(again.stdout)["models"][0]
    assert (made["asked"], made["reused"]) == (0, 36)
    assert pl.read_parquet(run / "tables/answers.parquet").equals(found)
