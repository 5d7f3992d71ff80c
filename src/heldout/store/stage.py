"""A stage: work over many shards, each finished shard written once, all of them into one file.

A shard is finished when its record is at the end of the file, complete and synchronised; a record that
a kill cut off is overwritten by the next. A record is named by a digest of the shard's input and of the
settings, so a shard whose input has changed is a different shard, and one that only moved up or down the
list is not done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from heldout.store.files import opened, refuse_links, replacing
from heldout.store.schema import SCHEMAS, make_table, renamed

_LOG = "shards.log"
_BLOCK = 1 << 20  # bytes copied at a time
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass
class ShardResult:
    """What a worker returns for one shard: tables by name, and counts that are summed over shards."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class _Record(NamedTuple):
    """Where a finished shard lies in the file, and what its first line says."""

    name: str
    counts: dict[str, int]
    tables: dict[str, int]  # bytes of each, in their order
    start: int
    body: int  # where the tables begin
    stop: int


class Stage:
    """Shards of one stage under ``folder``; ``params`` are the settings that shaped the results."""

    def __init__(self, folder: Path, params: Mapping[str, Any]) -> None:
        self.folder = folder
        self._log = folder / _LOG
        refuse_links(self._log)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._salt = json.dumps(params, sort_keys=True, default=str)
        self._planned: dict[int, str] = {}  # names by shard index, in shard order
        self._taken: set[str] = set()
        self._finished: dict[str, int] = {}  # where the records begin
        self._missing: set[str] = set()  # what was missing then may be there now
        self._tables: dict[str, dict[str, tuple[int, int]]] = {}  # by table, then shard
        self._superseded = 0  # records that a later one replaces
        self._end = 0
        self._read_on()

    def _read_on(self) -> None:
        """Take in the records after the last known one."""
        for record in _records(self._log, self._end):
            self._superseded += record.name in self._finished
            self._enter(record)

    def _enter(self, record: _Record) -> None:
        self._finished[record.name] = record.start
        self._missing.discard(record.name)
        if record.counts.get("missing"):
            self._missing.add(record.name)
        for places in self._tables.values():
            places.pop(record.name, None)
        begin = record.body
        for table, size in record.tables.items():
            self._tables.setdefault(table, {})[record.name] = (begin, size)
            begin += size
        self._end = record.stop

    def plan(self, index: int, key: str) -> bool:
        """Make shard ``index``, whose input has ``key``, part of this stage; True if it is still to be done."""
        # The first shard may hold facts about the whole corpus, so its name differs from that of any other shard.
        text = f"{self._salt}\n{index == 0}\n{key}"
        name = digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        repeat = 1
        while name in self._taken:  # equal input twice is two shards
            repeat += 1
            name = f"{digest}-{repeat}"
        self._taken.add(name)
        self._planned[index] = name
        return name not in self._finished or name in self._missing

    def save(self, index: int, result: ShardResult) -> None:
        """Keep a planned shard's result: after the call it is safe even if the process is killed."""
        name = self._planned[index]
        bodies = {
            table: _packed(content) for table, content in result.tables.items() if content.num_rows
        }
        sizes = {table: len(body) for table, body in bodies.items()}
        line = json.dumps({"shard": name, "counts": result.counts, "tables": sizes}).encode()
        check = zlib.crc32(line)
        for body in bodies.values():
            check = zlib.crc32(body, check)
        content = memoryview(b"".join([b"%08x %s\n" % (check, line), *bodies.values()]))
        with opened(self._log, "ab"):
            pass
        with opened(self._log, "r+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > self._end:
                self._read_on()
            file.truncate(self._end)  # the rest of a record that was cut off
            file.seek(self._end)
            try:
                left = content
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(self._end)  # half a record would only fill a full disk
                raise
        self._superseded += name in self._finished
        start, stop = self._end, self._end + len(content)
        body_start = stop - sum(sizes.values())
        self._enter(_Record(name, result.counts, sizes, start, body_start, stop))

    def counts(self) -> dict[str, int]:
        """Counts summed over the planned and finished shards."""
        total: dict[str, int] = {}
        for record in _records(self._log):
            if record.name in self._taken and self._finished.get(record.name) == record.start:
                for key, value in record.counts.items():
                    total[key] = total.get(key, 0) + value
        return total

    def parts(self, table_name: str) -> Iterator[pa.Table]:
        """One table of the finished shards that have rows of it, in shard order."""
        for _, table in self.indexed_parts(table_name):
            yield table

    def indexed_parts(self, table_name: str) -> Iterator[tuple[int, pa.Table]]:
        """The same, with the shards' indices."""
        places = self._tables.get(table_name)
        if not places:
            return
        with opened(self._log) as file:
            for index in sorted(self._planned):
                place = places.get(self._planned[index])
                if place is not None:
                    file.seek(place[0])
                    yield index, pa.ipc.open_stream(file.read(place[1])).read_all()

    def part(self, table_name: str, index: int) -> pa.Table | None:
        """That of one finished shard, if it has rows of it."""
        place = self._tables.get(table_name, {}).get(self._planned.get(index, ""))
        if place is None:
            return None
        with opened(self._log) as file:
            file.seek(place[0])
            return pa.ipc.open_stream(file.read(place[1])).read_all()

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
        per value is kept. Small tables are written together, ``_ROWS`` rows at a time.
        """
        seen = _Seen()
        rows = 0
        schema = SCHEMAS[table_name]
        with (
            replacing(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for table in _gathered(_tables(stages, table_name, first)):
                if unique is not None:
                    table = table.filter(pa.array(seen.new(table.column(unique)), pa.bool_()))
                if table.num_rows:
                    writer.write_table(table)
                rows += table.num_rows
        return rows

    def sweep(self) -> None:
        """Remove shards that are no longer planned, and what earlier versions and dead processes left."""
        for entry in os.scandir(self.folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _LOG:
                Path(entry.path).unlink(missing_ok=True)
        if not self._superseded and self._finished.keys() <= self._taken:
            return
        kept = {
            start: name for name, start in self._finished.items() if name in self._taken
        }  # by their place
        with replacing(self._log) as temporary, opened(temporary, "wb") as target:
            _copy(self._log, target, lambda record: record.start in kept)
        self._finished, self._tables, self._missing = {}, {}, set()
        self._superseded = self._end = 0
        self._read_on()


class _Seen:
    """Which texts came before, in 8 bytes each: two of 10^7 share them once in 400,000 tables."""

    def __init__(self) -> None:
        self._sorted: list[npt.NDArray[np.uint64]] = []  # each at least twice as long as the next

    def new(self, texts: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """For each text, whether it comes for the first time."""
        values = texts.to_pylist()
        keys = np.fromiter((_short_digest(value) for value in values), np.uint64, len(values))
        first = np.zeros(len(keys), bool)
        first[np.unique(keys, return_index=True)[1]] = True
        for known in self._sorted:
            places = np.searchsorted(known, keys)
            first &= known[np.minimum(places, len(known) - 1)] != keys
        if first.any():
            self._sorted.append(np.sort(keys[first]))
        while len(self._sorted) > 1 and len(self._sorted[-2]) < 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]))
        return first


def _short_digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def adopt_shards(sources: Iterable[Path], target: Path) -> int:
    """Add the finished shards of the stages in folders ``sources`` to that in ``target``; returns how many.

    Their names say of which input and settings they are, so what a stage does not plan is never used.
    """
    log = target / _LOG
    refuse_links(log)
    target.mkdir(parents=True, exist_ok=True)
    known: set[str] = set()
    end = 0
    for record in _records(log):
        known.add(record.name)
        end = record.stop
    before = len(known)
    with opened(log, "ab") as file:
        file.truncate(end)

        def is_new(record: _Record) -> bool:
            if record.name in known:
                return False
            known.add(record.name)
            return True

        for source in sources:
            _copy(source / _LOG, file, is_new)
        file.flush()
        os.fsync(file.fileno())
    return len(known) - before


def saved_shards(folder: Path) -> dict[str, int]:
    """The finished shards of the stage in ``folder``: their names, and where their records begin."""
    return {record.name: record.start for record in _records(folder / _LOG)}


def _copy(log: Path, target: IO[bytes], wanted: Callable[[_Record], bool]) -> None:
    if not log.exists():
        return
    with opened(log) as file:
        for record in _records(log):
            if not wanted(record):
                continue
            file.seek(record.start)
            left = record.stop - record.start
            while left:
                block = file.read(min(left, _BLOCK))
                target.write(block)
                left -= len(block)


def _records(log: Path, start: int = 0) -> Iterator[_Record]:
    """The complete records from byte ``start`` on; the last one is checked, since a machine may have
    failed before its bytes were on disk."""
    if not log.exists():
        return
    with opened(log) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(start)
        while start < size:
            line = file.readline()
            try:
                check, head = int(line[:8], 16), json.loads(line[9:])
                name, counts, tables = head["shard"], head["counts"], head["tables"]
            except (ValueError, KeyError, TypeError):
                return
            body = start + len(line)
            stop = body + sum(tables.values())
            if stop > size or line[-1:] != b"\n":
                return
            if stop == size and zlib.crc32(file.read(stop - body), zlib.crc32(line[9:-1])) != check:
                return
            yield _Record(name, counts, tables, start, body, stop)
            if tables:
                file.seek(stop)
            start = stop


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


_ROWS = 1 << 16  # of a row group, about
_BYTES = 1 << 26  # of one at most, about


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables joined to some of about ``_ROWS`` rows."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _tables(stages: Sequence[Stage], table_name: str, first: pa.Table | None) -> Iterator[pa.Table]:
    schema = SCHEMAS[table_name]
    if first is not None:
        yield first.replace_schema_metadata(schema.metadata)
    for stage in stages:
        for table in stage.parts(table_name):
            yield renamed(table_name, table.cast(schema)).replace_schema_metadata(schema.metadata)


# Dropped: one thing that was left out, and why. Nothing is ever left out without one.


UNREAD = "unread "  # what counts of files that were not read begin with; then comes their kind
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
        "server without ranges",  # read through a cache folder, which the same run may be given
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
    kind: str = ""  # of files that were not read: their ending, or what they are

    def unread(self) -> dict[str, int]:
        """How a scan counts a file, archive or folder that was not read, or not in whole."""
        return {f"{UNREAD}{self.kind or self.reason}": 1} if self.scope == "many" else {}


def dropped_table(dropped: Iterable[Dropped]) -> Any:
    return make_table(
        "dropped",
        [{"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail} for d in dropped],
    )
