"""Endpoints that fail in every way, and a process that is killed in every stage: nothing is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from serving import TwinServer
from test_twin_command import call
from typer.testing import CliRunner

from command_line import ForkedCommand
from heldout.cli.app import app
from heldout.errors import InputError

DESCRIBED = {
    "empty caption": 1,
    "caption refused": 3,
    "prompt too long": 1,
    "caption cut off": 1,
    "caption too long": 1,
    "the endpoint failed": 2,
}
JUDGED = {"the verifier gave no verdict": 5, "the verifier was not reached": 3}
# What never got an answer is tried again: a slow one and a garbled one three times, a long one once.
AGAIN = 3 + 3 + 1


def twin(scenes: Path, run: Path, describer: str, verifier: str, *more: object) -> list[str]:
    return [
        "twin",
        str(scenes),
        "--out",
        str(run),
        "--renderer",
        "scene",
        "--describer",
        describer,
        "--verifier",
        verifier,
        *map(str, more),
    ]


@pytest.mark.usefixtures("quick")
def test_every_fault_has_its_reason_and_nothing_is_paid_twice(
    scenes: Path, server: TwinServer, tmp_path: Path
) -> None:
    run, url = tmp_path / "run", server.url("faulty")
    arguments = twin(scenes, run, url, url, "--limit", 44, "--timeout", 1)
    made = call(*arguments)["stages"]
    assert made["describe"]["left_out"] == DESCRIBED
    assert made["describe"]["items"] + 9 == made["resample"]["items"]
    left_out = made["filter"]["left_out"]
    assert left_out.pop("rejected by the verifier") > 0
    assert left_out == JUDGED
    dropped = pl.read_parquet(run / "tables/dropped.parquet")
    kept = (run / "twin/kept.txt").read_text().split()
    assert len(set(dropped["id"]) | set(kept)) == len(dropped) + len(kept) == 44
    before = server.posted("faulty")
    again = call(*arguments)["stages"]
    assert again["describe"]["asked"] == again["filter"]["asked"] == 0
    assert server.posted("faulty") - before == 2 * AGAIN
    assert set(server.answered("faulty")) == {1}
    assert again["publish"] == made["publish"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("stage", ["describe", "filter"])
def test_a_server_that_dies_half_way(
    scenes: Path, server: TwinServer, tmp_path: Path, stage: str
) -> None:
    mode = f"mortal-{9 if stage == 'describe' else 8}"
    run, dying, well = tmp_path / "run", server.url(mode), server.url(f"well-{stage}")
    urls = (dying, well) if stage == "describe" else (well, dying)
    more = ("--limit", 24, "--concurrency", 2)
    done = CliRunner().invoke(app, twin(scenes, run, *urls, *more))
    assert isinstance(done.exception, InputError)
    assert "the same command" in str(done.exception)
    assert not (run / "twin/publish.json").exists()
    answered = len(server.answered(mode))
    reasons = pl.read_parquet(run / "tables/dropped.parquet").filter(
        pl.col("stage") == f"twin {stage}"
    )["reason"]
    waiting = {"describe": "not asked", "filter": "the verifier was not reached"}[stage]
    assert answered in (8, 9) and waiting in reasons.to_list()
    made = call(*twin(scenes, run, well, well, *more))["stages"][stage]
    assert made["reused"] == answered
    assert (
        len(server.answered(f"well-{stage} {stage.replace('filter', 'verify')}")) == made["asked"]
    )


def tree(run: Path) -> dict[str, bytes]:
    """Everything a person or a program reads; journals hold the order of arrival."""
    found = {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted((run / "twin").rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    }
    for name in ("twins", "dropped", "items"):
        found[name] = pl.read_parquet(run / f"tables/{name}.parquet").write_json().encode()
    return found


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_in_every_stage_it_ends_as_if_it_never_was(
    scenes: Path, server: TwinServer, tmp_path: Path
) -> None:
    run, url = tmp_path / "run", server.url("slow")
    arguments = twin(scenes, run, url, url, "--limit", 16, "--concurrency", 2)
    moments: dict[str, Callable[[], bool]] = {
        "describe": lambda: lines_in(run / "stages/twin/describe.jsonl") >= 3,
        "edges": lambda: len(list((run / "twin/edges").glob("*.png"))) >= 2,
        "render": lambda: len(list((run / "twin/pictures").glob("*.png"))) >= 3,
        "filter": lambda: lines_in(run / "stages/twin/verify.jsonl") >= 3,
        "publish": lambda: any((run / "twin").glob(".publish.*")),
    }
    for stage, moment in moments.items():
        process = ForkedCommand(*arguments)
        while not moment():
            assert process.poll() is None, f"it ended before it could be killed in {stage}"
            time.sleep(0.002)
        process.kill()
        process.wait()
        assert not (run / "twin/publish.json").exists()
    asked = server.posted("slow")
    made = call(*arguments)
    assert made["stages"]["describe"]["asked"] == made["stages"]["filter"]["asked"] == 0
    assert server.posted("slow") == asked
    assert not list((run / "twin").glob(".publish.*"))
    reference = tmp_path / "reference"
    call(*twin(scenes, reference, server.url(), server.url(), "--limit", 16))
    one, other = tree(run), tree(reference)
    assert one.keys() == other.keys() and len(one) > 25
    assert [name for name in one if one[name] != other[name]] == []


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_says_that_nothing_is_lost(
    scenes: Path, server: TwinServer, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    run, url = tmp_path / "run", server.url("slow")
    process = ForkedCommand(*twin(scenes, run, url, url, "--concurrency", 1))
    while lines_in(run / "stages/twin/describe.jsonl") < 2:
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(sent)
    _, told = process.communicate()
    assert process.returncode == code
    assert "the same command" in told


@pytest.mark.usefixtures("quick")
def test_pictures_of_an_edit_endpoint_that_dies_are_kept(
    scenes: Path, server: TwinServer, tmp_path: Path
) -> None:
    run = tmp_path / "run"

    def arguments(mode: str) -> list[str]:
        return [
            "twin",
            str(scenes),
            "--out",
            str(run),
            "--renderer",
            "edit",
            "--render-model",
            "mirror",
            "--render-endpoint",
            server.url(mode),
            "--render-set",
            "sizes=",
            "--unfiltered",
            "--limit",
            "20",
            "--concurrency",
            "2",
        ]

    done = CliRunner().invoke(app, arguments("mortal-5"))
    assert isinstance(done.exception, InputError)
    drawn = len(list((run / "twin/pictures").glob("*.png")))
    dropped = pl.read_parquet(run / "tables/dropped.parquet")
    assert drawn == len(server.answered("mortal-5")) and "not drawn" in dropped["reason"].to_list()
    made = call(*arguments("well-edit"))
    stages = made["stages"]
    assert stages["render"]["reused"] == drawn
    assert stages["render"]["drawn"] == server.posted("well-edit edit")
    assert (
        stages["render"]["items"]
        == stages["resample"]["items"]
        == drawn + stages["render"]["drawn"]
    )
    provenance = (run / "twin/provenance.jsonl").read_text()
    assert made["policy"] == "unfiltered" and provenance.count('"filter": "unfiltered"') == len(
        provenance.splitlines()
    )
    assert "127.0.0.1" not in provenance
