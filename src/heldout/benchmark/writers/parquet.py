"""Parquet, chosen rows under the same schema, metadata and compression; and folders of images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark.readers.base import FileRow, head
from heldout.benchmark.readers.image_folder import ImageFolderReader
from heldout.benchmark.readers.json_rows import load_object
from heldout.benchmark.readers.parquet import data_parts
from heldout.benchmark.writers.base import FilePart, copy_picture
from heldout.errors import InputError
from heldout.image import FileOnDisk, ImageRef, arrow_table
from heldout.remote import located, ranges
from heldout.store import write_json


class ParquetWriter:
    name = "parquet"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetFile(ranges(parts[0].path)) as first:
            schema = first.schema_arrow
            compression = _compression(first)
        with pq.ParquetWriter(target, schema, compression=compression) as out:
            for part in parts:
                _write_part(part, schema, out)


def _write_part(part: FilePart, schema: pa.Schema, out: pq.ParquetWriter) -> None:
    with pq.ParquetFile(ranges(part.path), pre_buffer=False) as file:
        if not file.schema_arrow.equals(schema):
            raise InputError(
                f"{part.path} has other columns than the first file of the split it would join: "
                f"expected {', '.join(schema.names)}, found {', '.join(file.schema_arrow.names)}, "
                f"or the same with other types"
            )
        before = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            wanted = [row for row in range(rows) if before + row + 1 in part.rows]
            before += rows
            if wanted:  # a damaged group has none, and is not read again
                table = file.read_row_group(group, use_threads=False).take(wanted)
                out.write_table(table.replace_schema_metadata(schema.metadata), len(wanted))


def _compression(file: pq.ParquetFile) -> str:
    if not file.num_row_groups or not file.metadata.num_columns:
        return "snappy"
    used = str(file.metadata.row_group(0).column(0).compression).lower()
    return "none" if used == "uncompressed" else used


# Arrow files and save_to_disk folders, so that ``datasets.load_from_disk`` opens the result.


_DATA = "data-00000-of-00001.arrow"


class ArrowWriter:
    name = "arrow"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        first = parts[0].path
        if not first.is_dir():
            _write_table(parts, target, random_access=head(first, 8)[:4] == b"ARRO")
            return
        count = _write_table(parts, target / _DATA, random_access=False)
        state = load_object(first / "state.json")
        state["_data_files"] = [{"filename": _DATA}]
        state["_fingerprint"] = _fingerprint(parts, str(state.get("_fingerprint")))
        write_json(target / "state.json", state)
        info = load_object(first / "dataset_info.json")
        splits = info.get("splits")
        if isinstance(splits, dict):  # outdated sizes would look like corruption
            info["splits"] = {
                name: {**split, "num_examples": count}
                for name, split in splits.items()
                if isinstance(split, dict)
            }
        write_json(target / "dataset_info.json", info)


def _write_table(parts: Sequence[FilePart], target: Path, *, random_access: bool) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    schema: Any = None
    writer: Any = None
    count = 0
    with pa.OSFile(str(target), "wb") as sink:
        for part in parts:
            for table in _chosen(part):
                if writer is None:
                    schema = table.schema
                    make = pa.ipc.new_file if random_access else pa.ipc.new_stream
                    writer = make(sink, schema)
                if not table.schema.equals(schema):
                    raise InputError(
                        f"{part.path} has other columns than the split it would join: expected "
                        f"{', '.join(schema.names)}, found {', '.join(table.schema.names)}"
                    )
                writer.write_table(table)
                count += table.num_rows
        if writer is not None:
            writer.close()
    return count


def _chosen(part: FilePart) -> Iterator[Any]:
    before = 0
    for path in data_parts(part.path) if part.path.is_dir() else [part.path]:
        table = arrow_table(str(path))
        wanted = [row for row in range(table.num_rows) if before + row + 1 in part.rows]
        before += table.num_rows
        yield table.take(pa.array(wanted, pa.int64()))


def _fingerprint(parts: Sequence[FilePart], before: str) -> str:
    """Of what was and which rows are left: ``datasets`` caches by it."""
    chosen = [before, *(json.dumps(sorted(part.rows)) for part in parts)]
    return hashlib.sha256("\n".join(chosen).encode()).hexdigest()[:16]


# Folders of images: chosen files at the same place below, with the caption beside them.


class ImageFolderWriter:
    name = "image-folder"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for part in parts:
            for row in ImageFolderReader().rows(part.path):
                if isinstance(row, FileRow) and row.number in part.rows:
                    image = row.values["image"]
                    file = _file(image, part.path)
                    if file is not None:
                        place = target / Path(*file.relative_to(part.path).parts)
                        copy_picture(file, place)
                        caption = file.with_suffix(".txt")
                        if caption.is_file() and not caption.is_symlink():
                            place.with_suffix(".txt").write_bytes(caption.read_bytes())


def _file(image: ImageRef | str, root: Path) -> Path | None:
    """The file of a row; a link is followed only where it stays inside the folder."""
    if isinstance(image, ImageRef):
        return located(image.location.path) if isinstance(image.location, FileOnDisk) else None
    link = root / image
    inside = link.is_file() and link.resolve().is_relative_to(root.resolve())
    return link if inside else None
