"""Twins in the format of the benchmark they were made of, file by file."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark import (
    DataTable,
    FieldMap,
    FilePart,
    FileRow,
    Opened,
    find_preset,
    find_writer,
)
from heldout.errors import InputError
from heldout.image import EncodedText, InlineBytes, TextField
from heldout.twin.column_files import REWRITE
from heldout.twin.published import Published
from heldout.twin.row_files import twin_row, write_delimited, write_json, write_json_lines

ROWS = ("json", "jsonl", "delimited")
_LOOK_AHEAD = 200


def write_same_format(opened: Opened, twins: Mapping[str, Published], out: Path) -> Path:
    """Write below ``out``; what to open: the one file, or ``out``. InputError where it cannot be done."""
    formats = {table.file.reader.name for table in opened.tables}
    unknown = formats - {*ROWS, *REWRITE}
    if unknown:
        raise InputError(
            f"a row of the format {', '.join(sorted(unknown))} cannot have an answer and a picture of "
            f"its own"
        )
    written = []
    examples = iter(opened.benchmark.examples)
    for table in opened.tables:
        of_table = list(itertools.islice(examples, len(table.rows)))
        chosen = {
            row: twins[example.id]
            for row, example in zip(table.rows, of_table, strict=True)
            if example.id in twins
        }
        if len(chosen) < sum(example.id in twins for example in of_table):
            raise InputError(f"several items come from one row of {table.file.path.name}")
        if chosen:
            written.append(_write(opened, table, chosen, out))
    return written[0] if len(written) == 1 else out


def _write(opened: Opened, table: DataTable, chosen: Mapping[int, Published], out: Path) -> Path:
    relative = table.relative
    target = out / (relative if relative != Path() else Path(table.file.path.name))
    target.parent.mkdir(parents=True, exist_ok=True)
    fields = _fields(opened, table)
    ordered = [chosen[row] for row in sorted(chosen)]
    reader = table.file.reader.name
    if reader in REWRITE:
        find_writer(reader).write([FilePart(table.file.path, frozenset(chosen))], target)
        REWRITE[reader](target, ordered, fields)
    else:
        rows = (
            twin_row(row.values, chosen[row.number], fields, flat=reader == "delimited")
            for row in table.file.reader.rows(table.file.path)
            if isinstance(row, FileRow) and row.number in chosen
        )
        if reader == "delimited":
            write_delimited(rows, fields, table.file.path, target)
        else:
            (write_json if reader == "json" else write_json_lines)(rows, target)
    _copy_pictures(ordered, target if target.is_dir() else target.parent)
    return target


def _copy_pictures(twins: Sequence[Published], folder: Path) -> None:
    """Beside the table, where it names them; what holds its pictures itself needs no copies."""
    for twin in twins:
        location = twin.example.images[0].location
        if isinstance(location, InlineBytes | EncodedText | TextField):
            continue
        if hasattr(location, "column"):  # a cell of Parquet or Arrow
            continue
        place = folder / twin.image_name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(twin.picture, place)


def _fields(opened: Opened, table: DataTable) -> FieldMap:
    """What the columns mean, as the reading decided it."""
    reading = opened.reading
    rows = (
        row.values for row in table.file.reader.rows(table.file.path) if isinstance(row, FileRow)
    )
    seen = list(itertools.islice(rows, _LOOK_AHEAD))
    preset = find_preset(reading.preset, by_name=True) if reading.preset else None
    present = {column for row in seen for column in row}
    overrides = {**(preset.fitting(present) if preset else {}), **(reading.mapping or {})}
    answer_is = preset.answer_is if preset else "auto"
    fields = FieldMap.infer(seen, overrides, answer_is, table.file.path.name)
    if not fields.columns.get("answer") or not fields.columns.get("image"):
        raise InputError(f"{table.file.path.name} has no column of answers or pictures of its own")
    return fields
