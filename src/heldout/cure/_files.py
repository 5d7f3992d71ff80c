"""The lists beside a clean split: what was removed, what is doubtful, and the new ids of items."""

from __future__ import annotations

import contextlib
import csv
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark import (
    Benchmark,
    DataTable,
    Example,
    FilePart,
    Opened,
    canonical_metadata,
    copy_pictures,
    find_writer,
)
from heldout.cure.policy import Decision
from heldout.errors import InputError, blame_the_machine
from heldout.image import Digests, ImageRef
from heldout.remote import RemoteError, located
from heldout.store import Dropped, replacing

_DECIDED = [
    ("benchmark_id", pa.string()),
    ("position", pa.int64()),  # in the benchmark as it was read, from 0; null: it never was an item
    ("reason", pa.string()),
    ("because_of", pa.string()),
    ("corpus", pa.string()),
    ("corpus_id", pa.string()),
    ("method", pa.string()),
    ("similarity", pa.float64()),
    ("relation", pa.string()),
    ("modality", pa.string()),
    ("label_relation", pa.string()),
    ("matches", pa.int64()),
    ("evidence", pa.string()),
]
_KEPT = [("benchmark_id", pa.string()), ("written_id", pa.string()), ("position", pa.int64())]
_WEIGHTS = [
    ("benchmark_id", pa.string()),
    ("weight", pa.float64()),
    ("cluster", pa.string()),
    ("reason", pa.string()),
]
_MOVED = [
    ("benchmark_id", pa.string()),
    ("written_id", pa.string()),
    ("from", pa.string()),
    ("to", pa.string()),
]
_GATE = [
    ("corpus", pa.string()),
    ("corpus_id", pa.string()),
    ("reason", pa.string()),
    ("benchmark", pa.string()),
    ("benchmark_id", pa.string()),
    ("method", pa.string()),
    ("similarity", pa.float64()),
    ("relation", pa.string()),
    ("modality", pa.string()),
    ("evidence", pa.string()),
]
_COLUMNS = {
    "removed": _DECIDED,
    "doubtful": _DECIDED,
    "kept": _KEPT,
    "weights": _WEIGHTS,
    "moved": _MOVED,
    "training_rows": _GATE,
    "training_doubtful": _GATE,
}


