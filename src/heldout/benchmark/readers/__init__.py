"""Benchmark readers, most specific first; packages add theirs as entry points heldout.readers."""

from __future__ import annotations

import functools
from importlib import metadata
from pathlib import Path

from heldout.benchmark.readers.base import FileRow, Reader
from heldout.benchmark.readers.delimited import DelimitedReader
from heldout.benchmark.readers.image_folder import ImageFolderReader
from heldout.benchmark.readers.json_rows import JsonLinesReader, JsonReader
from heldout.benchmark.readers.llava import CocoReader, LlavaReader
from heldout.benchmark.readers.parquet import ArrowReader, ParquetReader
from heldout.benchmark.readers.pipes import PathVqaReader, PipesReader
from heldout.errors import InputError

__all__ = ["FileRow", "Reader", "find_reader", "readers"]


@functools.cache
def readers() -> tuple[Reader, ...]:
    plugins = [entry.load()() for entry in metadata.entry_points(group="heldout.readers")]
    return (
        *plugins,
        PathVqaReader(),
        LlavaReader(),
        CocoReader(),
        JsonReader(),
        JsonLinesReader(),
        ParquetReader(),
        DelimitedReader(),
        PipesReader(),
        ArrowReader(),
        ImageFolderReader(),
    )


def find_reader(path: Path, name: str | None = None) -> Reader | None:
    """The reader called ``name``, or the first that recognises ``path``; None if there is none."""
    if name is not None:
        for reader in readers():
            if reader.name == name:
                return reader
        known = ", ".join(sorted(reader.name for reader in readers()))
        raise InputError(f"there is no reader '{name}'; there are: {known}")
    suffix = "" if path.is_dir() else path.suffix.lower()
    for reader in readers():
        if (suffix or path.is_dir()) and suffix in reader.suffixes and reader.recognises(path):
            return reader
    return None
