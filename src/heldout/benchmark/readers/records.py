"""Records of a delimited text file with their byte spans, so that a field can be found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.readers.text_lines import MAX_LINE, TextLines

MAX_RECORD = MAX_LINE  # a longer record is not a row of anything


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``problem`` says why it cannot be read.

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
        wide = "" if source.encoding == "utf-8" else source.encoding
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
                yield Record(first[:80], offset, length, line, problem, wide)
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
                yield Record(first, offset, after - offset, line, "unclosed quote", wide)
                line += 1
                source.seek(after)
            else:
                length = source.offset - offset
                yield Record(b"".join(lines), offset, length, line, wide=wide)
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
