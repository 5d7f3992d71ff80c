"""Twins as JSON, JSON Lines, CSV or TSV: the original's row with another answer and another picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heldout.benchmark import DelimitedTable, FieldMap
from heldout.image import EncodedText, ImageRef, InlineBytes, TextField
from heldout.twin.published import OLD_ANSWER, PROVENANCE, Published

ID = "id"  # the column that is added where a benchmark has none: rows are fewer, their numbers change


def twin_row(
    values: Mapping[str, Any], twin: Published, fields: FieldMap, *, flat: bool
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


def write_json(rows: Iterable[Mapping[str, Any]], target: Path) -> None:
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


def _image(raw: Any, twin: Published) -> Any:
    """A name where the row has a name, the picture itself where it has the picture."""
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
