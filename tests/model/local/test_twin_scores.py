"""Both answers on both pictures, scored by a tiny model through the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result
from typer.testing import CliRunner

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import save

from heldout.benchmark import read_benchmark
from heldout.cli.app import app
from heldout.model.request import answer_request
from heldout.model.settings import open_model
from heldout.store import Run

SIDES = ("original_old", "original_new", "twin_old", "twin_new")


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """Eight items, of which 6 has no twin, 5's twin shows the original and 4's has the same answer."""
    items: list[dict[str, object]] = []
    twins: list[dict[str, object]] = []
    for number in range(8):
        shown, other = f"{number // 2}.png", f"twin{number}.png"
        (tmp_path / shown).write_bytes(picture(number // 2))
        (tmp_path / other).write_bytes(picture(number // 2 if number == 5 else 90 + number))
        row: dict[str, object] = {"id": f"q{number}", "question": f"What is {number}?"}
        if number < 2:
            row["options"] = ["lung", "heart", "liver"]
        items.append({**row, "image": shown, "answer": "lung"})
        if number != 6:
            answer = "Lung." if number == 4 else "heart"
            twins.append({**row, "image": other, "answer": answer})
    _write(tmp_path / "test.jsonl", items)
    _write(tmp_path / "twins.jsonl", twins)
    save("qwen2_5_vl", tmp_path / "tiny")
    return tmp_path


def _score(folder: Path, *more: str | Path) -> Result:
    words = ["score", folder / "test.jsonl", "--model", folder / "tiny", "--dtype", "float32"]
    words += ["--device", "cpu", "--out", folder / "run", "--quiet", *more]
    return CliRunner().invoke(app, [str(word) for word in words])


def test_every_twin_has_four_scores_each_of_its_own_picture_and_answer(folder: Path) -> None:
    done = _score(folder, "--variants", f"twin={folder / 'twins.jsonl'}")
    assert done.exit_code == 0, done.output
    table = Run.open(folder / "run").frame("twin_scores")
    assert table["benchmark_id"].to_list() == ["q0", "q1", "q2", "q3", "q7"]
    assert set(table["variant"]) == {"twin"}
    benchmarks = [read_benchmark(folder / name) for name in ("test.jsonl", "twins.jsonl")]
    model = open_model(str(folder / "tiny"), dtype="float32", device="cpu")
    for row in table.iter_rows(named=True):
        shown = [next(e for e in b if e.id == row["benchmark_id"]) for b in benchmarks]
        asked = [
            answer_request(item, side, str(row[f"{side.split('_')[1]}_answer"]))
            for item, sides in zip(shown, (SIDES[:2], SIDES[2:]), strict=True)
            for side in sides
        ]
        alone = {score.id: score.total for score in model.score(asked)}
        assert {side: row[side] for side in SIDES} == pytest.approx(alone, abs=1e-4)
        assert len({round(value, 6) for value in alone.values()}) == 4
    left_out = {
        row["id"]: row["reason"]
        for row in Run.open(folder / "run").read_table("dropped").to_pylist()
        if row["stage"] == "twins"
    }
    assert left_out == {
        "tiny/q4": "the twin has the same answer",
        "tiny/q5": "the twin shows the original",
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--variants", "rotation-all"), "only twins are scored"),
        (("--variants", "twin"), "this run holds no twins"),
        (("--variants", "twin=nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_cannot_be_scored_is_said_before_the_model_is_loaded(
    folder: Path, more: tuple[str, ...], said: str
) -> None:
    done = _score(folder, *more)
    assert done.exit_code != 0
    assert said in str(done.exception or "") + done.output
    assert not (folder / "run").exists()


def test_a_part_without_twins_has_no_scores_of_them(folder: Path) -> None:
    _write(
        folder / "few.jsonl", [{"id": "q7", "image": "twin7.png", "question": "?", "answer": "x"}]
    )
    done = _score(folder, "--variants", f"twin={folder / 'few.jsonl'}", "--limit", "3")
    assert done.exit_code == 0, done.output
    assert pl.read_parquet(folder / "run/tables/twin_scores.parquet").is_empty()


def test_two_sets_of_twins_of_one_name_are_refused(folder: Path) -> None:
    """Models that were scored on other twins would be compared as if they were the same."""
    twins = f"twin={folder / 'twins.jsonl'}"
    assert _score(folder, "--variants", twins).exit_code == 0
    rows = [json.loads(line) for line in (folder / "twins.jsonl").read_text().splitlines()]
    _write(folder / "others.jsonl", [{**row, "image": "0.png"} for row in rows])
    others = _score(folder, "--variants", f"twin={folder / 'others.jsonl'}", "--as", "second")
    assert others.exit_code != 0
    assert "twin-NAME" in str(others.exception)
    named = _score(folder, "--variants", f"twin-b={folder / 'others.jsonl'}", "--as", "second")
    assert named.exit_code == 0, named.output
    assert "left out" in named.output  # twins that show the original, with the reason
