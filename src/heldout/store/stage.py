"""A stage: work over many shards, each finished shard written once.

A shard's tables are written into a hidden folder which is then renamed: the rename is the marker.
The folder's name is a digest of the shard's input and of the settings, so a shard whose input has
changed is a different shard, and one that only moved up or down the list is not done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.store.lock import replacing
from heldout.store.schema import SCHEMAS, make_table, renamed

_COUNTS = "counts.json"


@dataclass
class ShardResult:
    """What a worker returns for one shard: tables by name, and counts that are summed over shards."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Stage:
    """Shards of one stage under ``folder``; ``params`` are the settings that shaped the results."""

    def __init__(self, folder: Path, params: Mapping[str, Any]) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._salt = json.dumps(params, sort_keys=True, default=str)
        self._planned: dict[int, str] = {}  # folder names by shard index, in shard order
        self._taken: set[str] = set()
        self._finished = {
            entry.name
            for entry in os.scandir(folder)
            if entry.name[0] != "." and Path(entry.path, _COUNTS).exists()
        }

    def plan(self, index: int, key: str) -> bool:
        """Make shard ``index``, whose input has ``key``, part of this stage; True if it is still to be done."""
        # The first shard may speak for its corpus as a whole, so it is never just any shard.
        text = f"{self._salt}\n{index == 0}\n{key}"
        name = digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        repeat = 1
        while name in self._taken:  # equal input twice is two shards
            repeat += 1
            name = f"{digest}-{repeat}"
        self._taken.add(name)
        self._planned[index] = name
        if name not in self._finished:
            return True
        counts = json.loads((self.folder / name / _COUNTS).read_text())
        if counts.get("missing"):  # what was missing then may be there now
            self._finished.discard(name)
            return True
        return False

    def save(self, index: int, result: ShardResult) -> None:
        """Keep a planned shard's result: after the rename it is safe even if the process is killed."""
        name = self._planned[index]
        target = self.folder / name
        temporary = self.folder / f".{name}.{os.getpid()}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            for table_name, table in result.tables.items():
                if table.num_rows:
                    path = temporary / f"{table_name}.parquet"
                    pq.write_table(table, path, compression="zstd")
                    _sync(path)
            (temporary / _COUNTS).write_text(json.dumps(result.counts))
            _sync(temporary / _COUNTS)
        except BaseException:
            # a partial folder would only fill a full disk
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if target.exists():  # done before, but with something missing or half on disk
            stale = self.folder / f".{name}.{os.getpid()}.old"
            target.rename(stale)
            shutil.rmtree(stale, ignore_errors=True)
        temporary.rename(target)
        self._finished.add(name)

    def counts(self) -> dict[str, int]:
        """Counts summed over the planned and finished shards."""
        total: dict[str, int] = {}
        for name in self._planned.values():
            if name in self._finished:
                for key, value in json.loads((self.folder / name / _COUNTS).read_text()).items():
                    total[key] = total.get(key, 0) + value
        return total

    def parts(self, table_name: str) -> Iterator[Path]:
        """The finished shards' files of one table, in shard order."""
        for index in sorted(self._planned):
            name = self._planned[index]
            part = self.folder / name / f"{table_name}.parquet"
            if name in self._finished and part.exists():
                yield part

    @staticmethod
    def merge_all(
        stages: Sequence[Stage],
        table_name: str,
        target: Path,
        *,
        first: pa.Table | None = None,
        unique: str | None = None,
    ) -> int:
        """Join one table of all planned shards of ``stages`` into ``target``; returns its rows.

        ``first`` comes before the shards; ``unique`` names a column of which only the first row
        per value is kept.
        """
        seen: set[str] = set()
        rows = 0
        schema = SCHEMAS[table_name]
        with (
            replacing(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for table in _tables(stages, table_name, first):
                if unique is not None:
                    new = []
                    for value in table.column(unique).to_pylist():
                        new.append(value not in seen)
                        seen.add(value)
                    table = table.filter(pa.array(new, pa.bool_()))
                if table.num_rows:
                    writer.write_table(table)
                rows += table.num_rows
        return rows

    def sweep(self) -> None:
        """Remove half-written folders of dead processes and shards that are no longer planned."""
        for entry in os.scandir(self.folder):
            if entry.name not in self._taken:
                shutil.rmtree(entry.path, ignore_errors=True)


def _tables(stages: Sequence[Stage], table_name: str, first: pa.Table | None) -> Iterator[pa.Table]:
    if first is not None:
        yield first
    for stage in stages:
        for part in stage.parts(table_name):
            yield renamed(table_name, pq.read_table(part, schema=SCHEMAS[table_name]))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


# Dropped: one thing that was left out, and why. Nothing is ever left out without one.


OUT_OF_MEMORY = "out of memory"
WORKER_DIED = "killed its worker"
FAILED = "cannot be processed"  # an error that no reader or decoder expects
# Reasons that may be gone when the same command is given again: its shard is then done anew.
MAY_PASS = frozenset(
    {
        "missing image",
        OUT_OF_MEMORY,
        WORKER_DIED,
        # of files elsewhere
        "connection lost",
        "access refused",
        "object changed",
    }
)


@dataclass(frozen=True, slots=True)
class Dropped:
    stage: str  # where it was left out: benchmark, corpus, overlap, …
    id: str  # what a person would search for: an item id, a file, a row
    reason: str  # a few stable words, so that reasons can be counted
    detail: str  # the facts of this case
    #: what is lost: one item, an unknown number (a truncated archive), or words beside a kept image
    scope: Literal["item", "many", "words"] = "item"


def dropped_table(dropped: Iterable[Dropped]) -> Any:
    return make_table(
        "dropped",
        [{"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail} for d in dropped],
    )
