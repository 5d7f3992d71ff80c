"""Where each Example of a benchmark lies: which file, which row, and what cannot be parted from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.example import Example
from heldout.benchmark.hub import hub_name
from heldout.benchmark.image_finder import TABLE_FOLDERS
from heldout.benchmark.locate import DataFile
from heldout.benchmark.presets import find_preset
from heldout.benchmark.read import examples_by_file, read_benchmark
from heldout.benchmark.readers import FileRow
from heldout.benchmark.source import BenchmarkSource, parse_source
from heldout.errors import InputError
from heldout.store import Dropped


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
        return self.file.path.relative_to(self.base)


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
    chosen = parse_source(source)
    settings = find_preset(preset or chosen.location, by_name=preset is not None)
    if hub_name(chosen.location) is not None or (settings is not None and not chosen.path.exists()):
        raise InputError(
            f"{chosen} comes from the hub, where there is no file to write again: download it with "
            f"'hf download --repo-type dataset {settings.hub if settings else chosen.location} "
            f"--local-dir DIR' and give that folder"
        )
    benchmark = read_benchmark(chosen, preset=preset, mapping=mapping, images=images, reader=reader)
    tables = []
    for file, examples in examples_by_file(
        chosen, preset=preset, mapping=mapping, images=images, reader=reader
    ):
        numbers = [_number(example) for example in examples if isinstance(example, Example)]
        if settings is not None and settings.explode is not None:
            original = _before_explosion(file, settings.explode)
            numbers = [original[number] for number in numbers]
        every = sum(isinstance(row, FileRow) for row in file.reader.rows(file.path))
        left = every - len(set(numbers))
        tables.append(DataTable(file, _base(chosen, file), tuple(numbers), left))
    if sum(len(table.rows) for table in tables) != len(benchmark):
        raise InputError(f"{chosen} changed while it was read: try again")
    # A preset that was found by the folder's name has to be named for the folder that is written.
    named = settings.name if settings is not None else None
    return Opened(benchmark, tuple(tables), chosen, ReadingOptions(named, mapping, images, reader))


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
    # The explosion draws one row at a time: what comes out belongs to the row drawn last.
    return {row.number: last for row in explode(watched()) if isinstance(row, FileRow)}


def _base(source: BenchmarkSource, file: DataFile) -> Path:
    if file.path.is_dir():
        return file.path
    base = file.path.parent
    while base.name.lower() in TABLE_FOLDERS:  # the images lie beside such a folder, not in it
        base = base.parent
    folder = source.path
    return folder if folder.is_dir() and base.is_relative_to(folder) else base
