from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.errors import InputError
from heldout.store import (
    Dropped,
    Run,
    ShardResult,
    Stage,
    adopt_shards,
    dropped_table,
    make_table,
    new_folder,
    read_table,
    saved_shards,
)
from heldout.store.schema import read_batches


def test_a_run_is_created_once_and_continued(tmp_path: Path) -> None:
    created = Run.create(tmp_path / "run", command=["heldout", "x"], seed=7).manifest()
    assert Run.create(tmp_path / "run", command=["heldout", "x"], seed=7).manifest() == created
    again = Run.create(tmp_path / "run", command=["other"], seed=7).manifest()
    assert again["commands"] == [["heldout", "x"], ["other"]]
    with pytest.raises(InputError, match="seed 7, not 9"):
        Run.create(tmp_path / "run", seed=9)


def test_a_first_write_that_was_killed_leaves_a_usable_folder(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.abc.tmp").write_text("{")
    assert Run.create(tmp_path).manifest()["seed"] == 0


def test_an_out_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        Run.create(tmp_path / "file" / "run")


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    with pytest.raises(InputError, match="a run folder"):
        Run.create(tmp_path)
    assert (tmp_path / "photo.jpg").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("content", "told"), [("{broken", "not JSON"), ('{"manifest_version": 99}', "version 99")]
)
def test_a_manifest_of_another_time_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=told):
        Run.create(tmp_path)


