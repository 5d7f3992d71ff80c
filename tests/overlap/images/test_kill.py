"""A search that is really killed, at any of its stages, ends with the tables of one that never was."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import psutil
import pytest

from command_line import ForkedCommand, run_inside
from heldout.store import Run, saved_shards
from ray_nodes import RayCluster

pytest.importorskip("cv2", reason="registration needs heldout[vision]")

SHARDS, FEW, STRIKES = 15, 6, 3
TABLES = ("items", "matches", "dropped", "thumbnails")
NEAR = ("--encoder", "pixels", "--nearest", "2")


def command(data: Path, run: Path, *more: str) -> list[str]:
    against = f"corpus={data / 'corpus'}"
    return ["overlap", str(data / "bench"), "--against", against, "--out", str(run), *more]


def done(run: Path) -> dict[str, int]:
    """Everything finished so far: shards of every stage, and matrices of embeddings."""
    shards = {
        f"{folder}/{name}": place
        for folder in run.glob("stages/*/*")
        for name, place in saved_shards(folder).items()
    }
    return shards | {str(path): path.stat().st_ino for path in run.glob("embeddings/**/*.npy")}


def tables(run: Path) -> dict[str, bytes]:
    return {name: (run / f"tables/{name}.parquet").read_bytes() for name in TABLES}


def rows(run: Path) -> list[dict[str, str]]:
    return Run.open(run).read_table("matches").to_pylist()


@pytest.fixture(scope="module")
def whole(near_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A near search that nobody disturbed, in one process."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert run_inside(*command(near_data, run, *NEAR, "--workers", "1")).returncode == 0
    return run


@pytest.fixture(scope="module")
def exact(near_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scan for exact copies that nobody disturbed, in one process."""
    run = tmp_path_factory.mktemp("exact") / "run"
    assert run_inside(*command(near_data, run, "--exact", "--workers", "1")).returncode == 0
    assert [row["relation"] for row in rows(run)] == ["same image"]
    dropped = Run.open(run).read_table("dropped").to_pylist()
    assert [row["id"] for row in dropped if row["stage"] == "corpus"] == ["00008.tar/0"]
    return run


def test_a_killed_search_resumes_loses_nothing_and_repeats_nothing(
    near_data: Path, whole: Path, tmp_path: Path
) -> None:
    """The first blow falls on the scan for exact copies, the others on embedding and verification."""
    killed = tmp_path / "killed"
    goal = len(done(whole))
    moments = random.Random(3)
    finished = []
    for strike in range(STRIKES):
        before = done(killed)
        search = ForkedCommand(*command(near_data, killed, *NEAR, "--workers", "2"))
        # Strike when a further third is done, so that every stage is met in its middle.
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and search.poll() is None:
            if len(done(killed)) > max(len(before), strike * goal // STRIKES):
                break
            time.sleep(0.03)
        time.sleep(moments.uniform(0.0, 0.1))
        workers = (
            psutil.Process(search.pid).children(recursive=True) if search.poll() is None else []
        )
        search.kill()
        search.wait()
        after = done(killed)
        assert before.items() <= after.items(), "a finished shard was lost or done again"
        finished.append(len(after))
        _, alive = psutil.wait_procs(workers, timeout=15)
        assert not alive, "workers outlived the search that was killed"
    assert len({count for count in finished if 0 < count < goal}) > 1, "no kill came in between"
    before = done(killed)
    scanned = [path for path in before if "/stages/overlap/" in path]
    assert run_inside(*command(near_data, killed, *NEAR, "--workers", "1")).returncode == 0
    assert before.items() <= done(killed).items()
    assert not list(killed.glob("stages/*/*/.*"))  # no half-written leftovers
    assert tables(killed) == tables(whole)
    stages = [
        json.loads((run / "manifest.json").read_text())["stages"]["overlap:corpus"]
        for run in (killed, whole)
    ]
    assert stages[0]["reused"] == len(scanned)
    counts = [stage["counts"] for stage in stages]
    assert counts[0].pop("embedded_shards") < counts[1].pop("embedded_shards") == SHARDS
    assert counts[0] == counts[1]
    copies = [row for row in rows(killed) if row["relation"] in ("same image", "transformed copy")]
    assert len({row["corpus_id"] for row in copies}) == SHARDS // 5 + 1


def test_the_order_of_shards_decides_nothing(near_data: Path, tmp_path: Path) -> None:
    found = []
    for name, place in (("forth", lambda n: n), ("back", lambda n: FEW - n)):
        data = tmp_path / name
        (data / "corpus").mkdir(parents=True)
        (data / "bench").symlink_to(near_data / "bench")
        for number, tar in enumerate(sorted((near_data / "corpus").glob("*.tar"))[:FEW]):
            (data / f"corpus/{place(number):05d}.tar").hardlink_to(tar)
        assert run_inside(*command(data, data / "run", *NEAR, "--workers", "1")).returncode == 0
        found.append(
            sorted(
                (row["benchmark_id"], original(row["corpus_id"], data, near_data), row["relation"])
                for row in rows(data / "run")
            )
        )
    assert found[0] and found[0] == found[1]


def original(corpus_id: str, data: Path, source: Path) -> str:
    tar, _, member = corpus_id.partition("/")
    same = (data / "corpus" / tar).samefile
    (name,) = (path.name for path in (source / "corpus").glob("*.tar") if same(path))
    return f"{name}/{member}"


def test_two_scans_into_one_run_do_not_corrupt_it(
    near_data: Path, exact: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    pair = [ForkedCommand(*command(near_data, run, "--exact")) for _ in range(2)]
    complaints = [process.communicate(timeout=120)[1] for process in pair]
    codes = sorted(process.wait() for process in pair)
    # The second waits for nobody: it says so, or comes later.
    assert codes in ([0, 0], [0, 2]), complaints
    if codes == [0, 2]:
        assert "is being written by another process" in "".join(complaints)
    assert tables(run) == tables(exact)


@pytest.mark.ray
def test_a_scan_on_ray_gives_the_same_tables(
    near_data: Path, exact: Path, tmp_path: Path, ray_connection: RayCluster
) -> None:
    engine = ("--engine", f"ray:{ray_connection.address}", "--workers", "2")
    ran = run_inside(*command(near_data, tmp_path / "ray", "--exact", *engine))
    assert ran.returncode == 0, ran.stderr
    assert tables(tmp_path / "ray") == tables(exact)
