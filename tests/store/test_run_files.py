"""Run folders from strangers and from machines that died: links, damage, records."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from command_line import run_inside
from heldout.errors import InputError
from heldout.store import (
    MATCH,
    Dropped,
    Judgement,
    Run,
    append,
    compared_with_record,
    current,
    dropped_table,
    files,
    inside,
    write_json,
)

PRECIOUS = "precious line\n" * 5
DROPPED = "tables/dropped.parquet"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "run", command=["test"])
    made.write_table("dropped", dropped_table([Dropped("corpus", "x", "empty image", "0 bytes")]))
    made.write_json("findings.json", {"schema_version": 1, "findings": []})
    return made


def judge(run: Run) -> None:
    append(run.path, Judgement("ada", MATCH, "x", "copy"))


def write(run: Run) -> None:
    with run.writing():
        run.update("models", {})


OPENED: dict[str, Callable[[Run], object]] = {
    ".writer.lock": write,
    ".manifest.lock": write,
    "manifest.json": lambda run: run.manifest(),
    "review/judgements.jsonl": judge,
    "review/.judgements.lock": judge,
    DROPPED: lambda run: run.frame("dropped"),
    "findings.json": lambda run: run.read_json("findings.json"),
    "stages/scan/shards.log": lambda run: run.stage("scan", {}),
}


@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_nothing_but_a_plain_file_is_opened(run: Run, tmp_path: Path, name: str, kind: str) -> None:
    victim, path = tmp_path / "victim", run.path / name
    victim.write_text(PRECIOUS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    {
        "link": lambda: path.symlink_to(victim),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()
    with pytest.raises(InputError, match=str(path)):
        OPENED[name](run)
    assert victim.read_text() == PRECIOUS


@pytest.mark.parametrize("folder", ["tables", "review", "stages"])
def test_a_folder_that_is_a_link_is_not_entered(run: Run, tmp_path: Path, folder: str) -> None:
    elsewhere, place = tmp_path / "elsewhere", run.path / folder
    elsewhere.mkdir()
    (elsewhere / "manifest.json").write_text("{}")  # that it looks like a run does not help
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(elsewhere)
    attempts: dict[str, Callable[[], object]] = {
        "tables": lambda: run.write_table("dropped", dropped_table([])),
        "review": lambda: judge(run),
        "stages": lambda: run.stage("scan", {}),
    }
    with pytest.raises(InputError, match=f"{folder} is a link"):
        attempts[folder]()
    assert [path.name for path in elsewhere.iterdir()] == ["manifest.json"]


def test_a_run_may_itself_be_a_link(run: Run, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run.path)
    again = Run.open(link)
    write(again)
    assert again.frame("dropped").height == 1


@pytest.mark.parametrize("name", ["/etc/hostname", "../victim", "twin/../../victim", "link"])
def test_names_in_tables_do_not_lead_out_of_the_run(run: Run, name: str) -> None:
    (run.path / "link").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="outside of the run folder"):
        inside(run.path, name)
    assert inside(run.path, "twin/pictures/a.png") == run.path / "twin/pictures/a.png"


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(run: Run, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text(PRECIOUS)
    (run.path / "claims.json").symlink_to(victim)
    run.write_json("claims.json", {"schema_version": 1, "claims": []})
    assert victim.read_text() == PRECIOUS
    assert run.read_json("claims.json")["claims"] == []


# Records.


def test_what_is_written_is_recorded_and_what_differs_is_refused(run: Run) -> None:
    assert compared_with_record(run.path) == {"findings.json": "", DROPPED: ""}
    path = run.table_path("dropped")
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 0), path)
    for read in (
        lambda: run.read_table("dropped"),
        lambda: list(run.batches("dropped")),
        run.verify,
    ):
        with pytest.raises(InputError, match=f"{path}.*SHA-256.*again"):
            read()
    assert "SHA-256" in compared_with_record(run.path)[DROPPED]
    run.write_table("dropped", table)
    run.verify()
    assert run.read_table("dropped").equals(table)


def test_a_document_that_differs_is_refused(run: Run) -> None:
    path = run.path / "findings.json"
    path.write_text(path.read_text().replace("[]", '[{"id": "x"}]'))
    with pytest.raises(InputError, match=f"{path}.*SHA-256"):
        run.read_json("findings.json")


def test_what_is_listed_and_missing_is_said(run: Run) -> None:
    run.table_path("dropped").unlink()
    with pytest.raises(InputError, match=r"dropped\.parquet is missing"):
        run.verify()
    with pytest.raises(InputError, match=r"dropped\.parquet is missing"):
        run.read_table("dropped")
    run.remove(DROPPED)
    run.verify()
    (run.path / "findings.json").unlink()
    run.verify()  # heldout report makes it


def test_a_table_is_hashed_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Any] = []
    digest = files._digest
    monkeypatch.setattr(files, "_digest", lambda file: hashed.append(file.name) or digest(file))
    for _ in range(3):
        run.read_table("dropped")
    assert not hashed  # this process wrote it
    os.utime(run.table_path("dropped"))
    for _ in range(3):
        run.read_table("dropped")
    assert hashed == [str(run.table_path("dropped"))]


def test_a_kill_at_any_moment_leaves_no_wrong_record(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = files._record

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def killed_at_last(folder: Path, name: str, digest: str | None) -> None:
        record(folder, name, digest) if digest is None else killed()

    for dying, how in (("_keep_names", killed), ("_record", killed_at_last)):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(files, dying, how)
            run.write_table("dropped", dropped_table([Dropped("corpus", dying, "r", "")]))
        assert run.read_table("dropped").num_rows == 1
        run.verify()


def test_a_table_that_stays_the_same_leaves_the_manifest_alone(run: Run) -> None:
    before = run.manifest_path.stat()
    run.write_table("dropped", run.read_table("dropped"))
    assert run.manifest_path.stat().st_mtime_ns == before.st_mtime_ns


def test_runs_without_a_record_are_read(run: Run) -> None:
    manifest = run.manifest()
    del manifest["files"]
    write_json(run.manifest_path, manifest)
    run.verify()
    assert run.frame("dropped").height == 1
    with pytest.raises(InputError, match="no checksums recorded"):
        compared_with_record(run.path)
    assert run_inside("report", run.path, "--verify").returncode == 2


def test_report_verify_says_which_files_are_as_recorded(run: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    done = run_inside("report", run.path, "--verify")
    assert done.returncode == 0
    assert f"{run.path / DROPPED} is as recorded" in done.stdout
    (run.path / "findings.json").write_text("{}")
    done = run_inside("report", run.path, "--verify", "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)["files"]
    assert told[str(run.path / DROPPED)] == "as recorded"
    assert "SHA-256" in told[str(run.path / "findings.json")]
    assert {path: path.stat().st_mtime_ns for path in before} | {
        run.path / "findings.json": 0
    } == before | {run.path / "findings.json": 0}


def test_judgements_are_added_to_a_recorded_run(run: Run) -> None:
    judge(run)
    assert current(run.path, MATCH)
    run.verify()


# Shapes, where nothing is recorded.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b"\0" * 500,
        b"[]",
        b"\xff\xfe{",
        b'{"claims": []}',
        b'{"schema_version": 99, "findings": []}',
        b'{"schema_version": 1, "findings": {}}',
        b'{"schema_version": 1, "findings": [7]}',
    ],
)
def test_a_document_of_another_shape_is_one_sentence(run: Run, content: bytes) -> None:
    run.remove("findings.json")
    (run.path / "findings.json").write_bytes(content)
    with pytest.raises(InputError, match=r"findings\.json.*again"):
        run.read_json("findings.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inputs", []),
        ("inputs", None),
        ("inputs", {"benchmark": {"name": "b", "fingerprint": "f", "items": -5}}),
        ("inputs", {"benchmark": {"name": "b", "fingerprint": "f", "items": "<b>"}}),
        ("stages", "x"),
        ("stages", {"a": {}}),
        ("created", "<script>"),
        ("commands", []),
        ("manifest_version", "x"),
        ("files", {DROPPED: 7}),
    ],
)
def test_a_manifest_of_another_shape_is_one_sentence(run: Run, key: str, value: object) -> None:
    manifest = {**run.manifest(), key: value}
    write_json(run.manifest_path, {k: v for k, v in manifest.items() if v is not None})
    with pytest.raises(InputError, match="manifest"):
        Run.open(run.path)


@pytest.mark.parametrize("damage", ["cut", "columns", "types"])
def test_a_table_of_another_shape_is_one_sentence(run: Run, damage: str) -> None:
    path = run.table_path("dropped")
    table = pq.read_table(path)
    run.remove(DROPPED)
    if damage == "columns":
        pq.write_table(table.select([0]), path)
    elif damage == "types":
        numbers = pl.DataFrame(table).with_columns(pl.lit(7).alias("id")).to_arrow()
        pq.write_table(numbers.replace_schema_metadata(table.schema.metadata), path)
    else:
        pq.write_table(table, path)
        os.truncate(path, 200)
    with pytest.raises(InputError, match=str(path)):
        run.frame("dropped")


# Names that outlive the machine.


def test_a_renamed_file_is_kept_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def renamed(path: Path, target: Path) -> Path:
        done.append("renamed")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    files.write_atomic(tmp_path / "a", "text")
    assert done == ["file", "renamed", "folder"]
