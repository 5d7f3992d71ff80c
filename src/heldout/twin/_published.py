"""One twin as it is published: the cells of its row that differ from the original's."""

from __future__ import annotations

import base64
import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import FROM_ONE, DelimitedTable, Example, FieldMap, canonical_value, letter
from heldout.image import EncodedText, ImageRef, InlineBytes, TextField
from heldout.store import Dropped
from heldout.twin.ledger import file_name

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
