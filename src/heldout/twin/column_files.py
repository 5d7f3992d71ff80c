"""Twins as Parquet or Arrow: the original's rows with the columns of answer and picture replaced."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark import FieldMap, data_parts, head, load_object
from heldout.store import write_json
from heldout.twin.published import OLD_ANSWER, PROVENANCE, Published
from heldout.twin.row_files import ID

_FEATURES = b"huggingface"


def rewrite_parquet(path: Path, twins: Sequence[Published], fields: FieldMap) -> None:
    """``path`` holds the twins' original rows, in order."""
    pq.write_table(changed(pq.read_table(path), twins, fields), path)


def rewrite_arrow(path: Path, twins: Sequence[Published], fields: FieldMap) -> None:
    """A file, or a save_to_disk folder, whose description is brought up to date."""
    data = data_parts(path)[0] if path.is_dir() else path
    random_access = head(data, 8)[:4] == b"ARRO"
    # Not by the cached mapping that pictures are read from: the file is about to change.
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


def changed(table: pa.Table, twins: Sequence[Published], fields: FieldMap) -> pa.Table:
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
    told = pa.array([json.dumps(twin.provenance) for twin in twins], pa.string())
    return _with_features(table.append_column(OLD_ANSWER, old).append_column(PROVENANCE, told))


def _picture(kind: pa.DataType, twin: Published) -> Any:
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


REWRITE: dict[str, Callable[[Path, Sequence[Published], FieldMap], None]] = {
    "parquet": rewrite_parquet,
    "arrow": rewrite_arrow,
}
