"""What a benchmark writer is: some rows of files of one format, written in that format again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heldout.benchmark.benchmark import Benchmark, Example
from heldout.benchmark.hub import hub_name
from heldout.benchmark.image_finder import TABLE_FOLDERS
from heldout.benchmark.locate import DataFile
from heldout.benchmark.presets import find_preset
from heldout.benchmark.read import at_commit, examples_by_file, read_benchmark
from heldout.benchmark.readers import FileRow
from heldout.benchmark.source import BenchmarkSource, parse_source
from heldout.errors import InputError
from heldout.image import FileOnDisk
from heldout.remote import located
from heldout.store import Dropped


@dataclass(frozen=True)
class FilePart:
    """The rows of one file that are written, by the numbers its reader gives them."""

    path: Path
    rows: frozenset[int]


class BenchmarkWriter(Protocol):
    name: str  #: of the reader that reads what this writes

    def units(self, path: Path) -> Mapping[int, int]:
        """For every row the entry of the file it lies in, where entries hold several rows.

        Such rows are kept or removed together: taking one turn out of a conversation changes what
        the others mean. Empty where every row is an entry of its own.
        """
        ...

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        """The rows of all ``parts``, in order, as one file or folder; what is kept, verbatim."""
        ...


# Images beside a data file are copied with it, to the places that its names refer to.


def copy_pictures(
    examples: Iterable[Example], base: Path, out: Path, table: Path, images: Path | None
) -> int:
    """Copy the image files of ``examples`` below ``out``; how many distinct ones there were.

    A file below ``base`` (the dataset's folder) keeps its place. One that lies elsewhere was found
    through ``images``, the user's folder of images, and goes to images/ beside ``table``, the new data file.
    """
    done: set[str] = set()
    for example in examples:
        for ref in example.images:
            if not isinstance(ref.location, FileOnDisk) or ref.location.path in done:
                continue
            done.add(ref.location.path)
            path = located(ref.location.path)
            place = _place(path, base, out) or (
                _place(path, images, table.parent / "images") if images is not None else None
            )
            if place is not None:
                with contextlib.suppress(FileNotFoundError):  # a missing picture stays missing
                    copy_picture(path, place)
    return len(done)


def _place(path: Path, base: Path, out: Path) -> Path | None:
    try:
        relative = Path(os.path.normpath(Path(*path.relative_to(base).parts)))
    except ValueError:
        return None
    # 'a/../../b' is below the folder only as a string.
    return None if os.pardir in relative.parts else out / relative


def copy_picture(path: Path, place: Path) -> None:
    """Copy an image file of this machine or elsewhere; another one of the same name is an error."""
    data = path.read_bytes()
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and place.read_bytes() != data:
        raise InputError(
            f"two different images would have the same name {place.name}: {path} and one copied before. "
            f"Give the splits one folder of images, or rename one of the two"
        )
    place.write_bytes(data)


# The place of each Example of a benchmark: its file, its row, and what cannot be separated from it.


@dataclass(frozen=True)
class DataTable:
    """One data file, and the row of every example it holds, in the order of the examples."""

    file: DataFile
    base: Path  # the folder the dataset lies in, with its images
    rows: tuple[int, ...]  # as the file's reader counts them
    not_selected: int = 0  # rows of the file that are no part of the benchmark

    @property
    def relative(self) -> Path:
        """The file's place below the dataset's folder; '.' where the folder itself is the data."""
        return Path(*self.file.path.relative_to(self.base).parts)


@dataclass(frozen=True)
class ReadingOptions:
    """How a benchmark was read, so that what is written can be read back alike."""

    preset: str | None = None
    mapping: Mapping[str, str] | None = None
    images: str | Path | None = None
    reader: str | None = None

    def back(self, place: Path) -> Benchmark:
        """What was written at ``place``, whose images lie with it."""
        return read_benchmark(place, preset=self.preset, mapping=self.mapping, reader=self.reader)


@dataclass(frozen=True)
class Opened:
    """A benchmark together with the files it was read from."""

    benchmark: Benchmark
    tables: tuple[DataTable, ...]
    source: BenchmarkSource
    reading: ReadingOptions

    def places(self) -> Iterator[tuple[int, int]]:
        """For every example of the benchmark, in order: the number of its table, and its row."""
        for number, table in enumerate(self.tables):
            for row in table.rows:
                yield number, row


def open_tables(
    source: str | Path | BenchmarkSource,
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    images: str | Path | None = None,
    reader: str | None = None,
) -> Opened:
    """``read_benchmark``, and where every example lies, for writing it again."""
    parsed = at_commit(parse_source(source))
    settings = find_preset(preset or parsed.location, by_name=preset is not None)
    if hub_name(parsed.location) is not None or (settings is not None and not parsed.path.exists()):
        raise InputError(
            f"{parsed} comes from the hub, where there is no file to write again: download it with "
            f"'hf download --repo-type dataset {settings.hub if settings else parsed.location} "
            f"--local-dir DIR' and give that folder. If it is a folder on this machine: it is not below "
            f"{Path.cwd()}, give the command where it is"
        )
    benchmark = read_benchmark(parsed, preset=preset, mapping=mapping, images=images, reader=reader)
    tables = []
    for file, examples in examples_by_file(
        parsed, preset=preset, mapping=mapping, images=images, reader=reader
    ):
        numbers = [_number(example) for example in examples if isinstance(example, Example)]
        if settings is not None and settings.explode is not None:
            original = _before_explosion(file, settings.explode)
            numbers = [original[number] for number in numbers]
        every = sum(isinstance(row, FileRow) for row in file.reader.rows(file.path))
        left = every - len(set(numbers))
        tables.append(DataTable(file, _base(parsed, file), tuple(numbers), left))
    if sum(len(table.rows) for table in tables) != len(benchmark):
        raise InputError(f"{parsed} changed while it was read: try again")
    # A preset that was found by the folder's name has to be named for the folder that is written.
    named = settings.name if settings is not None else None
    return Opened(benchmark, tuple(tables), parsed, ReadingOptions(named, mapping, images, reader))


def _number(example: Example) -> int:
    """The row an example was made of: its origin says it, as '<file> row <number>'."""
    return int(example.origin.rpartition(" row ")[2])


def _before_explosion(file: DataFile, explode: object) -> dict[int, int]:
    """Rows after a preset took them apart → the row of the file they came from."""
    last = 0

    def watched() -> Iterator[FileRow | Dropped]:
        nonlocal last
        for row in file.reader.rows(file.path):
            if isinstance(row, FileRow):
                last = row.number
            yield row

    assert callable(explode)
    # Rows are taken apart one at a time: the results belong to the row read last.
    return {row.number: last for row in explode(watched()) if isinstance(row, FileRow)}


def _base(source: BenchmarkSource, file: DataFile) -> Path:
    if file.path.is_dir():
        return file.path
    base = file.path.parent
    while base.name.lower() in TABLE_FOLDERS:  # the images lie beside such a folder, not in it
        base = base.parent
    folder = source.path
    return folder if folder.is_dir() and base.is_relative_to(folder) else base
