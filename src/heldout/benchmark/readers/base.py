"""What a benchmark reader is: it recognises a file by looking inside, and yields flat rows.

A reader handles one file format, independently of questions and answers: it turns the format into
rows (``{"question": …, "image": …}``) one at a time. ``FieldMap`` turns rows into Examples.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from heldout.store import Dropped

# Text files as they come: UTF-8 or UTF-16, with a byte order mark or without, read line by line.


MAX_LINE = 64 << 20  # a longer line or element is not a row
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_CHUNK = 1 << 20


def text_encoding(start: bytes) -> tuple[str, int]:
    """UTF-8 or UTF-16 by a file's first bytes, and how many of them are a byte order mark."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding, len(mark)
    # Without a mark: two characters of ASCII, each with a zero byte before or behind it.
    if len(start) >= 4 and not start[1] and not start[3] and _ascii(start[0], start[2]):
        return "utf-16-le", 0
    if len(start) >= 4 and not start[0] and not start[2] and _ascii(start[1], start[3]):
        return "utf-16-be", 0
    return "utf-8", 0


def _ascii(*codes: int) -> bool:
    return all(32 <= code < 127 or code in (9, 10, 13) for code in codes)


def file_encoding(path: Path) -> tuple[str, int]:
    """``text_encoding`` of a file."""
    with path.open("rb") as file:
        return text_encoding(file.read(4))


def open_text(path: Path) -> TextIO:
    """The characters of a file behind its byte order mark; undecodable ones are replaced."""
    encoding, mark = file_encoding(path)
    file = path.open("rb")
    file.seek(mark)
    return io.TextIOWrapper(file, encoding=encoding, errors="replace")


class TextLines:
    """Lines of a file as UTF-8, and where they lie in it; bytes of a UTF-8 file stay as they are."""

    def __init__(self, path: Path) -> None:
        self.encoding, self.offset = file_encoding(path)  # offset: of the next line, in the file
        self._file = path.open("rb")
        self._text: io.TextIOWrapper | None = None
        self.seek(self.offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def seek(self, offset: int) -> None:
        """Go to the line that begins at a byte of the file."""
        if self._text is not None:
            self._text.detach()
        self._file.seek(offset)
        self.offset = offset
        if self.encoding != "utf-8":
            # A lone surrogate becomes one character of the same size: offsets stay right.
            self._text = io.TextIOWrapper(
                self._file, encoding=self.encoding, errors="replace", newline="\n"
            )

    def readline(self, limit: int = MAX_LINE) -> bytes:
        """The next line with its end, or as much of it as ``limit`` allows; empty at the end."""
        if self._text is None:
            line = self._file.readline(limit)
            self.offset += len(line)
            return line
        text = self._text.readline(limit)
        self.offset += len(text.encode(self.encoding))
        return text.encode()

    def skip(self) -> None:
        """Go to the end of a line of which only a part was read, in flat memory."""
        while (part := self.readline(_CHUNK)) and not part.endswith(b"\n"):
            pass


@dataclass(frozen=True, slots=True)
class FileRow:
    """``number`` counts as a person would, from 1; images are ImageRefs, bytes, paths or data URLs."""

    number: int
    values: dict[str, Any]


class Reader(Protocol):
    name: str
    #: file endings that are worth looking into; "" means a folder
    suffixes: tuple[str, ...]

    def recognises(self, path: Path) -> bool:
        """True if the content (not only the ending) is this reader's. Cheap: reads the head."""
        ...

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        """Rows in file order, streamed. What cannot be read is yielded as Dropped, never skipped."""
        ...


def head(path: Path, size: int = 65536) -> bytes:
    """The first bytes of a file without a byte order mark, UTF-16 as UTF-8."""
    with path.open("rb") as file:
        start = file.read(size)
    encoding, mark = text_encoding(start)
    start = start[mark:]
    return start if encoding == "utf-8" else start.decode(encoding, "replace").encode()
