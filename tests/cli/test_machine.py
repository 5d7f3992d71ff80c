"""The machine gives out under the real command: a sentence, exit code 4, and the run goes on later."""

from __future__ import annotations

import errno
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import run_forked, run_inside

Picture = Callable[..., bytes]
TABLES = ("items", "matches", "dropped", "thumbnails")
# The limit is set when everything is imported: loading a library needs files and memory, too.
LIMITED = """
import os, resource, sys
import heldout.audit, heldout.overlap, heldout.report
from heldout.cli import main

kind, room = sys.argv.pop(1), int(sys.argv.pop(1))
if kind == "RLIMIT_NOFILE":
    with open(os.devnull) as file:
        room += file.fileno()
sys.dont_write_bytecode = True  # a limit on sizes cuts the bytecode of what is imported later
limit = getattr(resource, kind)
resource.setrlimit(limit, (room, resource.getrlimit(limit)[1]))
main()
"""


@pytest.fixture
def data(tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of five pictures, and a corpus of six tars that hold them."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "corpus").mkdir()
    rows = []
    for number in range(5):
        (tmp_path / f"bench/{number}.png").write_bytes(picture(number, size=(200, 200)))
        rows.append({"id": str(number), "image": f"{number}.png", "question": "?", "answer": "a"})
    (tmp_path / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for shard in range(6):
        with tarfile.open(tmp_path / f"corpus/{shard}.tar", "w") as tar:
            for seed in (shard, 100 + shard):
                image = picture(seed, size=(200, 200))
                member = tarfile.TarInfo(f"{seed}.png")
                member.size = len(image)
                tar.addfile(member, io.BytesIO(image))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def heldout(data: Path, *words: str, out: object = None) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *words],
        cwd=data,
        stdout=out or subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return done.returncode, done.stderr


def overlap(run: str, *more: str) -> list[str]:
    return [
        "overlap",
        "bench",
        "--against",
        "corpus",
        "--out",
        run,
        "--quiet",
        "--encoder",
        "none",
        *more,
    ]


def tables(run: Path) -> dict[str, bytes]:
    return {name: (run / f"tables/{name}.parquet").read_bytes() for name in TABLES}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("limit", "room", "said"),
    [
        ("RLIMIT_FSIZE", "20000", "ulimit -f"),  # as a disk that is full: a write fails half-way
        ("RLIMIT_NOFILE", "3", "ulimit -n"),
    ],
)
def test_a_run_that_the_machine_ended_goes_on(data: Path, limit: str, room: str, said: str) -> None:
    done = run_inside(*overlap("whole", "--workers", "1"))
    assert done.returncode == 0, done.stderr
    words = overlap("run", "--workers", "2" if limit == "RLIMIT_NOFILE" else "1")
    ended = run_forked(limit, room, *words, script=LIMITED)
    complaint = ended.stderr
    assert ended.returncode == 4, complaint
    assert said in complaint and "same command again" in complaint
    assert "Traceback" not in complaint
    done = run_inside(*overlap("run", "--workers", "1"))
    assert done.returncode == 0, done.stderr
    assert tables(data / "run") == tables(data / "whole")


def test_standard_output_that_is_full(data: Path) -> None:
    with Path("/dev/full").open("w") as full:
        code, complaint = heldout(data, "check", "bench", "--json", out=full)
    assert (code, "disk is full" in complaint) == (4, True), complaint
    assert "Exception ignored" not in complaint


def test_a_reader_that_went_away_is_no_gate(data: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "heldout", "check", "bench"],
        cwd=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.communicate()
    assert process.returncode == 141


@pytest.fixture
def broken(data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], tuple[int, str]]:
    """``check`` of a benchmark whose reader raises an error."""

    def check(error: Exception) -> tuple[int, str]:
        def read(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("heldout.cli.check.read_benchmark", read)
        done = run_inside("check", "bench")
        return done.returncode, done.stderr

    return check


def test_a_bug_is_a_sentence_and_a_file_to_report(
    broken: Callable[[Exception], tuple[int, str]],
) -> None:
    code, complaint = broken(KeyError("colour"))
    assert code == 4
    assert "bug in heldout" in complaint and "Traceback" not in complaint
    name = next(word for word in complaint.split() if "heldout-error-" in word).rstrip(".")
    told = Path(name).read_text()
    Path(name).unlink()
    assert "KeyError: 'colour'" in told and "Traceback" in told and "check bench" in told


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "memory ran out"),
        (PermissionError(13, "Permission denied", "/x"), "the system refused"),
        (sqlite3.OperationalError("database or disk is full"), "disk is full"),
    ],
)
def test_what_nobody_expected_is_never_a_gate(
    broken: Callable[[Exception], tuple[int, str]], error: Exception, said: str
) -> None:
    code, complaint = broken(error)
    assert (code, said in complaint) == (4, True), complaint
    assert "Traceback" not in complaint


def test_a_panic_of_polars_is_a_sentence_and_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is a BaseException of Rust; Python would end with 1, which says that a gate fired."""
    panic = type("PanicException", (BaseException,), {})

    def panics() -> None:
        raise panic('Os { code: 24, message: "Too many open files" }')

    monkeypatch.setattr("heldout.cli.app.app", panics)
    done = run_inside("overlap")
    assert done.returncode == 4
    assert "ulimit -n" in done.stderr


def test_a_sentence_is_printed_where_no_module_can_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("heldout.cli.app.app", fails)
    monkeypatch.setattr("heldout.cli.app.complain", fails)
    assert run_inside("overlap").returncode == 4
    assert "heldout: this process may not open more files" in capfd.readouterr().err
