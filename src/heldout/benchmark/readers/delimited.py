"""CSV and TSV, VLMEvalKit's among them: streamed by record, base64 images left in the file."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heldout.benchmark.image_finder import ImageFinder
from heldout.benchmark.readers.base import MAX_LINE, FileRow, TextLines, head
from heldout.benchmark.readers.headerless import (
    are_positions,
    column_names,
    has_names,
    is_image_name,
    taken_for,
)
from heldout.errors import InputError
from heldout.image import ImageRef, TextField, split_list
from heldout.store import Dropped

# Records of a delimited text file with their byte spans, so that a field can be found again.


MAX_RECORD = MAX_LINE  # a longer record is not a row


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``problem``: why it cannot be read.

    ``data`` are its bytes as they lie in the file, or as UTF-8 where the file is UTF-16.
    """

    data: bytes
    offset: int  # in the file
    length: int  # in the file
    line: int
    problem: str = ""
    wide: str = ""  # which UTF-16 the file is, if it is

    @property
    def encoding(self) -> str:
        """Of the bytes in the file: UTF-8 unless this record is not, since joined files mix."""
        return self.wide or _narrow(self.data)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8" if self.wide else self.encoding)


def _narrow(data: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def records(path: Path, delimiter: str) -> Iterator[Record]:
    """Records in file order. One whose quote never closes ends with its own first line."""
    mark = delimiter.encode()
    with TextLines(path) as source:
        utf16 = "" if source.encoding == "utf-8" else source.encoding
        line = 1
        while True:
            offset = source.offset
            first = source.readline(MAX_RECORD)
            if not first:
                return
            if len(first) >= MAX_RECORD and not first.endswith(b"\n"):
                source.skip()
                length = source.offset - offset
                problem = f"record over {MAX_RECORD:,} bytes"
                yield Record(first[:80], offset, length, line, problem, utf16)
                line += 1
                continue
            after = source.offset
            lines, size = [first], len(first)
            is_open = _quote_open(first, mark, False)
            while is_open and size <= MAX_RECORD and (more := source.readline(MAX_RECORD)):
                lines.append(more)
                size += len(more)
                is_open = _quote_open(more, mark, True)
            if is_open:
                yield Record(first, offset, after - offset, line, "unclosed quote", utf16)
                line += 1
                source.seek(after)
            else:
                length = source.offset - offset
                yield Record(b"".join(lines), offset, length, line, wide=utf16)
                line += len(lines)


def _quote_open(data: bytes, delimiter: bytes, inside: bool) -> bool:
    """Whether a quoted field is still open at the end of a line that began inside one or not.

    As in the csv module: a quote is special only at the start of a field, a doubled quote inside
    is a quote, and what follows the closing quote up to the delimiter is ordinary text.
    """
    if not inside and b'"' not in data:
        return False
    position = 0
    while True:
        if inside:
            quote = data.find(b'"', position)
            if quote < 0:
                return True
            if data[quote + 1 : quote + 2] == b'"':
                position = quote + 2
                continue
            inside = False
            position = quote + 1
        elif data[position : position + 1] == b'"':
            inside = True
            position += 1
            continue
        following = data.find(delimiter, position)
        if following < 0:
            return False
        position = following + 1


# Image fields of a delimited file: base64 stays there, and rows may share another row's image.


_IMAGE_COLUMN = re.compile(r".*(image|img|picture|figure|photo).*|jpe?g|png|webp", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_MAGIC = (b"\xff\xd8", b"\x89PN", b"GIF", b"BM", b"RIF", b"II*", b"MM\0")
_SHORTEST_IMAGE = 64  # VLMEvalKit: a shorter field names another row

References = Callable[[str, str], Iterator[tuple[str, str, Record, int]]]


class ImageFields:
    """Puts references in place of base64; ``references`` reads the file again if rows share."""

    def __init__(
        self, path: Path, columns: list[str], delimiter: str, references: References
    ) -> None:
        self.path = path
        self.columns = columns
        self.delimiter = delimiter
        self.images = [column for column in columns if _IMAGE_COLUMN.fullmatch(column)]
        lowered = {column.lower(): column for column in columns}
        self.index = lowered.get("index")
        self.shared = lowered.get("image")
        self._references = references
        self._all: dict[str, Any] | None = None

    def placed(self, values: dict[str, Any], record: Record, where: str) -> dict[str, Any]:
        """The row with image references in place of base64 fields."""
        for column in self.images:
            text = values[column]
            if column == self.shared and self.index is not None and self._names_a_row(text):
                values[column] = self._by_index().get(text.strip(), text)
            else:
                values[column] = self._image(text, column, record, where)
        return values

    def _names_a_row(self, text: str) -> bool:
        short = text.strip()
        return len(short) <= _SHORTEST_IMAGE and short.isascii() and short.isdecimal()

    def _by_index(self) -> dict[str, Any]:
        """Images by the index of their row; the row referred to may come later in the file."""
        if self._all is None:
            assert self.index is not None and self.shared is not None
            self._all = {}
            for index, text, record, number in self._references(self.shared, self.index):
                if not self._names_a_row(text):
                    where = f"{self.path.name} row {number}"
                    self._all[index.strip()] = self._image(text, self.shared, record, where)
        return self._all

    def _image(self, text: str, column: str, record: Record, where: str) -> Any:
        parts = split_list(text.strip())
        if len(parts) == 1 and parts[0] == text.strip():
            return self._reference(column, record, where, -1) if _is_encoded(text) else text
        if not any(_is_encoded(part) for part in parts):
            return parts
        return [
            self._reference(column, record, where, position) if _is_encoded(part) else part
            for position, part in enumerate(parts)
        ]

    def _reference(self, column: str, record: Record, where: str, position: int) -> ImageRef:
        field = self.columns.index(column)
        location = TextField(
            str(self.path),
            record.offset,
            record.length,
            self.delimiter,
            field,
            record.encoding,
            position,
        )
        return ImageRef(where if position < 0 else f"{where} image {position + 1}", location)


def _is_encoded(text: str) -> bool:
    """Base64 of an image or a data URL, and not a path that happens to be long."""
    text = text.strip()
    if text.startswith("data:"):
        return True
    if len(text) <= _SHORTEST_IMAGE or not _BASE64.fullmatch(text[:4096]):
        return False
    try:
        start = base64.b64decode(text[:16])
    except binascii.Error:
        return len(text) > 512
    return len(text) > 512 or start.startswith(_MAGIC)


DELIMITERS = ("\t", ",", ";")
_LOOK = 50  # records of a file without column names that are looked at
_LINES = 10  # lines by which the delimiter is chosen

# The csv module refuses fields over 128 KiB; one base64 photograph is larger.
csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD))