def test_inputs_of_two_revisions_are_never_mixed(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.claim_benchmark({"name": "slake", "fingerprint": "a" * 64})
    run.claim_benchmark({"name": "slake", "fingerprint": "a" * 64})
    with pytest.raises(InputError, match="order changed"):
        run.claim_benchmark({"name": "slake", "fingerprint": "b" * 64})
    with pytest.raises(InputError, match="'slake'.*'pathvqa'"):
        run.claim_benchmark({"name": "pathvqa", "fingerprint": "a" * 64})


def test_manifest_updates_of_many_threads_are_all_kept(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    threads = [
        threading.Thread(target=run.update, args=("models", {str(i): {"done": i}}))
        for i in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(run.manifest()["models"]) == 16


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    code = (
        "import sys, time; from heldout.store import Run\n"
        f"run = Run.open({str(run.path)!r})\n"
        "with run.writing():\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        with pytest.raises(InputError, match=f"process {other.pid}"), run.writing():
            pass
        other.kill()
        other.wait()
    with run.writing():  # the kernel gave the lock back
        pass


def test_tables_carry_a_version_and_another_version_is_refused(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.write_table("dropped", dropped_table([Dropped("corpus", "x", "empty image", "0 bytes")]))
    table = run.read_table("dropped")
    assert table.schema.metadata[b"heldout.table"] == b"dropped/1"
    assert table.to_pylist()[0]["reason"] == "empty image"
    assert run.frame("dropped").to_dicts() == table.to_pylist()
    run.table_path("dropped").rename(run.table_path("matches"))
    with pytest.raises(InputError, match="has schema 'dropped/1'"):
        run.read_table("matches")
    run.table_path("matches").write_bytes(b"not parquet")
    with pytest.raises(InputError, match="readable Parquet"):
        read_table(run.table_path("matches"))


def _result(index: int) -> ShardResult:
    rows = [{"stage": "s", "id": f"{index}-{k}", "reason": "r", "detail": ""} for k in range(3)]
    return ShardResult({"dropped": make_table("dropped", rows)}, {"items": 3})


def test_shards_merge_in_their_order_whatever_order_they_finish_in(tmp_path: Path) -> None:
    merged = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        stage = Stage(tmp_path / str(order), {"p": 1})
        for index in range(4):
            assert stage.plan(index, f"key{index}")
        for index in order:
            stage.save(index, _result(index))
        target = tmp_path / f"{order}.parquet"
        assert Stage.merge_all([stage], "dropped", target) == 12
        assert stage.counts() == {"items": 12}
        merged.append(target.read_bytes())
    assert merged[0] == merged[1]


def _finish(folder: Path, keys: list[str], params: dict[str, int] | None = None) -> list[str]:
    """Plan and finish a stage; the keys that had to be worked on."""
    stage = Stage(folder, params or {})
    to_do = [index for index, key in enumerate(keys) if stage.plan(index, key)]
    for index in to_do:
        stage.save(index, _result(index))
    stage.sweep()
    return [keys[index] for index in to_do]


def test_only_shards_whose_input_or_settings_changed_are_done_again(tmp_path: Path) -> None:
    assert _finish(tmp_path / "s", ["a", "b", "c", "d"]) == ["a", "b", "c", "d"]
    assert _finish(tmp_path / "s", ["a", "b", "c", "d"]) == []
    assert _finish(tmp_path / "s", ["a", "B", "c", "d"]) == ["B"]
    assert _finish(tmp_path / "s", ["a", "c", "d"]) == []  # one is gone, the others only moved up
    assert _finish(tmp_path / "s", ["a", "new", "c", "d"]) == ["new"]
    assert len(saved_shards(tmp_path / "s")) == 4  # stale shards are swept
    assert _finish(tmp_path / "s", ["a"], {"threshold": 2}) == ["a"]


def test_equal_shards_are_two_shards(tmp_path: Path) -> None:
    _finish(tmp_path / "s", ["a", "same", "same"])
    stage = Stage(tmp_path / "s", {})
    assert not any([stage.plan(0, "a"), stage.plan(1, "same"), stage.plan(2, "same")])
    assert Stage.merge_all([stage], "dropped", tmp_path / "t.parquet") == 9


def test_a_shard_with_something_missing_is_tried_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", {})
    stage.plan(0, "a")
    stage.save(0, ShardResult({}, {"items": 3, "missing": 2}))
    again = Stage(tmp_path / "s", {})
    assert again.plan(0, "a")
    again.save(0, _result(0))
    assert again.counts() == {"items": 3}


def test_a_shard_whose_record_was_cut_off_anywhere_is_done_again(tmp_path: Path) -> None:
    _finish(tmp_path / "s", ["a", "b", "c"])
    log = tmp_path / "s" / "shards.log"
    content = log.read_bytes()
    last = max(saved_shards(tmp_path / "s").values())
    for length in range(last + 1, len(content), 7):
        log.write_bytes(content[:length])
        assert _finish(tmp_path / "s", ["a", "b", "c"]) == ["c"]
        assert log.read_bytes() == content


def test_a_last_record_whose_bytes_never_reached_the_disk_is_done_again(tmp_path: Path) -> None:
    _finish(tmp_path / "s", ["a", "b"])
    log = tmp_path / "s" / "shards.log"
    content = log.read_bytes()
    log.write_bytes(content[:-40] + bytes(40))
    assert _finish(tmp_path / "s", ["a", "b"]) == ["b"]
    assert log.read_bytes() == content


def test_a_shard_that_does_not_fit_on_the_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path / "s", {})
    for index in range(2):
        stage.plan(index, str(index))
    stage.save(0, _result(0))
    before = (tmp_path / "s/shards.log").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", _full)
        with pytest.raises(OSError, match="No space left"):
            stage.save(1, _result(1))
    assert (tmp_path / "s/shards.log").read_bytes() == before
    stage.save(1, _result(1))
    assert stage.counts() == {"items": 6}


def _full(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_two_objects_of_one_stage_do_not_write_over_each_other(tmp_path: Path) -> None:
    left, right = Stage(tmp_path / "s", {}), Stage(tmp_path / "s", {})
    for stage, index in ((left, 0), (right, 1), (left, 2), (right, 3)):
        stage.plan(index, str(index))
        stage.save(index, _result(index))
    assert len(saved_shards(tmp_path / "s")) == 4


def test_shards_of_another_machine_are_adopted_once(tmp_path: Path) -> None:
    _finish(tmp_path / "there", ["a", "b"])
    _finish(tmp_path / "here", ["a", "c"])
    assert adopt_shards([tmp_path / "there"], tmp_path / "here") == 1
    assert adopt_shards([tmp_path / "there"], tmp_path / "here") == 0
    stage = Stage(tmp_path / "here", {})
    assert not any([stage.plan(0, "a"), stage.plan(1, "b"), stage.plan(2, "c")])
    assert stage.counts() == {"items": 9}


def test_folders_of_shards_of_an_earlier_version_are_swept(tmp_path: Path) -> None:
    (tmp_path / "s" / "0123").mkdir(parents=True)
    _finish(tmp_path / "s", ["a"])
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["shards.log"]


def test_merging_puts_the_first_table_first_and_keeps_one_row_per_value(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", {})
    for index in range(2):
        stage.plan(index, str(index))
        stage.save(index, _result(0))  # the same three ids twice
    first = dropped_table([Dropped("s", "0-1", "first", "")])
    target = tmp_path / "t.parquet"
    assert Stage.merge_all([stage], "dropped", target, first=first, unique="id") == 3
    rows = pq.read_table(target).to_pylist()
    assert [(row["id"], row["reason"]) for row in rows] == [
        ("0-1", "first"),
        ("0-0", "r"),
        ("0-2", "r"),
    ]


def test_json_files_are_replaced_whole(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.write_json("claims.json", {"claims": [1, 2]})
    run.write_json("claims.json", {"claims": []})
    assert json.loads((run.path / "claims.json").read_text()) == {"claims": []}
    assert not list(run.path.glob(".*.tmp"))
    with pytest.raises(InputError, match="does not exist"):
        run.read_json("nothing.json")


def test_a_folder_of_runs_is_told_from_a_run(tmp_path: Path) -> None:
    Run.create(tmp_path / "audit" / "vqa", seed=0)
    with pytest.raises(InputError, match=r"manifest\.json.*audit.vqa$"):
        Run.open(tmp_path / "audit").manifest()


def test_a_new_folder_is_announced_once_something_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError), new_folder(None, "synth", "fresh") as folder:
        raise InputError("source: it does not exist")
    assert not folder.exists() and capsys.readouterr().err == ""
    with pytest.raises(InputError), new_folder(None, "synth", "fresh") as folder:
        Run.create(folder)
        raise InputError("generator: it does not answer")
    assert folder.exists() and capsys.readouterr().err.count(str(folder)) == 1


def test_a_table_that_is_read_in_pieces_is_not_held(tmp_path: Path) -> None:
    words = pa.schema([("words", pa.string())])
    with pq.ParquetWriter(tmp_path / "other.parquet", words) as file:
        for _ in range(30):  # row groups
            file.write_table(pa.table({"words": [token_hex(5000) for _ in range(40)]}))
    held = [
        (len(table), pa.total_allocated_bytes())
        for table in read_batches(tmp_path / "other.parquet", 40)
    ]
    assert sum(rows for rows, _ in held) == 1200
    assert max(size for _, size in held) < 4_000_000  # all of it is 12 MB
