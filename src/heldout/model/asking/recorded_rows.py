"""Recorded predictions as flat rows, whoever wrote them: VLMEvalKit, lmms-eval, or a table of one's own."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark.example import canonical_text
from heldout.benchmark.readers import Row
from heldout.benchmark.readers.delimited import DelimitedReader
from heldout.benchmark.readers.json_rows import JsonLinesReader, JsonReader
from heldout.benchmark.readers.parquet import ParquetReader
from heldout.errors import InputError
from heldout.model.asking.spreadsheet import spreadsheet_rows
from heldout.store import Dropped

# What each field is called in the wild; the first present wins.
NAMES: dict[str, tuple[str, ...]] = {
    "id": ("benchmark_id", "id", "index", "qid", "question_id", "example_id", "item_id"),
    "reply": ("reply", "prediction", "pred", "response", "model_answer", "output"),
    "model": ("model", "model_name"),
    "variant": ("variant",),
    "draw": ("draw",),
    "options": ("options", "choices"),
    "gold": ("gold", "answer", "gt_answer", "target"),
    "question": ("question",),
}
_LETTER = re.compile(r"[A-Z]")


@dataclass(frozen=True)
class RecordedRow:
    """``position``: where lmms-eval says the item stands in its dataset, None elsewhere."""

    where: str
    id: str | None
    reply: str | None
    model: str | None
    variant: str | None
    draw: int
    options: tuple[str, ...]
    gold: str | None
    question: str | None
    position: int | None = None


def recorded_rows(path: Path, mapping: Mapping[str, str]) -> Iterator[RecordedRow | Dropped]:
    for name in mapping:
        if name not in NAMES:
            raise InputError(
                f"there is no field '{name}' to map (--map-recorded, or map in an audit file); "
                f"the fields are {', '.join(NAMES)}"
            )
    for row in _rows(path):
        if isinstance(row, Dropped):
            yield row
        elif "doc_id" in row.values and ("resps" in row.values or "filtered_resps" in row.values):
            yield _logged_sample(path, row)
        else:
            yield _flat(path, row, mapping)


def _rows(path: Path) -> Iterator[Row | Dropped]:
    if not path.is_file():
        raise InputError(f"{path} does not exist or is a folder; expected a file of predictions")
    kind = path.suffix.lower()
    if kind == ".xlsx":
        return spreadsheet_rows(path)
    for reader in (JsonReader(), JsonLinesReader(), DelimitedReader(), ParquetReader()):
        if kind in reader.suffixes and reader.recognises(path):
            return reader.rows(path)
    raise InputError(
        f"{path}: expected predictions as .xlsx, CSV, TSV, JSON, JSON Lines or Parquet, one row per answer"
    )


def _flat(path: Path, row: Row, mapping: Mapping[str, str]) -> RecordedRow:
    values = row.values
    lowered = {str(name).lower(): name for name in reversed(values)}

    def cell(field: str) -> Any:
        if field in mapping:
            return values.get(mapping[field])
        name = next((lowered[n] for n in NAMES[field] if n in lowered), None)
        return None if name is None else values[name]

    where = f"{path.name} row {row.number}"
    reply = cell("reply")
    draw = canonical_text(cell("draw")) or "0"
    if not draw.isdecimal():
        raise InputError(f"{where}: 'draw' is {draw!r:.40}; expected 0, 1, 2 …")
    return RecordedRow(
        where, canonical_text(cell("id")), _words(reply), canonical_text(cell("model")),
        canonical_text(cell("variant")), int(draw), _options(values, cell("options")),
        canonical_text(cell("gold")), canonical_text(cell("question")),
    )  # fmt: skip


def _logged_sample(path: Path, row: Row) -> RecordedRow:
    """A line of lmms-eval's --log_samples; ``resps`` is [["…"]], ["…"] or "…", by its version."""
    values = row.values
    doc = values.get("doc") if isinstance(values.get("doc"), dict) else {}
    assert isinstance(doc, dict)
    where = f"{path.name} line {row.number}"
    told = values.get("resps")
    if told in (None, [], ""):
        told = values.get("filtered_resps")
    while isinstance(told, list) and len(told) == 1:
        told = told[0]
    if isinstance(told, list):
        raise InputError(
            f"{where}: 'resps' holds {len(told)} responses to one question; expected one generated text "
            f"(tasks that compare log-likelihoods give no answers in words)"
        )
    flat = _flat(path, Row(row.number, doc), {})
    place = canonical_text(values["doc_id"]) or ""
    return RecordedRow(
        where, flat.id, _words(told), flat.model, None, 0, flat.options, None, flat.question,
        int(place) if place.isdecimal() else None,
    )  # fmt: skip


def _words(value: Any) -> str | None:
    """A reply as text; a spreadsheet makes 3 a number and TRUE a truth."""
    if isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value if isinstance(value, str) else canonical_text(value)


def _options(values: Mapping[str, Any], listed: Any) -> tuple[str, ...]:
    if isinstance(listed, str):
        for parse in (json.loads, ast.literal_eval):
            try:
                listed = parse(listed)
                break
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    if isinstance(listed, list | tuple):
        return tuple(text for one in listed if (text := canonical_text(one)))
    columns = sorted(name for name in values if isinstance(name, str) and _LETTER.fullmatch(name))
    texts = [canonical_text(values[name]) for name in columns]
    return tuple(text for text in texts if text and text.lower() != "nan")
