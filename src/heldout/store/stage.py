"""A stage: work over many shards, each finished shard written once and for good.

A shard's tables are written into a hidden folder which is then renamed: the rename is the marker.
The folder's name carries the shard's position and a key of its input, so a shard whose input has
changed is a different shard, and shards of any order or number of workers merge the same way.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.store.atomic import replacing
from heldout.store.schema import SCHEMAS


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
        self._planned: list[str] = []
        self._finished = {entry.name for entry in os.scandir(folder) if entry.name[0] != "."}

    def plan(self, index: int, key: str) -> bool:
        """Make shard ``index`` (whose input has ``key``) part of this stage; True if still to do."""
        name = self._name(index, key)
        self._planned.append(name)
        return name not in self._finished

    def save(self, index: int, key: str, result: ShardResult) -> None:
        name = self._name(index, key)
        temporary = self.folder / f".{name}.{os.getpid()}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for table_name, table in result.tables.items():
            if table.num_rows:
                pq.write_table(table, temporary / f"{table_name}.parquet", compression="zstd")
        (temporary / "counts.json").write_text(json.dumps(result.counts))
        try:
            temporary.rename(self.folder / name)
        except OSError:
            # Somebody else finished the same shard: the same input gave the same result.
            shutil.rmtree(temporary, ignore_errors=True)
            if not (self.folder / name).exists():
                raise
        self._finished.add(name)

    def missing(self) -> int:
        """How many planned shards have no result yet."""
        return sum(name not in self._finished for name in self._planned)

    def counts(self) -> dict[str, int]:
        """Counts summed over the planned and finished shards."""
        total: dict[str, int] = {}
        for name in self._planned:
            if name in self._finished:
                for key, value in json.loads(
                    (self.folder / name / "counts.json").read_text()
                ).items():
                    total[key] = total.get(key, 0) + value
        return total

    def parts(self, table_name: str) -> Iterator[Path]:
        """The finished shards' files of one table, in shard order."""
        for name in sorted(self._planned):
            part = self.folder / name / f"{table_name}.parquet"
            if part.exists():
                yield part

    @staticmethod
    def merge_all(
        stages: Sequence[Stage], table_name: str, target: Path, *, unique: str | None = None
    ) -> int:
        """Join one table of all planned shards of ``stages`` into ``target``; returns its rows.

        ``unique`` names a column of which only the first row per value is kept.
        """
        seen: set[str] = set()
        rows = 0
        schema = SCHEMAS[table_name]
        with (
            replacing(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for part in (part for stage in stages for part in stage.parts(table_name)):
                table = pq.read_table(part, schema=schema)
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
        planned = set(self._planned)
        for entry in os.scandir(self.folder):
            if entry.name not in planned:
                shutil.rmtree(entry.path, ignore_errors=True)

    def _name(self, index: int, key: str) -> str:
        digest = hashlib.sha256(f"{self._salt}\n{key}".encode()).hexdigest()[:16]
        return f"{index:08d}-{digest}"
