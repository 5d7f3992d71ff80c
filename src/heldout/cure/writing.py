"""Write chosen items of opened benchmarks as files of their format, with the images they show."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark import DataTable, Example, FilePart, Opened, copy_pictures, find_writer
from heldout.errors import InputError, blame_the_machine


@dataclass(frozen=True)
class Chosen:
    """Items of one table that go into a file."""

    opened: Opened
    table: DataTable
    rows: frozenset[int]
    examples: tuple[Example, ...]


def chosen_by_table(opened: Opened, keep: Sequence[bool]) -> list[Chosen]:
    """The kept items of a benchmark, table by table."""
    chosens: list[Chosen] = []
    start = 0
    for table in opened.tables:
        span = range(start, start + len(table.rows))
        start += len(table.rows)
        rows = frozenset(
            row for position, row in zip(span, table.rows, strict=True) if keep[position]
        )
        examples = tuple(opened.benchmark.examples[i] for i in span if keep[i])
        chosens.append(Chosen(opened, table, rows, examples))
    return chosens


def write_file(chosen: Sequence[Chosen], target: Path, out: Path) -> None:
    """One file (or folder) at ``target`` from rows of tables of one format; images below ``out``."""
    reader = chosen[0].table.file.reader.name
    for one in chosen:
        if one.table.file.reader.name != reader:
            raise InputError(
                f"{one.table.file.path} is read as {one.table.file.reader.name}, but "
                f"{chosen[0].table.file.path} as {reader}: splits of one format can be mixed, "
                f"convert one of them first"
            )
    parts = [FilePart(one.table.file.path, one.rows) for one in chosen]
    find_writer(reader).write(parts, target)
    for one in chosen:
        given = one.opened.reading.images
        images = Path(given) if given is not None else None
        if not one.table.file.path.is_dir():
            copy_pictures(one.examples, one.table.base, out, target, images)


def entries(opened: Opened) -> list[tuple[int, int]]:
    """For every item the entry of the file it lies in: equal ones cannot be parted."""
    units = [find_writer(table.file.reader.name).units(table.file.path) for table in opened.tables]
    return [(number, units[number].get(row, row)) for number, row in opened.places()]


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
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
