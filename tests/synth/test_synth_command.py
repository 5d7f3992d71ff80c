"""heldout synth as people call it: what it prints, refuses and leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from item_serving import ItemServer
from made_items import PERFECT, figure, five, item, png
from PIL import Image
from typer.testing import CliRunner

import heldout
from command_line import ForkedCommand
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model.endpoint import connection as pace
from heldout.store import Run
from heldout.synth import SynthSettings, SynthStage
from heldout.synth._mechanical import check_by_code
from heldout.synth._verify import verdict_row, write_verdict
from heldout.synth.ledger import code_and_verifier, writing


def command(source: Path, server: ItemServer, out: Path, how: str = "plain") -> list[str]:
    return [
        "synth",
        str(source),
        "--generator",
        server.url(how, "writer"),
        "--verifier",
        server.url("plain", "referee"),
        "--label",
        "all",
        "--out",
        str(out),
    ]


def refusal(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["synth", *map(str, arguments)])
    assert isinstance(done.exception, InputError), done.exception or done.output
    return str(done.exception)


def test_a_terminated_run_leaves_the_tables_of_its_finished_stages(
    captioned: Path, item_server: ItemServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = captioned / "captions.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    table.write_text(
        "".join(
            json.dumps({**row, "licence": "CC BY-ND"} if n == 0 else row) + "\n"
            for n, row in enumerate(rows)
        )
    )
    run = tmp_path / "run"
    given = [*command(captioned, item_server, run, "slow-300"), "--concurrency", "1"]
    process = ForkedCommand(*given)
    for _ in range(600):
        if item_server.counts()["answered"] >= 2:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, told
    assert "same command" in told and "Traceback" not in told
    dropped = Run.open(run).read_table("dropped").to_pylist()
    assert [(row["stage"], row["reason"]) for row in dropped] == [("ingest", "licence")]
    steps = json.loads((run / "synth/funnel.json").read_text())["steps"]
    assert [step["name"] for step in steps] == ["ingest", "select"]
    # A server that dies is an error of one sentence.
    monkeypatch.setattr(pace.Backoff.__init__, "__defaults__", (2, 0.01, 0.05))
    assert "did not answer" in refusal(
        *command(captioned, item_server, tmp_path / "b", "mortal-3")[1:]
    )
    # What is paid for is not planned again.
    plan = CliRunner().invoke(app, [*given, "--plan", "--json"])
    costs, total = (json.loads(plan.stdout)[name] for name in ("costs", "total"))
    for name in ("requests", "prompt_tokens", "reply_tokens", "hours", "done"):
        assert total[name] == sum(cost[name] for cost in costs) > 0
    answered = len((run / "synth/replies/generator.jsonl").read_text().splitlines())
    assert answered >= 2 and (costs[0]["done"], costs[0]["requests"]) == (answered, 15 - answered)
    shown = CliRunner().invoke(app, [*given, "--plan"]).stdout
    assert f"{answered} requests done" in shown and "10 s a request" in shown and " min" in shown


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_run_at_once(
    captioned: Path, item_server: ItemServer, tmp_path: Path, sent: signal.Signals
) -> None:
    """The server hangs on some figures; whoever cannot wait for its last replies loses no earlier one."""
    run, journal = tmp_path / "run", tmp_path / "run/synth/replies/generator.jsonl"
    given = command(captioned, item_server, run, "hanging")
    process = ForkedCommand(*given)
    for _ in range(600):
        if item_server.counts()["answered"] >= 8:
            break
        time.sleep(0.05)
    time.sleep(0.5)
    kept = journal.read_text()
    process.send_signal(sent)
    time.sleep(0.6)
    assert process.poll() is None  # it waits for replies under way
    process.send_signal(sent)
    process.communicate(timeout=1.5)
    assert process.returncode == -sent and len(kept.splitlines()) >= 8
    assert journal.read_text() == kept
    plan = CliRunner().invoke(app, [*given, "--plan", "--json"])
    assert json.loads(plan.stdout)["costs"][0]["done"] == len(kept.splitlines())


def test_a_folder_holds_the_items_of_one_source(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert "does not exist" in refusal(*command(tmp_path / "typo", item_server, run)[1:])
    done = CliRunner().invoke(
        app, [*command(captioned, item_server, run), "--stages", "ingest,select"]
    )
    assert done.exit_code == 0, done.output
    other = tmp_path / "other"
    shutil.copytree(captioned, other)
    (other / "0.png").unlink()
    told = refusal(*command(other, item_server, run)[1:])
    assert str(captioned) in told and str(other) in told
    assert "scenes" in refusal("--from", "scenes", "--out", run)
    assert "does not exist" in refusal(*command(tmp_path / "typo", item_server, run)[1:])
    # The same files elsewhere, or more files there, are the same source.
    moved = captioned.rename(tmp_path / "moved")
    made = heldout.synth(source=moved, labels="all", stages="ingest", out=run, quiet=True)
    (moved / "more.txt").write_text("")
    made = heldout.synth(source=moved, labels="all", stages="ingest", out=run, quiet=True)
    assert len(made.frame("ingest")) == 16
    assert "\n" not in repr(made) and str(run) in repr(made) and "16" in repr(made)
    assert made._repr_html_().startswith("<table")


@pytest.mark.parametrize(
    ("values", "setting", "option"),
    [
        ({"limit": 0}, "limit:", ""),
        ({"limits": 3}, "did you mean limit", ""),
        ({"labels": 3}, "labels:", ""),
        ({"generator": {"link": "x"}}, "generator.link:", ""),
        ({"stages": "verify,generate"}, "stages:", ("--stages", "verify,generate")),
        ({"stages": ("made-up",)}, "stages:", ("--stages", "made-up")),
        ({"conditioning": "all"}, "conditioning:", ("--conditioning", "all")),
        ({"plant": 0.5}, "plant:", ("--plant", 0.5)),
        ({"generator": "ftp://x"}, "generator:", ("--generator", "ftp://x")),
        (
            {"generator": {"url": "http://x/v1", "timeout": 0}},
            "generator.timeout:",
            ("--generator", "http://x/v1", "--timeout", 0),
        ),
        (
            {"generator": {"url": "http://x/v1", "api_key_env": "sk-1 2"}},
            "generator.api_key_env",
            ("--generator", "http://x/v1", "--generator-api-key-env", "sk-1 2"),
        ),
        (
            {"generator": {"url": "http://x/v1", "api_key_env": "NO_SUCH"}, "stages": "generate"},
            "generator.api_key_env:",
            (
                "--generator",
                "http://x/v1",
                "--generator-api-key-env",
                "NO_SUCH",
                "--stages",
                "generate",
            ),
        ),
        ({"generator": "http://x/v1"}, "the setting verifier", ("--generator", "http://x/v1")),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_given(
    tmp_path: Path, values: dict[str, Any], setting: str, option: tuple[object, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        heldout.synth(source=str(tmp_path), out=tmp_path / "run", **values)
    told = str(caught.value)
    assert setting in told and "\n" not in told and "sk-1" not in told and "--" not in told
    if option:
        name = {"generator.timeout:": "--timeout:", "the setting verifier": " --verifier"}.get(
            setting, f"--{setting.replace('.', '-').replace('_', '-')}"
        )
        assert name in refusal(tmp_path, "--out", tmp_path / "run", *option)


def test_a_single_text_is_a_list_of_one() -> None:
    made = SynthSettings.read(
        {"source": Path("a"), "labels": "all", "against": Path("b"), "stages": "ingest"}
    )
    assert (made.source, made.labels, made.against) == ("a", ("all",), ("b",))
    assert made.stages == (SynthStage.INGEST,)
    with pytest.raises(InputError, match="limit"):
        heldout.synth(made, limit=3, out="never")
    assert (
        SynthSettings.read({"source": "a", "stages": "ingest, select"}).stages[1]
        is SynthStage.SELECT
    )


def test_code_and_verifier_are_counted_on_both_sides(tmp_path: Path) -> None:
    """Four items: whether code and verifier see that the stem points to a caption."""
    run = Run.create(tmp_path / "run", seed=42)
    one = figure(run.path, "PMC1/f1", [png(Image.new("RGB", (40, 40)))])
    options = five(
        "dense cortex", "smooth membrane", "hollow vessel", "diffuse shadow", "loose tissue"
    )
    plain, pointing = "What is most visible?", "According to the caption, what is most visible?"
    faulty = {**PERFECT, "self-contained": (False, "")}
    cases = [
        (plain, PERFECT),
        (plain, faulty),
        (pointing, PERFECT),
        (pointing, faulty),
        (pointing, faulty),
    ]
    with writing(run, SynthStage.VERIFY, "made") as table:
        for number, (question, opinion) in enumerate(cases):
            draft = item(f"PMC1/f{number}", question, options)
            code = check_by_code(draft, one)
            write_verdict(
                table, verdict_row(draft, code, opinion, SynthSettings(source="made"), "made")
            )
    counts = code_and_verifier(run)
    (row,) = (
        counts.filter(pl.col("criterion") == "self-contained").drop("criterion").rows(named=True)
    )
    assert row == {"neither": 1, "code_alone": 1, "verifier_alone": 1, "both": 2, "code_decides": 0}
    (row,) = (
        counts.filter(pl.col("criterion") == "forbidden-terms").drop("criterion").rows(named=True)
    )
    assert row == {"neither": 2, "code_alone": 3, "verifier_alone": 0, "both": 0, "code_decides": 2}
    assert set(counts.drop("criterion", "code_decides").sum_horizontal()) == {5}
