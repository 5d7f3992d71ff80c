"""A scan that is really killed, again and again, ends with the tables of one that never was."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from command_line import run_inside

SHARDS, PER_SHARD, LEAKED = 40, 4, 12
HELDOUT = (sys.executable, "-m", "heldout")
TABLES = ("items", "matches", "dropped", "thumbnails")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of 12 pictures and a corpus of 40 tars of the same size, so all are decoded."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)

    def picture() -> bytes:
        buffer = io.BytesIO()
        noise = rng.integers(0, 256, (300, 300, 3), dtype=np.uint8)
        Image.fromarray(noise).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    (folder / "bench").mkdir()
    leaked = [picture() for _ in range(LEAKED)]
    rows = []
    for number, image in enumerate(leaked):
        (folder / "bench" / f"{number}.png").write_bytes(image)
        rows.append(
            {"id": number, "image": f"{number}.png", "question": "?", "answer": str(number)}
        )
    (folder / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "corpus").mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"corpus/{shard:05d}.tar", "w") as tar:
            for index in range(PER_SHARD):
                image = leaked[shard % LEAKED] if index == 3 else picture()
                if shard % 10 == 9 and index == 0:
                    image = b"not an image"
                member = tarfile.TarInfo(f"{index:03d}.png")
                member.size = len(image)
                tar.addfile(member, io.BytesIO(image))
    return folder


def command(data: Path, run: Path, *more: str) -> list[str]:
    return [
        "overlap",
        str(data / "bench"),
        "--against",
        f"corpus={data / 'corpus'}",
        "--exact",
        "--out",
        str(run),
        *more,
    ]


def finished_shards(run: Path) -> dict[str, int]:
    folder = run / "stages/overlap/corpus"
    if not folder.exists():
        return {}
    return {p.name: p.stat().st_ino for p in folder.iterdir() if not p.name.startswith(".")}


def tables(run: Path) -> dict[str, bytes]:
    return {name: (run / f"tables/{name}.parquet").read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed, in one process."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert run_inside(*command(data, run, "--workers", "1")).returncode == 0
    return run


def test_a_killed_scan_resumes_loses_nothing_and_repeats_nothing(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    moments = random.Random(1)
    progressed = []
    for _ in range(3):
        before = finished_shards(killed)
        scan = subprocess.Popen(
            [*HELDOUT, *command(data, killed, "--workers", "2")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Wait until it works on something new, then strike at a random moment.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and scan.poll() is None:
            if len(finished_shards(killed)) > len(before):
                break
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.15))
        workers = psutil.Process(scan.pid).children(recursive=True) if scan.poll() is None else []
        scan.kill()
        scan.wait()
        after = finished_shards(killed)
        assert before.items() <= after.items(), "a finished shard was lost or done again"
        progressed.append(len(after))
        _, alive = psutil.wait_procs(workers, timeout=15)
        assert not alive, "workers outlived the scan that was killed"
    assert any(0 < count < SHARDS for count in progressed), "no kill came while work was left"
    before = finished_shards(killed)
    assert run_inside(*command(data, killed)).returncode == 0
    assert before.items() <= finished_shards(killed).items()
    assert tables(killed) == tables(whole)
    stage = json.loads((killed / "manifest.json").read_text())["stages"]["overlap:corpus"]
    assert stage["reused"] == len(before)
    assert not list((killed / "stages/overlap/corpus").glob(".*"))  # no half-written leftovers


def test_two_scans_into_one_run_do_not_corrupt_it(data: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pair = [
        subprocess.Popen(
            [*HELDOUT, *command(data, run)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    complaints = [process.communicate(timeout=120)[1] for process in pair]
    codes = sorted(process.returncode for process in pair)
    assert codes in ([0, 0], [0, 2]), (
        complaints
    )  # the second waits for nobody: it says so, or comes later
    if codes == [0, 2]:
        assert "is being written by another process" in "".join(complaints)
    assert tables(run) == tables(whole)


@pytest.mark.ray
def test_a_scan_on_ray_gives_the_same_tables(data: Path, whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the Ray engine needs heldout[ray]")
    done = subprocess.run(
        [*HELDOUT, *command(data, tmp_path / "ray", "--engine", "ray", "--workers", "2")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path / "ray") == tables(whole)
