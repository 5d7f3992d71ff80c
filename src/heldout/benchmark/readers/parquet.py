"""Parquet, Hugging Face's or any other: read in batches, image bytes only when looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heldout.benchmark.readers.base import FileRow, head
from heldout.benchmark.readers.json_rows import load_object, too_deep
from heldout.errors import InputError
from heldout.image import ArrowCell, BoundedParquet, ImageRef, ParquetCell, arrow_table
from heldout.store import Dropped

# Arrow files as ``datasets`` keeps them: a save_to_disk folder or one .arrow file, mapped.


_ARROW_BATCH = 256
_DICT_FILE = "dataset_dict.json"


class ArrowReader:
    name = "arrow"
    suffixes = ("", ".arrow")

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
        # A random-access file starts with its name, a stream with a continuation marker.
        return head(path, 8)[:4] in (b"ARRO", b"\xff\xff\xff\xff")

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        number = 0
        for part in data_parts(path) if path.is_dir() else [path]:
            for row in arrow_rows(part, number):
                number = row.number if isinstance(row, FileRow) else number + 1
                yield row


def split_folders(folder: Path) -> dict[str, Path]:
    """The splits of a saved DatasetDict by name; empty if ``folder`` is not one."""
    if not (folder / _DICT_FILE).is_file():
        return {}
    splits = load_object(folder / _DICT_FILE).get("splits")
    if not isinstance(splits, list):
        raise InputError(f"{folder / _DICT_FILE}: expected the key 'splits' with a list of names")
    names = [str(name) for name in splits if _plain(str(name)) and (folder / str(name)).is_dir()]
    return {name: folder / name for name in names}


def data_parts(folder: Path) -> list[Path]:
    """The data files in the order the dataset lists them; names that leave the folder: refused."""
    listed = load_object(folder / "state.json").get("_data_files")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{folder / 'state.json'}: expected '_data_files', a list of file names")
    parts = []
    for entry in listed:
        name = entry.get("filename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _plain(name):
            raise InputError(
                f"{folder / 'state.json'}: {entry!r} is not the name of a file beside it"
            )
        if not (folder / name).is_file():
            raise InputError(f"{folder / name} is missing, but state.json lists it: copy it again")
        parts.append(folder / name)
    return parts


def _plain(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name and "\0" not in name


@dataclass(frozen=True)
class ColumnKinds:
    """What columns hold beyond their storage type: which are images, which are class numbers."""

    images: tuple[str, ...]
    labels: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: pa.Schema) -> ColumnKinds:
        features = _features(schema)
        images = [
            column.name
            for column in schema
            if holds_bytes(column.type)
            and _feature_kind(features.get(column.name)) in ("", "Image")
        ]
        labels = {
            name: [str(label) for label in feature["names"]]
            for name, feature in features.items()
            if _feature_kind(feature) == "ClassLabel" and isinstance(feature.get("names"), list)
        }
        return cls(tuple(images), labels)

    def named(self, values: dict[str, Any]) -> dict[str, Any]:
        """The same row with class names in place of class numbers."""
        for column, names in self.labels.items():
            value = values.get(column)
            if isinstance(value, int) and 0 <= value < len(names):
                values[column] = names[value]
            elif value == -1:
                values[column] = None  # how datasets writes "no label"
        return values


def holds_bytes(type_: pa.DataType) -> bool:
    """Bytes, a struct with bytes, or a list of either."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return holds_bytes(type_.value_type)
    if pa.types.is_struct(type_):
        index = type_.get_field_index("bytes")
        return index >= 0 and _binary(type_.field(index).type)
    return _binary(type_)


