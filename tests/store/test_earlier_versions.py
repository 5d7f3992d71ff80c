"""Runs and judgements of earlier versions: what only changed its name is read by its new one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heldout.errors import InputError
from heldout.store import (
    MATCH,
    SCHEMAS,
    Run,
    ShardResult,
    Stage,
    current,
    make_table,
    read_table,
)

RENAMED = "same view, other subject"


def written(path: Path, version: str) -> Path:
    relations = [RENAMED, "same image", "undecided"]
    table = make_table("matches", [{"relation": relation} for relation in relations])
    schema = SCHEMAS["matches"].with_metadata({"heldout.table": version})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.cast(schema), path)
    return path


def test_look_alikes_of_an_earlier_run_are_read_by_their_new_name(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "matches.parquet", "matches/1"))
    assert table.column("relation").to_pylist() == ["look-alike", "same image", "undecided"]
    assert table.schema.metadata == SCHEMAS["matches"].metadata


@pytest.mark.parametrize("version", ["matches/0", "matches/9", "items/1"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(InputError, match="re-run the command"):
        read_table(written(tmp_path / "matches.parquet", version))


def test_an_unfinished_run_goes_on_with_shards_of_an_earlier_version(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", command=["test"])
    stage = run.stage("scan", {})
    stage.plan(0, "a")
    old = make_table("matches", [{"relation": RENAMED}])
    stage.save(0, ShardResult(tables={"matches": old}, counts={}))
    target = tmp_path / "matches.parquet"
    assert Stage.merge_all([stage], "matches", target) == 1
    assert read_table(target).column("relation").to_pylist() == ["look-alike"]


def test_what_people_said_before_is_their_word_still(tmp_path: Path) -> None:
    log = tmp_path / "review" / "judgements.jsonl"
    log.parent.mkdir()
    entry = {"rater": "ada", "kind": MATCH, "subject": "x", "verdict": RENAMED}
    log.write_text(json.dumps(entry) + "\n")
    assert current(tmp_path, MATCH)["x", "ada"].verdict == "look-alike"