class DelimitedReader:
    name = "delimited"
    suffixes = (".csv", ".tsv", ".tab")

    def recognises(self, path: Path) -> bool:
        start = head(path)
        if _only_returns(start):
            return True  # classic Mac line ends: reading it raises an error with advice
        first = start.split(b"\n", 1)[0]
        return b"\0" not in first and len(_names(first, _delimiter(start))) >= 2

    def taken_for(self, path: Path) -> str | None:
        """What the columns were taken for, of a file that does not name them."""
        table = DelimitedTable.open(path)
        return taken_for(table.columns) if table.guessed else None

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        table = DelimitedTable.open(path)
        images = ImageFields(path, table.columns, table.delimiter, table.references)
        for number, record in enumerate(table.data(), 1):
            where = f"{path.name} row {number}"
            fields = record_fields(record, table.delimiter)
            problem = table.problem(record, fields)
            if problem is not None:
                reason, detail = problem
                yield Dropped("read", where, reason, f"line {record.line}: {detail}")
                continue
            values: dict[str, Any] = dict(zip(table.columns, fields, strict=True))
            yield FileRow(number, images.placed(values, record, where))


@dataclass(frozen=True)
class DelimitedTable:
    path: Path
    delimiter: str
    columns: list[str]
    header: bool = True  # whether the first record names the columns
    guessed: bool = False  # whether their names were read off what they hold

    @classmethod
    def open(cls, path: Path) -> DelimitedTable:
        start = head(path)
        if _only_returns(start):
            raise InputError(
                f"{path} ends its lines with carriage returns alone, as old Macintosh programs did: "
                f"convert it with: tr '\\r' '\\n' < {path.name} > converted{path.suffix}"
            )
        delimiter = _delimiter(start)
        first = next(records(path, delimiter), None)
        if first is None or first.problem or not first.data.strip():
            raise InputError(f"{path}: expected a first line with the names of the columns")
        names = record_fields(first, delimiter)
        if isinstance(names, str) or b"\0" in first.data:
            raise InputError(f"{path}: the first line, with the names of the columns, is not text")
        positions = are_positions(names)
        if has_names(names) and not positions:
            return cls(path, delimiter, _unique(names))
        table = cls(path, delimiter, names, header=positions)
        return replace(table, columns=table._guessed(), guessed=True)

    def _guessed(self) -> list[str]:
        """Names for the columns of a file that names none, by what its first records hold."""
        fields = (record_fields(record, self.delimiter) for record in self.data())
        whole = (row for row in fields if len(row) == len(self.columns))
        rows = [row for row in itertools.islice(whole, _LOOK) if not isinstance(row, str)]
        finder = ImageFinder(self.path.parent)

        def shows_image(cell: str) -> bool:
            return is_image_name(cell) or (
                not any(c.isspace() for c in cell) and finder.has_file(cell)
            )

        return column_names(rows, shows_image)

    def data(self) -> Iterator[Record]:
        """Every record after the names of the columns; empty lines are not records."""
        everything = records(self.path, self.delimiter)
        if self.header:
            next(everything, None)
        return (record for record in everything if record.problem or record.data.strip(b"\r\n"))

    def problem(self, record: Record, fields: list[str] | str) -> tuple[str, str] | None:
        if record.problem:
            return record.problem, f"it begins {record.data[:80]!r}"
        if b"\0" in record.data:
            return "null byte", f"at byte {record.offset + record.data.index(0)}"
        if isinstance(fields, str):
            return "not a record", fields
        if len(fields) != len(self.columns):
            reason = "too many fields" if len(fields) > len(self.columns) else "too few fields"
            return (
                reason,
                f"expected {len(self.columns)}, found {len(fields)}: {record.data[:80]!r}",
            )
        return None

    def references(self, column: str, index: str) -> Iterator[tuple[str, str, Record, int]]:
        """(index, image field, record, row number) of every good record: a second look."""
        for number, record in enumerate(self.data(), 1):
            fields = record_fields(record, self.delimiter)
            if self.problem(record, fields) is None:
                yield (
                    fields[self.columns.index(index)],
                    fields[self.columns.index(column)],
                    record,
                    number,
                )


