"""Benchmark writers, one per reader; packages add theirs as entry points heldout.writers."""

from __future__ import annotations

import functools
from importlib import metadata

from heldout.benchmark.writers.base import (
    BenchmarkWriter,
    DataTable,
    FilePart,
    Opened,
    ReadingOptions,
    copy_pictures,
    open_tables,
)
from heldout.benchmark.writers.delimited import DelimitedWriter, PipesWriter
from heldout.benchmark.writers.json_rows import (
    CocoWriter,
    JsonLinesWriter,
    JsonWriter,
    LlavaWriter,
    PathVqaWriter,
)
from heldout.benchmark.writers.parquet import ArrowWriter, ImageFolderWriter, ParquetWriter
from heldout.errors import InputError

__all__ = [
    "BenchmarkWriter",
    "DataTable",
    "FilePart",
    "Opened",
    "ReadingOptions",
    "copy_pictures",
    "find_writer",
    "open_tables",
    "writers",
]


@functools.cache
def writers() -> tuple[BenchmarkWriter, ...]:
    plugins = [entry.load()() for entry in metadata.entry_points(group="heldout.writers")]
    return (
        *plugins,
        PathVqaWriter(),
        LlavaWriter(),
        CocoWriter(),
        JsonWriter(),
        JsonLinesWriter(),
        ParquetWriter(),
        DelimitedWriter(),
        PipesWriter(),
        ArrowWriter(),
        ImageFolderWriter(),
    )


def find_writer(reader: str) -> BenchmarkWriter:
    """The writer of what the reader called ``reader`` reads."""
    for writer in writers():
        if writer.name == reader:
            return writer
    raise InputError(
        f"there is no writer for the format '{reader}'; there are: "
        f"{', '.join(sorted(writer.name for writer in writers()))}"
    )
