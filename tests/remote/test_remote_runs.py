"""Whole runs on remote data: the same tables as from disk, whatever fails, and no credentials in the run."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import servers
from test_remote_corpora import write_tar

from command_line import run_inside
from heldout.audit import OverlapResult, audit_overlap
from heldout.cure import sanitize
from heldout.engine import LocalEngine, RayEngine
from heldout.errors import PrerequisiteError
from heldout.remote import LOST, REFUSED
from ray_nodes import RayCluster, workers_with

QUICK = {"exact": True, "text": False, "quiet": True}


def matches(result: OverlapResult) -> pl.DataFrame:
    return result.matches.select(
        "benchmark_id", "image_index", "corpus", "corpus_id", "method", "degree"
    ).sort(pl.all())


def dropped(result: OverlapResult) -> list[tuple[str, str]]:
    rows = result.run.read_table("dropped").to_pylist()
    return [(row["id"], row["reason"]) for row in rows]


@pytest.fixture
def set_in_s3(tmp_path: Path, picture, s3: str, bucket: str) -> Path:
    """A benchmark of 8 pictures and a corpus of 6 tars, three of which hold two of them; both in S3, too."""
    folder = tmp_path / "set"
    (folder / "bench").mkdir(parents=True)
    (folder / "corpus").mkdir()
    rows = []
    for number in range(8):
        (folder / "bench" / f"{number}.png").write_bytes(picture(number))
        rows.append({"id": f"i{number}", "image": f"{number}.png", "question": "?", "answer": "a"})
    (folder / "bench" / "test.json").write_text(json.dumps(rows))
    for shard in range(6):
        first = 2 * (shard // 2) if shard % 2 else 1000 * (shard + 1)
        write_tar(folder / "corpus" / f"{shard:03}.tar", lambda n, at=first: picture(at + n), 2)
    servers.upload(servers.s3_client(s3), bucket, folder)
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_on_s3_with_faults_equals_the_run_on_disk(
    workers: int, set_in_s3: Path, tmp_path: Path, proxy, bucket: str
) -> None:
    local = audit_overlap(set_in_s3 / "bench", set_in_s3 / "corpus", tmp_path / "local", **QUICK)
    proxy.share = 0.05
    with LocalEngine(workers) as engine:
        remote = audit_overlap(
            f"s3://{bucket}/bench",
            f"s3://{bucket}/corpus",
            tmp_path / "remote",
            engine,
            **QUICK,
            cache=str(tmp_path / "copies") if workers == 2 else None,
        )
    assert len(local.matches) == 6
    assert matches(remote).equals(matches(local))
    assert dropped(remote) == dropped(local)
    here = sanitize(set_in_s3 / "bench", run=local.run, out=tmp_path / "here", quiet=True)
    there = sanitize(f"s3://{bucket}/bench", run=remote.run, out=tmp_path / "there", quiet=True)
    assert there.kept.equals(here.kept)
    assert len(there.kept) == 2
    copies = list((tmp_path / "copies").glob("*.copy")) if workers == 2 else []
    assert len(copies) >= 6 * (workers == 2)
    assert not re.search(servers.SECRET, "".join(texts_below(tmp_path / "remote")))


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_a_run_on_ray_reads_s3_in_its_workers(
    set_in_s3: Path, tmp_path: Path, proxy, bucket: str, ray_connection: RayCluster
) -> None:
    local = audit_overlap(set_in_s3 / "bench", set_in_s3 / "corpus", tmp_path / "local", **QUICK)
    proxy.share = 0.05
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with (
        workers_with(ray_connection, keys),
        RayEngine(ray_connection.address, workers=1) as engine,
    ):
        remote = audit_overlap(
            f"s3://{bucket}/bench",
            f"s3://{bucket}/corpus",
            tmp_path / "remote",
            engine,
            **QUICK,
            cache=str(tmp_path / "copies"),
        )
    assert matches(remote).equals(matches(local))
    assert len(list((tmp_path / "copies").glob("*.copy"))) >= 6


def test_what_a_dead_store_cost_is_dropped_and_the_next_run_gets_it(
    set_in_s3: Path, tmp_path: Path, proxy, bucket: str
) -> None:
    local = audit_overlap(set_in_s3 / "bench", set_in_s3 / "corpus", tmp_path / "local", **QUICK)
    proxy.plan = lambda method, path: (
        "throttle" if method == "GET" and re.search(r"00[345]\.tar$", path) else ""
    )
    addresses = (f"s3://{bucket}/bench", f"s3://{bucket}/corpus")
    first = audit_overlap(*addresses, tmp_path / "remote", **QUICK)
    assert sorted(dropped(first)) == [(f"00{n}.tar", LOST) for n in (3, 4, 5)]
    assert len(first.matches) == 2
    proxy.plan = None
    proxy.requests.clear()
    second = audit_overlap(*addresses, tmp_path / "remote", **QUICK)
    assert matches(second).equals(matches(local))
    assert not dropped(second)
    again = {path[-7:] for method, path, span in proxy.requests if span and ".tar" in path}
    assert again == {"003.tar", "004.tar", "005.tar"}  # the others were done


def texts_below(folder: Path) -> list[str]:
    """Everything in a run folder that can be read, tables as text and every file as bytes."""
    texts = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        texts.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".parquet":
            texts.append(str(pl.read_parquet(path).rows()))
    return texts


def test_no_credential_is_in_a_run_or_its_output(
    web, picture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (web.folder / "in").mkdir()
    for number in range(3):
        (web.folder / "in" / f"{number}.png").write_bytes(picture(number))
    (web.folder / "in" / "broken.png").write_bytes(b"no picture")
    rows = [{"image": f"{n}.png", "question": f"What is {n}?", "answer": "a"} for n in range(3)]
    (web.folder / "in" / "bench.json").write_text(json.dumps(rows))
    web.signature = "sig=s3cr3t-signature"
    web.login = "Basic " + base64.b64encode(b"ann:pass-word").decode()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET)
    address = web.address.replace("://", "://ann:pass-word@") + "/in"
    query = "?X-Amz-Credential=AKIACREDENTIAL&sig=s3cr3t-signature"
    done = run_inside(
        "overlap",
        f"{address}{query}",
        "--against",
        f"{address}/{query}",
        "--out",
        tmp_path / "run",
        "--encoder",
        "none",
    )
    assert done.returncode == 0, done.stderr
    assert len(pl.read_parquet(tmp_path / "run/tables/matches.parquet")) == 3
    web.signature = "the signature has expired"
    failed = run_inside(
        "overlap",
        f"{address}{query}",
        "--against",
        f"{address}/{query}",
        "--out",
        tmp_path / "run2",
    )
    assert failed.returncode == 2
    assert REFUSED in failed.stderr
    texts = [*texts_below(tmp_path), done.stdout, done.stderr, failed.stdout, failed.stderr]
    for secret in ("s3cr3t", "pass-word", "AKIACREDENTIAL", servers.SECRET):
        assert not any(secret in text for text in texts), secret


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "from heldout.cli import main; main()"
    without = Path(__file__).parents[1] / "without_packages.py"
    words = ["overlap", "s3://bucket/b.json", "--against", "s3://bucket/c", "--out", "run"]
    done = subprocess.run(
        [sys.executable, str(without), "s3fs", program, *words], capture_output=True, text=True
    )
    assert done.returncode == PrerequisiteError.exit_code
    assert "pip install 'heldout[remote]'" in done.stderr


def shared_and_some(files: dict[str, bytes], others: set[bytes]) -> dict[str, bytes]:
    """Files that are also among others, and twenty that are not."""
    apart = [name for name, data in files.items() if data not in others][:20]
    return {name: data for name, data in files.items() if data in others or name in apart}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_vqa_rad_in_vqa_med_from_s3_with_faults_is_the_same_38_images(
    shared_data: Path, tmp_path: Path, proxy, s3: str, bucket: str
) -> None:
    """One of five requests fails: throttled, or reset in the middle of the body."""
    folder = tmp_path / "data"
    rad, med = shared_data / "vqa_rad", shared_data / "vqa_med_2019"
    rows = json.loads((rad / "mevf_trainset.json").read_text())
    chosen = {row["image_name"]: row for row in rows}
    ours = {name: (rad / "images" / name).read_bytes() for name in chosen}
    theirs = {
        path.relative_to(med).as_posix(): path.read_bytes()
        for path in sorted(med.glob("*_images/*"))
    }
    write_files(folder / "rad/images", shared_and_some(ours, set(theirs.values())))
    write_files(folder / "med", shared_and_some(theirs, set(ours.values())))
    kept = [row for name, row in chosen.items() if (folder / "rad/images" / name).is_file()]
    (folder / "rad/train.json").write_text(json.dumps(kept))
    assert servers.upload(servers.s3_client(s3), bucket, folder) > 110
    local = audit_overlap(folder / "rad/train.json", folder / "med", tmp_path / "local", **QUICK)
    proxy.share = 0.2
    remote = audit_overlap(
        f"s3://{bucket}/rad/train.json", f"s3://{bucket}/med", tmp_path / "remote", **QUICK
    )
    assert proxy.faults["throttle"] > 5
    assert proxy.faults["reset"] > 5
    assert matches(remote).equals(matches(local))
    assert dropped(remote) == dropped(local) == []
    identical = remote.matches.filter(pl.col("method") == "bytes")
    assert identical["corpus_id"].n_unique() == 38