def _only_returns(start: bytes) -> bool:
    first, mark, _ = start.partition(b"\r")
    return bool(mark) and b"\n" not in start and len(_names(first, _delimiter(first))) >= 2


def record_fields(record: Record, delimiter: str) -> list[str] | str:
    """The fields of a record, or a sentence with the reason why it has none."""
    if record.problem:
        return record.problem
    try:
        return next(csv.reader(io.StringIO(record.text, newline=""), delimiter=delimiter), [])
    except csv.Error as error:
        return str(error)


def _delimiter(start: bytes) -> str:
    """The delimiter that makes most columns; one that makes as many of every line comes first.

    The tab wins a draw.
    """
    first, *more = start.split(b"\n")
    whole = [line for line in more[:-1] if line.strip()][:_LINES]

    def columns(delimiter: str) -> tuple[bool, int]:
        n = len(_names(first, delimiter))
        return n > 1 and all(len(_names(line, delimiter)) == n for line in whole), n

    return max(DELIMITERS, key=columns)


def _names(line: bytes, delimiter: str) -> list[str]:
    text = line.decode("utf-8", errors="replace").rstrip("\r")
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        return []


def _unique(names: list[str]) -> list[str]:
    """Column names; an empty one (a data frame's index) and a repeated one get a number."""
    unique: dict[str, None] = {}
    for position, name in enumerate(names, 1):
        name = name.strip() or f"column {position}"
        while name in unique:
            name = f"{name}#{position}"
        unique[name] = None
    return list(unique)
