"""heldout score, as a stranger types it: against a real server, a local folder, and a file."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import Result
from endpoint_serving import KEY, Server
from typer.testing import CliRunner

from command_line import ForkedCommand
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.store import Run, saved_shards


def heldout(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments])


def told(*arguments: str | Path) -> dict[str, Any]:
    done = heldout(*arguments, "--json")
    assert done.exit_code == 0, done.exception or done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sentence(*arguments: str | Path) -> str:
    done = heldout(*arguments)
    assert isinstance(done.exception, InputError), done.exception or done.output
    return str(done.exception)


def scores(run: Path) -> pl.DataFrame:
    frame = pl.from_arrow(Run.open(run).read_table("scores"))
    assert isinstance(frame, pl.DataFrame)
    return frame


@pytest.fixture(scope="module")
def run(server: Server, bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    done = heldout(
        "score",
        bench,
        "--endpoint",
        server.url(),
        "--model",
        "tiny-llava",
        "--out",
        folder,
        "--options",
        "--order-neighbour",
        "--order-joint",
        "--budget",
        "12000",
        "--dtype",
        "float32",
    )
    assert done.exit_code == 0, done.exception or done.output
    assert "order-joint:" in done.output  # the cost
    assert "tokens to score" in done.output
    return folder


def test_every_table_is_there_and_detect_reads_it(run: Path) -> None:
    found = scores(run)
    assert found.height == 24
    assert found["span_ok"].all()
    options = Run.open(run).read_table("option_scores")
    assert options.num_rows == 48
    first = {row["option"]: row["sum_logprob"] for row in options.to_pylist()[:2]}
    assert first[0] == pytest.approx(found["sum_logprob"][0], abs=1e-4)
    detected = told("detect", run)
    detectors = {finding["detector"] for finding in detected["findings"]}
    assert {"order-joint", "order-neighbour", "order-trend"} <= detectors
    checks = {check["name"]: check for check in detected["self_checks"]["tiny-llava"]}
    assert checks["image-ablation"]["passed"], checks
    assert "another item's picture" in checks["image-ablation"]["reason"]
    assert checks["question-ablation"]["passed"]
    assert checks["truncation"]["passed"]


def test_the_same_command_asks_nothing_twice(run: Path, bench: Path, server: Server) -> None:
    before, kept = server.asked("plain"), scores(run)
    told(
        "score",
        bench,
        "--endpoint",
        server.url(),
        "--model",
        "tiny-llava",
        "--out",
        run,
        "--dtype",
        "float32",
    )
    assert server.asked("plain") - before == 3  # what the server can do
    assert scores(run).equals(kept)


def test_the_local_copy_agrees_and_another_dtype_is_another_model(
    run: Path, bench: Path, server: Server
) -> None:
    folder = server.folder / "tiny-llava"
    told("score", bench, "--model", folder, "--as", "local", "--out", run, "--dtype", "float32")
    both = scores(run).pivot(on="model", index="benchmark_id", values="sum_logprob")
    assert (both["local"] - both["tiny-llava"]).abs().max() < 1e-3  # type: ignore[operator]
    refused = sentence("score", bench, "--model", folder, "--as", "tiny-llava", "--out", run)
    assert "never compared" in refused
    assert "--as" in refused
    detected = told("detect", run, "--detector", "top-k-overlap")
    assert "across backends" in detected["not_testable"][0]["reason"]


def test_parity_passes_alike_and_refuses_what_is_misaligned(
    bench: Path, server: Server, tmp_path: Path
) -> None:
    folder = server.folder / "tiny-llava"
    common = ("--model", "tiny-llava", "--parity", folder, "--dtype", "float32", "--limit", "20")
    told("score", bench, "--endpoint", server.url(), "--out", tmp_path / "a", *common)
    kept = Run.open(tmp_path / "a").manifest()["models"]["tiny-llava"]["parity"]
    assert kept["passed"]
    assert kept["largest"] < 1e-3
    refused = sentence(
        "score", bench, "--endpoint", server.url("misaligned"), "--out", tmp_path / "b", *common
    )
    assert "score alike" in refused and "at token" in refused
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("how", "check"), [("blind", "image-ablation"), ("deaf", "question-ablation")]
)
def test_a_model_that_does_not_look_is_not_testable(
    bench: Path, server: Server, tmp_path: Path, how: str, check: str
) -> None:
    done = heldout(
        "score",
        bench,
        "--endpoint",
        server.url(how),
        "--model",
        "tiny-llava",
        "--dtype",
        "float32",
        "--out",
        tmp_path / "run",
    )
    assert done.exit_code == 0, done.exception
    assert f"FAILED {check}" in done.output
    detected = told("detect", tmp_path / "run", "--detector", "order-trend")
    assert detected["findings"] == []
    assert "does not get it" in detected["not_testable"][0]["reason"]
    page = Path(told("report", tmp_path / "run")["report"]).read_text()
    assert f'<td class="error">failed</td><td class="rule">{check}</td>' in page
    assert "tiny-llava seen it?" in page


def test_an_endpoint_that_dies_loses_nothing(
    bench: Path, server: Server, tmp_path: Path, quick: None
) -> None:
    run = tmp_path / "run"
    port = server.mortal(3 + 11)  # three to see what it can do, 11 items

    def command(url: str) -> tuple[str | Path, ...]:
        return (
            "score",
            bench,
            "--endpoint",
            url,
            "--model",
            "tiny-llava",
            "--out",
            run,
            "--concurrency",
            "2",
            "--dtype",
            "float32",
        )

    refused = sentence(*command(server.url("dying", port)))
    assert "in 3 attempts" in refused
    assert "the same command" in refused
    before = server.asked("again")
    told(*command(server.url("again")))
    checked = 4 * 24  # every item in four variants
    asked = server.asked("again") - before
    assert asked == 3 + (24 - 11) + checked
    assert scores(run).height == 24


def test_a_killed_run_goes_on_where_it_was(
    text_bench: Path, server: Server, tmp_path: Path
) -> None:
    command = [
        "score",
        str(text_bench),
        "--endpoint",
        server.url("killed"),
        "--model",
        "tiny-text",
        "--out",
        str(tmp_path / "run"),
        "--concurrency",
        "1",
    ]
    process = ForkedCommand(*command, "--rate", "40/s")
    final = tmp_path / "run/stages/score"
    while not any(map(saved_shards, final.glob("*"))):  # the first shard
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(0.1)  # a request that was on its way
    before = server.asked("killed")
    assert before < 3 + 24
    (pending,) = Run.open(tmp_path / "run").manifest()["models"]["tiny-text"]["self_checks"]
    assert not pending["passed"] and "not finished" in pending["reason"]
    told(*command)
    kept = Run.open(tmp_path / "run").manifest()["models"]["tiny-text"]["self_checks"]
    assert "ablation" not in {check["name"] for check in kept}
    # Without pictures an item is checked with another question alone.
    assert server.asked("killed") - before == 3 + (24 - 16) + 24
    assert scores(tmp_path / "run").height == 24


def test_prompts_that_were_cut_are_dropped_and_fail_the_check(
    bench: Path, server: Server, tmp_path: Path
) -> None:
    done = heldout(
        "score",
        bench,
        "--endpoint",
        server.url("cut"),
        "--model",
        "tiny-llava",
        "--out",
        tmp_path / "run",
    )
    assert "truncation: 24 of 24 prompts" in done.output, done.exception
    dropped = Run.open(tmp_path / "run").read_table("dropped").to_pylist()
    assert {row["reason"] for row in dropped} == {"truncated prompt"}


def test_recorded_scores_come_in_by_the_same_door(run: Path, bench: Path, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    mine = scores(run).filter(pl.col("model") == "tiny-llava")
    mine.drop("model").write_parquet(path)
    out = tmp_path / "run"
    made = told("score", bench, "--recorded", path, "--model", "elsewhere", "--out", out)
    assert made["models"][0]["rows"] == {"scores": 24}
    assert told("detect", out, "--detector", "order-trend")["findings"]
    mine.drop("model").head(20).write_parquet(path)
    assert "4 of 24 items" in sentence(
        "score", bench, "--recorded", path, "--model", "x", "--out", tmp_path / "other"
    )
    few = told("score", bench, "--recorded", path, "--model", "x", "--allow-missing", "--out", out)
    assert few["models"][0]["dropped"] == 4


def test_inspect_prints_and_the_key_is_nowhere(
    server: Server, text_bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pasted = f"{server.url()}/chat/completions"
    shown = heldout("model", "inspect", pasted, "--model", "tiny-text").output
    assert "order-joint" in shown
    (ask,) = (line for line in shown.splitlines() if line.startswith("heldout ask "))
    assert f" {server.url()} " in ask and "--choice-logprobs" in ask
    assert {"rotation-all", "shuffle-1..3", "no-image"} <= set(re.split("[ ,]", ask))
    assert "local copy of" in " ".join(shown.split())
    monkeypatch.setenv("THE_KEY", KEY)
    found = told(
        "score",
        text_bench,
        "--endpoint",
        server.url("key"),
        "--model",
        "tiny-text",
        "--out",
        tmp_path / "run",
        "--api-key-env",
        "THE_KEY",
        "--rate",
        "500/s",
    )
    assert found["models"][0]["rows"] == {"scores": 24}
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "which model?"),
        (["--model", "m", "--order-joint"], "--order-joint: goes together"),
        (["--model", "m", "--interleaved"], "--interleaved: "),
        (["--model", "m", "--parity", "f"], "give --endpoint"),
        (["--recorded", "f", "--endpoint", "http://x/v1"], "leave out one"),
        (["--recorded", "f", "--options"], "without options"),
        (["--endpoint", "http://x/v1", "--rate", "fast"], "like 5/s"),
        (["--endpoint", "http://x/v1", "--api-key-env", "NOT_SET_AT_ALL"], "is not set"),
        (["--endpoint", "{url}"], "name the model with --model; it serves"),
        (["--endpoint", "{url}", "--model", "gpt"], "does not serve 'gpt'"),
        (["--model", "no/such/folder/here"], "no/such/folder/here"),
    ],
)
def test_bad_input_gets_a_sentence(
    bench: Path, server: Server, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    given = [part.format(url=server.url()) for part in arguments]
    assert expected in sentence("score", bench, "--out", tmp_path / "run", *given)
    assert not (tmp_path / "run").exists()  # what could not begin leaves nothing behind


def test_a_server_that_takes_no_pictures_gets_a_sentence(
    bench: Path, server: Server, tmp_path: Path
) -> None:
    refused = sentence(
        "score",
        bench,
        "--endpoint",
        server.url("deaf"),
        "--model",
        "tiny-text",
        "--out",
        tmp_path / "run",
    )
    assert "request with a picture" in refused


def test_an_out_that_cannot_be_a_run_is_told_before_a_model_is_loaded(
    bench: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file.txt").write_text("mine")
    refused = sentence("score", bench, "--model", "no/such/folder", "--out", tmp_path / "taken")
    assert "not a run folder" in refused
    assert [one.name for one in (tmp_path / "taken").iterdir() if one.name[0] != "."] == [
        "file.txt"
    ]
