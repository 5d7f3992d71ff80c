"""Twins in the format of the benchmark they were made of, file by file."""

from __future__ import annotations

import base64
import csv
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark import (
    FROM_ONE,
    DataTable,
    DelimitedTable,
    Example,
    FieldMap,
    FilePart,
    FileRow,
    Opened,
    canonical_value,
    data_parts,
    find_preset,
    find_writer,
    head,
    letter,
    load_object,
)
from heldout.errors import InputError
from heldout.image import EncodedText, ImageRef, InlineBytes, TextField
from heldout.store import Dropped, write_json
from heldout.twin.ledger import file_name

# One twin as it is published: the cells of its row that differ from the original's.


#: columns that every published table has besides the benchmark's own
OLD_ANSWER, PROVENANCE = "original_answer", "twin"
_LETTERED = re.compile(r"\(?([A-Za-z])\)?[.:]?")


@dataclass(frozen=True)
class PublishedTwin:
    example: Example  # as it was released
    new_answer: str
    new_index: int | None
    picture: Path  # a PNG file
    provenance: Mapping[str, Any]

    @property
    def image_name(self) -> str:
        """Relative to the table that names it."""
        return f"images/{file_name(self.example.id)}.png"

    def encoded(self) -> str:
        return base64.b64encode(self.picture.read_bytes()).decode()

    def answer_cell(self, raw: Any, answer_is: str) -> Any:
        """The new answer, written as the old one was: as a letter, a place or a text; in a list or not."""
        if isinstance(raw, list | tuple):
            return [self.answer_cell(raw[0], answer_is)] if raw else [self.new_answer]
        text = (canonical_value(raw) or "").strip()
        if self.new_index is None:
            return self.new_answer
        for style in dict.fromkeys((answer_is, "text", "letter", "index")):
            if style == "text" and text.casefold() == (self.example.answer or "").casefold():
                return self.new_answer
            match = _LETTERED.fullmatch(text) if style == "letter" else None
            old = self.example.answer_index or 0
            if match is not None and match[1].upper() == letter(old):
                new = letter(self.new_index)
                new = new if match[1].isupper() else new.lower()
                return text[: match.start(1)] + new + text[match.end(1) :]
            from_one = int(style == FROM_ONE)
            if style in ("index", FROM_ONE) and text == str(old + from_one):
                new_place = self.new_index + from_one
                return new_place if not isinstance(raw, str) else str(new_place)
        return self.new_answer


# Twins as JSON, JSON Lines, CSV or TSV: the original's row with another answer and another picture.


# the column that is added where a benchmark has none: rows are fewer, their numbers change
ID = "id"


def twin_row(
    values: Mapping[str, Any], twin: PublishedTwin, fields: FieldMap, *, flat: bool
) -> dict[str, Any]:
    """``flat``: for a file whose cells are text."""
    row = {name: _plain(value) for name, value in values.items()}
    named = fields.columns.get("id") or (ID,)
    if _text(row.get(named[0])) != twin.example.id:
        row[named[0]] = twin.example.id
    answer = fields.columns["answer"][0]
    row[answer] = twin.answer_cell(values.get(answer), fields.answer_is)
    image = next(name for name in fields.columns["image"] if values.get(name) not in (None, "", []))
    row[image] = _image(values[image], twin)
    row[OLD_ANSWER] = twin.example.answer
    row[PROVENANCE] = json.dumps(twin.provenance) if flat else dict(twin.provenance)
    return row


def write_rows_json(rows: Iterable[Mapping[str, Any]], target: Path) -> None:
    """Row by row: a benchmark with its pictures inside may be larger than the memory."""
    with target.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows):
            file.write(",\n" if number else "[\n")
            file.write(json.dumps(row, ensure_ascii=False, indent=1))
        file.write("\n]\n")


def write_json_lines(rows: Iterable[Mapping[str, Any]], target: Path) -> None:
    with target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_delimited(
    rows: Iterable[Mapping[str, Any]], fields: FieldMap, source: Path, target: Path
) -> None:
    """The columns of ``source`` in their order, then what is new."""
    table = DelimitedTable.open(source)
    new = [*([] if fields.columns.get("id") else [ID]), OLD_ANSWER, PROVENANCE]
    columns = list(dict.fromkeys([*table.columns, *new]))
    with target.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter=table.delimiter, lineterminator="\n")
        out.writerow(columns)
        out.writerows([_cell(row.get(name)) for name in columns] for row in rows)


def _image(raw: Any, twin: PublishedTwin) -> Any:
    """A name if the row has a name, the picture itself if it has the picture."""
    if isinstance(raw, list | tuple):
        return [_image(raw[0], twin)]
    if isinstance(raw, dict):
        data = {"bytes": twin.encoded()} if raw.get("bytes") is not None else {}
        return {**raw, **data, "path": twin.image_name}
    location = twin.example.images[0].location
    if not isinstance(location, InlineBytes | EncodedText | TextField):
        return twin.image_name
    url = isinstance(raw, str) and raw.startswith("data:")
    return f"data:image/png;base64,{twin.encoded()}" if url else twin.encoded()


def _plain(value: Any) -> Any:
    if isinstance(value, ImageRef):
        return value.name
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Twins as VLMEvalKit's TSV: index, base64 image, question, a column per option, the answer's letter.


STAGE = "twin publish"
MOST_OPTIONS = 10  # columns A to J, which the reader takes for options


