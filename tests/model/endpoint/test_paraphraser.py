"""slot-paraphrase with a provider: a real server rewords, every model reads the same, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asking_process import Scripted
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError

WORDS = ["spleen", "kidney", "thyroid", "pancreas", "bladder", "stomach"]


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    (tmp_path / "0.png").write_bytes(picture(0))
    path = tmp_path / "test.jsonl"
    path.write_text(
        "".join(
            json.dumps(
                {
                    "id": f"q{n}",
                    "image": "0.png",
                    "question": f"Is the {word} enlarged? ({n})",
                    "answer": "yes",
                }
            )
            + "\n"
            for n, word in enumerate(WORDS)
        )
    )
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    said = {
        f"Sentence: Is the {word} enlarged? ({n})": f"({n}) Does the {word} look too large?"
        for n, word in enumerate(WORDS)
    }
    said["Sentence: Is the bladder enlarged? (4)"] = " "
    said["Sentence: Is the stomach enlarged? (5)"] = "Is the stomach enlarged? (5)"  # no rewording
    (tmp_path / "answers.json").write_text(json.dumps(said))
    made = Scripted(tmp_path / "answers.json")
    yield made
    made.process.kill()
    made.process.wait()


def _ask(bench: Path, run: Path, *more: object) -> Any:
    words = ["ask", bench, "--out", run, "--variants", "slot-paraphrase", *more, "--json"]
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_provider_rewords_once_for_every_model(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    rewords = ("--paraphraser", server.url("words"))
    for name in ("first", "second"):
        done = _ask(bench, run, "--endpoint", server.url(), "--as", name, *rewords)
        assert done.exit_code == 0, done.exception or done.output
    assert server.posted("words") == len(
        WORDS
    )  # the second model reads what was written for the first
    answers = pl.read_parquet(run / "tables/answers.parquet")
    shown = answers.filter(pl.col("variant") == "slot-paraphrase")
    assert sorted(shown["gold"].unique()) == sorted(WORDS[:4])
    assert shown["model"].n_unique() == 2
    dropped = pl.read_parquet(run / "tables/dropped.parquet")
    reasons = dict(zip(dropped["id"], dropped["reason"], strict=True))
    assert reasons["first/q5"] == "no paraphrase" and reasons["second/q4"] == "empty paraphrase"
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["paraphrases"]["template"] == "heldout-paraphrase/1"


def test_without_a_provider_or_a_column_there_is_a_sentence(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    done = _ask(bench, tmp_path / "run", "--endpoint", server.url())
    assert isinstance(done.exception, InputError)
    assert "rewords the questions" in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["mortal-3"])
def test_a_provider_that_dies_keeps_what_it_wrote(
    bench: Path, server: Scripted, tmp_path: Path, how: str
) -> None:
    run = tmp_path / "run"
    more = ("--endpoint", server.url(), "--paraphraser")
    dead = _ask(bench, run, *more, server.url(how), "--concurrency", 1)
    assert isinstance(dead.exception, InputError)
    done = _ask(bench, run, *more, server.url("words"))
    assert done.exit_code == 0, done.exception or done.output
    assert server.posted("words") == len(WORDS) - 3