def _binary(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Column descriptions that ``datasets`` leaves in the schema; untrusted, of any shape."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described["info"]["features"]
        if too_deep(features):
            return {}
        return {str(key): value for key, value in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _feature_kind(feature: Any) -> str:
    """'Image', 'ClassLabel', 'Value', …; of a list what it is a list of; '' when not described."""
    if isinstance(feature, list) and feature:
        return _feature_kind(feature[0])
    if isinstance(feature, dict):
        return (
            _feature_kind(feature["feature"])
            if "feature" in feature
            else str(feature.get("_type", ""))
        )
    return ""


def arrow_rows(path: Path, before: int = 0) -> Iterator[FileRow | Dropped]:
    """Rows of one Arrow file, numbered from ``before + 1``, without touching any image's bytes."""
    try:
        table = arrow_table(str(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path} is not a readable Arrow file ({error}): copy it again") from error
    kinds = ColumnKinds.of(table.schema)
    plain = [name for name in table.column_names if name not in kinds.images]
    for start in range(0, table.num_rows, _ARROW_BATCH):
        batch = table.slice(start, _ARROW_BATCH)
        pictures = {
            name: _pictures(batch.column(name), path, name, start, before) for name in kinds.images
        }
        for offset, values in enumerate(plain_values(batch.select(plain))):
            number = before + start + offset + 1
            if isinstance(values, str):
                yield Dropped("read", f"{path.name} row {number}", "not UTF-8", values)
                continue
            named = kinds.named(values)
            shown = {name: cells[offset] for name, cells in pictures.items()}
            # The columns keep the order of the file: which image comes first can matter.
            yield FileRow(
                number,
                {
                    name: shown[name] if name in shown else named[name]
                    for name in table.column_names
                },
            )


def plain_values(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Rows of a batch as dicts, or a sentence with the reason why one cannot be decoded."""
    try:
        yield from batch.to_pylist() if batch.num_columns else ({} for _ in range(batch.num_rows))
    except (UnicodeDecodeError, ValueError, OverflowError):
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0]
            except (UnicodeDecodeError, ValueError, OverflowError) as error:
                yield str(error)


def _pictures(column: Any, path: Path, name: str, start: int, before: int) -> list[Any]:
    """For every cell a reference, a file name (no bytes, only a path), a list of these, or None."""
    type_ = column.type
    listed = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    if listed:
        return [
            None
            if not cell.is_valid
            else [
                _reference(path, name, start + offset, present, label, before, index)
                for index, (present, label) in enumerate(_presence(cell.values))
            ]
            for offset, cell in enumerate(column)
        ]
    return [
        _reference(path, name, start + offset, present, label, before)
        for offset, (present, label) in enumerate(_presence(column))
    ]


def _presence(values: Any) -> list[tuple[bool, str | None]]:
    """Per image: are its bytes there, and what is it called. Reads validity and paths only."""
    if not pa.types.is_struct(values.type):
        return [(present, None) for present in pc.is_valid(values).to_pylist()]
    present = pc.is_valid(pc.struct_field(values, "bytes")).to_pylist()
    if values.type.get_field_index("path") < 0:
        return [(here, None) for here in present]
    return list(zip(present, pc.struct_field(values, "path").to_pylist(), strict=True))


def _reference(
    path: Path,
    column: str,
    row: int,
    present: bool,
    label: str | None,
    before: int,
    index: int = -1,
) -> ImageRef | str | None:
    if not present:
        return label
    return ImageRef(
        label or f"{path.name} row {before + row + 1}", ArrowCell(str(path), row, column, index)
    )


_BATCH = 1024
_BATCH_WITH_BYTES = 16  # where a column of bytes has to be read to see which cells are empty
_POINTER = b"version https://git-lfs"


class ParquetReader:
    name = "parquet"
    suffixes = (".parquet", ".pq")

    def recognises(self, path: Path) -> bool:
        return head(path, 32).startswith((b"PAR1", _POINTER))

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        with _open(path) as file:
            layout = _Layout.of(file)
            number = 0
            for group in range(file.num_row_groups):
                end = number + file.metadata.row_group(group).num_rows
                try:
                    for row in _group_rows(file, path, layout, group, number):
                        number += 1
                        yield row
                except (
                    OSError,
                    ValueError,
                    pa.ArrowException,
                ) as error:  # one damaged page must not lose the file
                    where = f"{path.name} rows {number + 1} to {end}"
                    yield Dropped("read", where, "unreadable row group", str(error))
                number = end


def _open(path: Path) -> BoundedParquet:
    if head(path, 32).startswith(_POINTER):
        raise InputError(
            f"{path} is a Git LFS pointer, not the data: run 'git lfs pull' in its repository"
        )
    try:
        return BoundedParquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{path} is not a readable Parquet file ({error}): it may be cut, download it again"
        ) from error


@dataclass(frozen=True)
class _Layout:
    """Which leaves of the file to read: everything but the bytes of images."""

    kinds: ColumnKinds
    columns: tuple[str, ...]  # in the order of the file
    leaves: dict[str, tuple[int, ...]]  # leaf numbers per column
    paths: tuple[str, ...]  # dotted path of every leaf

    @classmethod
    def of(cls, file: BoundedParquet) -> _Layout:
        schema = file.schema_arrow
        paths = tuple(file.schema.column(i).path for i in range(len(file.schema)))
        leaves: dict[str, list[int]] = {name: [] for name in schema.names}
        for index, path in enumerate(paths):
            # A column's name may itself hold a dot: the longest name that fits is the column.
            name = path
            while name and name not in leaves:
                name = name.rpartition(".")[0]
            if name in leaves:
                leaves[name].append(index)
        leaf_columns = {name: tuple(indices) for name, indices in leaves.items()}
        return cls(ColumnKinds.of(schema), tuple(schema.names), leaf_columns, paths)

    def bytes_leaf(self, column: str) -> int:
        """The leaf that holds the images themselves."""
        leaves = self.leaves[column]
        return next((i for i in leaves if self.paths[i].endswith(".bytes")), leaves[0])


def _group_rows(
    file: BoundedParquet, path: Path, layout: _Layout, group: int, before: int
) -> Iterator[FileRow | Dropped]:
    metadata = file.metadata.row_group(group)
    wanted = [
        layout.paths[leaf]
        for column in layout.columns
        if column not in layout.kinds.images
        for leaf in layout.leaves[column]
    ]
    unread: dict[str, bool] = {}  # image columns of which no leaf is read → whether bytes are there
    by_name: set[str] = set()  # image columns without any bytes: only the paths count
    heavy = False
    for column in layout.kinds.images:
        bytes_leaf = layout.bytes_leaf(column)
        statistics = metadata.column(bytes_leaf).statistics
        nulls = (
            statistics.null_count if statistics is not None and statistics.has_null_count else None
        )
        light = [layout.paths[i] for i in layout.leaves[column] if i != bytes_leaf]
        if light:
            wanted += light
            if nulls is not None and nulls == metadata.column(bytes_leaf).num_values:
                by_name.add(column)
        elif not _is_list(file.schema_arrow.field(column).type) and nulls in (0, metadata.num_rows):
            unread[column] = nulls == 0
        else:
            wanted.append(layout.paths[bytes_leaf])
            heavy = True
    offset = 0
    for batch in _batches(file, group, wanted, metadata.num_rows, heavy):
        for values in plain_values(batch):
            number = before + offset + 1
            if isinstance(values, str):
                yield Dropped("read", f"{path.name} row {number}", "not UTF-8", values)
            else:
                shown = layout.kinds.named(values)
                for column in layout.kinds.images:
                    cell = unread.get(column, shown.get(column))
                    where = ParquetCell(str(path), group, offset, column)
                    shown[column] = _picture(
                        cell, where, f"{path.name} row {number}", column in by_name
                    )
                yield FileRow(number, {name: shown.get(name) for name in layout.columns})
            offset += 1


def _batches(
    file: BoundedParquet, group: int, leaves: list[str], rows: int, heavy: bool
) -> Iterator[Any]:
    if not leaves:  # nothing but images: the rows are there all the same
        empty = pa.table({"": pa.nulls(rows)})
        yield empty.select([])
        return
    size = _BATCH_WITH_BYTES if heavy else _BATCH
    yield from file.batches(group, leaves, size)


def _picture(cell: Any, where: ParquetCell, name: str, by_name: bool) -> Any:
    """The reference for one cell; ``cell`` is what was read of it, without bytes where possible."""
    if isinstance(cell, list):
        return [
            _picture(
                part,
                ParquetCell(where.path, where.row_group, where.row, where.column, i),
                name,
                by_name,
            )
            for i, part in enumerate(cell)
        ]
    if cell is None or cell is False:
        return None
    label = cell.get("path") if isinstance(cell, dict) else None
    label = label if isinstance(label, str) else None
    return label if by_name else ImageRef(label or name, where)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))