def write_tsv(twins: Sequence[PublishedTwin], target: Path) -> list[Dropped]:
    """Write the file; returns the items that this format cannot hold."""
    fitting = [twin for twin in twins if len(twin.example.options) <= MOST_OPTIONS]
    width = max((len(twin.example.options) for twin in fitting), default=0)
    letters = [letter(place) for place in range(width)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow(["index", "image", "question", *letters, "answer", OLD_ANSWER, PROVENANCE])
        for twin in fitting:
            options = list(twin.example.options)
            answer = twin.new_answer if twin.new_index is None else letter(twin.new_index)
            out.writerow(
                [
                    twin.example.id,
                    twin.encoded(),
                    twin.example.question,
                    *options,
                    *[""] * (width - len(options)),
                    answer,
                    twin.example.answer,
                    json.dumps(twin.provenance),
                ]
            )
    return [
        Dropped(
            STAGE, twin.example.id, "too many options for the TSV", f"{len(twin.example.options)}"
        )
        for twin in twins
        if len(twin.example.options) > MOST_OPTIONS
    ]


# Twins as Parquet or Arrow: the original's rows with the columns of answer and picture replaced.


_FEATURES = b"huggingface"


def rewrite_parquet(path: Path, twins: Sequence[PublishedTwin], fields: FieldMap) -> None:
    """``path`` holds the twins' original rows, in order."""
    pq.write_table(changed(pq.read_table(path), twins, fields), path)


def rewrite_arrow(path: Path, twins: Sequence[PublishedTwin], fields: FieldMap) -> None:
    """A file, or a save_to_disk folder, whose description is brought up to date."""
    data = data_parts(path)[0] if path.is_dir() else path
    random_access = head(data, 8)[:4] == b"ARRO"
    # Not through the cached mapping that pictures are read from: the file is about to change.
    read = pa.ipc.open_file if random_access else pa.ipc.open_stream
    table = changed(read(pa.py_buffer(data.read_bytes())).read_all(), twins, fields)
    make = pa.ipc.new_file if random_access else pa.ipc.new_stream
    with pa.OSFile(str(data), "wb") as sink, make(sink, table.schema) as out:
        out.write_table(table)
    if path.is_dir():
        info = load_object(path / "dataset_info.json")
        if isinstance(info.get("features"), dict):
            info["features"] = {**info["features"], **_described(table, info["features"])}
            write_json(path / "dataset_info.json", info)


def changed(table: pa.Table, twins: Sequence[PublishedTwin], fields: FieldMap) -> pa.Table:
    answer = fields.columns["answer"][0]
    raw = table.column(answer).to_pylist()
    cells = [
        twin.answer_cell(value, fields.answer_is) for twin, value in zip(twins, raw, strict=True)
    ]
    table = _replaced(table, answer, cells)
    for column in fields.columns["image"]:
        kind = table.schema.field(column).type
        shown = table.column(column).is_valid().to_pylist()
        pictures = [
            _picture(kind, twin) if there else None
            for twin, there in zip(twins, shown, strict=True)
        ]
        table = _replaced(table, column, pictures)
    named = fields.columns.get("id")
    ids = [twin.example.id for twin in twins]
    if not named:
        table = table.append_column(ID, pa.array(ids, pa.string()))
    elif [str(value) for value in table.column(named[0]).to_pylist()] != ids:
        table = _replaced(table, named[0], ids)
    old = pa.array([twin.example.answer for twin in twins], pa.string())
    provenance = pa.array([json.dumps(twin.provenance) for twin in twins], pa.string())
    return _with_features(
        table.append_column(OLD_ANSWER, old).append_column(PROVENANCE, provenance)
    )


def _picture(kind: pa.DataType, twin: PublishedTwin) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_picture(kind.value_type, twin)]
    if pa.types.is_struct(kind):
        return {"bytes": twin.picture.read_bytes(), "path": twin.image_name}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return twin.picture.read_bytes()
    return twin.image_name


def _replaced(table: pa.Table, column: str, cells: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(column)
    field = table.schema.field(place)
    return table.set_column(place, field, pa.array(cells, field.type))


def _with_features(table: pa.Table) -> pa.Table:
    """``datasets`` keeps a description of the columns in the file, and refuses one that is not in it."""
    metadata = dict(table.schema.metadata or {})
    try:
        record = json.loads(metadata[_FEATURES])
        record["info"]["features"] |= _described(table, record["info"]["features"])
    except (KeyError, TypeError, ValueError):
        return table
    return table.replace_schema_metadata({**metadata, _FEATURES: json.dumps(record).encode()})


def _described(table: pa.Table, known: dict[str, Any]) -> dict[str, Any]:
    kind = {"dtype": "string", "_type": "Value"}
    return {name: kind for name in table.column_names if name not in known}


REWRITE: dict[str, Callable[[Path, Sequence[PublishedTwin], FieldMap], None]] = {
    "parquet": rewrite_parquet,
    "arrow": rewrite_arrow,
}


ROWS = ("json", "jsonl", "delimited")
_LOOK_AHEAD = 200


def write_same_format(opened: Opened, twins: Mapping[str, PublishedTwin], out: Path) -> Path:
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


def _write(
    opened: Opened, table: DataTable, chosen: Mapping[int, PublishedTwin], out: Path
) -> Path:
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
            (write_rows_json if reader == "json" else write_json_lines)(rows, target)
    _copy_pictures(ordered, target if target.is_dir() else target.parent)
    return target


def _copy_pictures(twins: Sequence[PublishedTwin], folder: Path) -> None:
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