def write_list(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """``name``.parquet for programs and ``name``.csv for people, with the same rows."""
    with ListWriter(folder, name) as writer:
        writer.write([dict(row) for row in rows])


class ListWriter:
    """``write_list`` piece by piece."""

    def __init__(self, folder: Path, name: str) -> None:
        self.schema = pa.schema(_COLUMNS[name], metadata={"heldout.table": f"{name}/1"})
        self._files = contextlib.ExitStack()
        self._paths = folder / f"{name}.parquet", folder / f"{name}.csv"

    def __enter__(self) -> ListWriter:
        table, text = (self._files.enter_context(replacing(path)) for path in self._paths)
        self._table = self._files.enter_context(
            pq.ParquetWriter(table, self.schema, compression="zstd")
        )
        file = self._files.enter_context(
            text.open("w", encoding="utf-8", errors="backslashreplace", newline="")
        )
        self._csv = csv.writer(file, lineterminator="\n")
        self._csv.writerow(self.schema.names)
        return self

    def __exit__(self, *error: Any) -> None:
        self._files.__exit__(*error)

    def write(self, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._table.write_table(pa.Table.from_pylist(rows, schema=self.schema))
        self._csv.writerows([row.get(column) for column in self.schema.names] for row in rows)


def decided_rows(
    decisions: Sequence[Decision], action: str, dropped: Sequence[Dropped] = ()
) -> Iterable[dict[str, Any]]:
    """Rows of 'removed' or 'doubtful'. ``dropped`` rows of the file were never items."""
    for position, decision in enumerate(decisions):
        if decision.action != action:
            continue
        match = decision.leak.row if decision.leak is not None else {}
        yield {
            "benchmark_id": decision.benchmark_id,
            "position": position,
            "reason": decision.reason,
            "because_of": decision.because_of or None,
            **{
                name: match.get(name)
                for name in (
                    "corpus",
                    "corpus_id",
                    "method",
                    "similarity",
                    "relation",
                    "modality",
                    "label_relation",
                    "evidence",
                )
            },
            "matches": decision.matches,
        }
    for row in dropped:
        reason = f"could not be read: {row.reason}"
        yield {"benchmark_id": row.id, "reason": reason, "matches": 0, "evidence": row.detail}


# Write chosen items of opened benchmarks as files of their format, with the images they show.


@dataclass(frozen=True)
class TableSelection:
    """Items of one table that go into a file."""

    opened: Opened
    table: DataTable
    rows: frozenset[int]
    examples: tuple[Example, ...]


def chosen_by_table(opened: Opened, keep: Sequence[bool]) -> list[TableSelection]:
    """The kept items of a benchmark, table by table."""
    chosens: list[TableSelection] = []
    start = 0
    for table in opened.tables:
        span = range(start, start + len(table.rows))
        start += len(table.rows)
        rows = frozenset(
            row for position, row in zip(span, table.rows, strict=True) if keep[position]
        )
        examples = tuple(opened.benchmark.examples[i] for i in span if keep[i])
        chosens.append(TableSelection(opened, table, rows, examples))
    return chosens


def write_file(selections: Sequence[TableSelection], target: Path, out: Path) -> None:
    """One file (or folder) at ``target`` from rows of tables of one format; images below ``out``."""
    reader = selections[0].table.file.reader.name
    for selection in selections:
        if selection.table.file.reader.name != reader:
            raise InputError(
                f"{selection.table.file.path} is read as {selection.table.file.reader.name}, but "
                f"{selections[0].table.file.path} as {reader}: splits of one format can be mixed, "
                f"convert one of them first"
            )
    parts = [FilePart(selection.table.file.path, selection.rows) for selection in selections]
    try:
        find_writer(reader).write(parts, target)
        for selection in selections:
            folder = selection.opened.reading.images
            images = located(folder) if folder is not None else None
            if not selection.table.file.path.is_dir():
                copy_pictures(selection.examples, selection.table.base, out, target, images)
    except RemoteError as error:
        place = error.address or str(selections[0].table.file.path)
        raise InputError(f"{place}: {error}; nothing was written, so try again") from error


def entries(opened: Opened) -> list[tuple[int, int]]:
    """For every item the entry of the file that holds it: items of one entry cannot be separated."""
    units = [find_writer(table.file.reader.name).units(table.file.path) for table in opened.tables]
    return [(number, units[number].get(row, row)) for number, row in opened.places()]


@contextlib.contextmanager
def atomic_folder(out: Path) -> Iterator[Path]:
    """A folder that appears as ``out`` when everything in it is written, and not before."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"out {out}: it exists and is not empty; name a new folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written ({error.strerror})") from error
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# Read back what was written, and report every difference.


_SHOWN = 20


@dataclass(frozen=True)
class RoundTrip:
    written: Benchmark
    differences: tuple[str, ...]  # empty where every kept item reads as it did
    renamed: int  # items without an id of their own are called by their row, which changed

    @property
    def ids(self) -> list[str]:
        return [example.id for example in self.written]


def compare(originals: Sequence[Example], source: Benchmark, written: Benchmark) -> RoundTrip:
    """``originals`` are the examples of ``source`` that were to be written, in order."""
    digests = source.digests.values()
    written.identify(
        known={digest.bytes: digest for digest in digests if isinstance(digest, Digests)}
    )
    if len(originals) != len(written):
        message = f"{len(originals):,} items were written, {len(written):,} are read back"
        return RoundTrip(written, (message,), 0)
    differences: list[str] = []
    renamed = 0
    for before, after in zip(originals, written, strict=True):
        renamed += before.id != after.id
        changed = [
            name
            for name in ("question", "options", "answer", "answer_index", "cluster")
            if getattr(before, name) != getattr(after, name)
        ]
        if canonical_metadata(before.metadata) != canonical_metadata(after.metadata):
            changed.append("metadata")
        if _shown(before, source) != _shown(after, written):
            changed.append("images")
        if changed:
            differences.append(f"{before.id}: {', '.join(changed)} reads otherwise")
    if len(differences) > _SHOWN:
        more = len(differences) - _SHOWN
        differences = [*differences[:_SHOWN], f"and {more:,} more items"]
    return RoundTrip(written, tuple(differences), renamed)


def pictures(examples: Sequence[Example], benchmark: Benchmark) -> set[str]:
    """The distinct pictures that items show: by pixels, or by name if one cannot be decoded."""
    return {_picture(ref, benchmark) for example in examples for ref in example.images}


def _picture(ref: ImageRef, benchmark: Benchmark) -> str:
    digest = benchmark.digests[ref]
    return digest.pixels if isinstance(digest, Digests) else f"image:{ref.name}"


def _shown(example: Example, benchmark: Benchmark) -> list[str]:
    digests = [benchmark.digests[ref] for ref in example.images]
    return [digest.bytes if isinstance(digest, Digests) else digest.reason for digest in digests]
