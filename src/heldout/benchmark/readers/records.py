"""Records of a delimited text file with their byte spans, so that a field can be found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_RECORD = 64 << 20  # a longer record is not a row of anything
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it lies in the file; ``problem`` says why it cannot be read."""

    data: bytes
    offset: int
    line: int
    problem: str = ""

    @property
    def encoding(self) -> str:
        """UTF-8 unless this record is not: files joined from several sources mix encodings."""
        for encoding in ("utf-8", "cp1252"):
            try:
                self.data.decode(encoding)
            except UnicodeDecodeError:
                continue
            return encoding
        return "latin-1"

    @property
    def text(self) -> str:
        return self.data.decode(self.encoding)


def records(path: Path, delimiter: str) -> Iterator[Record]:
    """Records in file order. One whose quote never closes ends with its own first line."""
    mark = delimiter.encode()
    with path.open("rb") as file:
        offset = len(_BYTE_ORDER_MARK) if file.read(3) == _BYTE_ORDER_MARK else 0
        file.seek(offset)
        line = 1
        while True:
            first = file.readline(MAX_RECORD)
            if not first:
                return
            if len(first) == MAX_RECORD and not first.endswith(b"\n"):
                length = len(first) + _rest_of_line(file)
                yield Record(first[:80], offset, line, f"record over {MAX_RECORD:,} bytes")
                offset, line = offset + length, line + 1
                continue
            lines, size = [first], len(first)
            is_open = _quote_open(first, mark, False)
            while is_open and size <= MAX_RECORD and (more := file.readline(MAX_RECORD)):
                lines.append(more)
                size += len(more)
                is_open = _quote_open(more, mark, True)
            if is_open:
                yield Record(first, offset, line, "unclosed quote")
                offset, line = offset + len(first), line + 1
                file.seek(offset)
            else:
                yield Record(b"".join(lines), offset, line)
                offset, line = offset + size, line + len(lines)


def _rest_of_line(file: BinaryIO) -> int:
    """Read on to the end of an overlong line; returns how many bytes that was."""
    length = 0
    while part := file.readline(1 << 20):
        length += len(part)
        if part.endswith(b"\n"):
            break
    return length


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
