"""JSON arrays and JSON Lines, streamed: a gigabyte of rows costs the memory of one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from heldout.benchmark.readers.base import MAX_LINE, FileRow, TextLines, head, open_text
from heldout.errors import InputError
from heldout.store import Dropped

__all__ = [
    "MAX_DEPTH",
    "MAX_LINE",
    "JsonLinesReader",
    "JsonReader",
    "bounded_lines",
    "end_of_value",
    "json_line",
    "load_object",
    "numbered",
    "stream_array",
    "too_deep",
    "too_long",
]

MAX_DEPTH = 100  # levels; code that handles a row is recursive
_CHUNK = 1 << 20
_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_OUTSIDE = re.compile(r'[\[\]{}",]')
_INSIDE = re.compile(r'["\\]')
_DIGITS = f"a whole number has more than {sys.get_int_max_str_digits():,} digits; write it as text"
_NESTED = ("nested too deeply", f"more than {MAX_DEPTH} levels")


class JsonReader:
    """A top-level array of objects, an object of objects, or an object with one array of objects."""

    name = "json"
    suffixes = (".json",)

    def recognises(self, path: Path) -> bool:
        start = head(path).lstrip()
        return start[:1] == b"[" or (start[:1] == b"{" and not JsonLinesReader().recognises(path))

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        if head(path).lstrip()[:1] == b"[":
            yield from numbered(path, stream_array(path))
            return
        yield from numbered(path, _rows_of_object(path, load_object(path)))


class JsonLinesReader:
    """One JSON object per line; a line that is not one is dropped with its number."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def recognises(self, path: Path) -> bool:
        lines = [line for line in head(path).split(b"\n")[:20] if line.strip()]
        first = lines[0].strip() if lines else b""
        if path.suffix.lower() == ".json":  # an object that goes on over lines is plain JSON
            opens = len(lines) > 1 and all(line.strip().startswith(b"{") for line in lines[:2])
            return opens and first.endswith(b"}")
        return first.startswith(b"{")

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        with TextLines(path) as lines:
            for number, line in enumerate(bounded_lines(lines), 1):
                row = too_long(path, number) if line is None else json_line(line, path, number)
                if row is not None:
                    yield row


def bounded_lines(file: BinaryIO | TextLines, end: int | None = None) -> Iterator[bytes | None]:
    """Lines from where ``file`` stands, of ``end`` bytes if given; None for one that is too long.

    Of such a line no more than a part is held at a time, and the next line is the next line.
    """
    position = 0
    while (end is None or position < end) and (line := file.readline(MAX_LINE)):
        position += len(line)
        whole = len(line) < MAX_LINE or line.endswith(b"\n")
        yield line if whole else None
        while not whole and (line := file.readline(_CHUNK)):
            position += len(line)
            whole = line.endswith(b"\n")


def too_long(path: Path, number: int) -> Dropped:
    """The reason for a line that was not read."""
    where = f"{path.name} line {number}"
    return Dropped("read", where, "line too long", f"over {MAX_LINE:,} bytes")


def _beginning(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", errors="replace"))


def json_line(line: bytes, path: Path, number: int) -> FileRow | Dropped | None:
    """One line of JSON Lines as a row, a reason, or None for an empty line."""
    where = f"{path.name} line {number}"
    line = line.strip().removeprefix(b"\xef\xbb\xbf")
    if not line:
        return None
    try:
        value = json.loads(line.decode("utf-8", errors="strict"))
    except UnicodeDecodeError as error:
        return Dropped("read", where, "not UTF-8", str(error))
    except RecursionError:
        return _nested(where)
    except json.JSONDecodeError as error:
        return Dropped("read", where, "not JSON", f"{error}: {_beginning(line)}")
    except ValueError:
        return Dropped("read", where, "number too long", f"{_DIGITS}: {_beginning(line)}")
    if too_deep(value):
        return _nested(where)
    if not isinstance(value, dict):
        return Dropped("read", where, "not an object", f"expected {{…}}, found {_beginning(line)}")
    return FileRow(number, value)


def too_deep(value: Any) -> bool:
    """Whether lists and objects lie in each other deeper than whatever handles a row can follow."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for outer in level
            if isinstance(outer, dict | list)
            for part in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


def _nested(where: str) -> Dropped:
    return Dropped("read", where, *_NESTED)


def numbered(path: Path, values: Iterator[Any]) -> Iterator[FileRow | Dropped]:
    """Objects as rows with their numbers; anything else as a reason."""
    for number, value in enumerate(values, 1):
        where = f"{path.name} row {number}"
        if isinstance(value, Dropped):
            yield value
        elif too_deep(value):
            yield _nested(where)
        elif isinstance(value, dict):
            yield FileRow(number, value)
        else:
            yield Dropped("read", where, "not an object", f"expected {{…}}, found {value!r:.80}")


def stream_array(path: Path) -> Iterator[Any]:
    """Elements of a top-level JSON array, parsed one at a time; a Dropped for one that cannot be.

    A file cut in the middle yields what is whole and then one Dropped that says where it ends.
    """
    decoder = json.JSONDecoder()
    with open_text(path) as file:
        buffer = file.read(_CHUNK).lstrip()
        position, count = 1, 0  # past the opening bracket
        while True:
            position = _SEPARATORS.match(buffer, position).end()  # type: ignore[union-attr]
            if buffer.startswith("]", position):
                return
            where = f"{path.name} row {count + 1}"
            problem: tuple[str, str] | None = None
            if position < len(buffer):
                try:
                    value, end = decoder.raw_decode(buffer, position)
                    # A number or a word at the very end of the buffer may go on in the next chunk.
                    if end < len(buffer) or isinstance(value, dict | list):
                        is_too_deep = too_deep(value)
                        yield _nested(where) if is_too_deep else value
                        count += 1
                        position = end
                        continue
                except json.JSONDecodeError:
                    pass  # incomplete so far, or broken: read more text
                except ValueError:
                    problem = ("number too long", _DIGITS)
                except RecursionError:
                    problem = _NESTED
            if problem is None:
                buffer = buffer[position:]
                position = 0
                more = file.read(max(_CHUNK, len(buffer)))  # doubling keeps re-parsing linear
                if more and len(buffer) <= MAX_LINE:
                    buffer += more
                    continue
                buffer += more
                whole = end_of_value(buffer, 0)
                problem = (
                    ("row too long", f"over {MAX_LINE:,} characters")
                    if whole is None or whole > MAX_LINE
                    else ("not JSON", f"it begins {buffer[:80]!r}")
                )
            after = _skipped(file, buffer, position)
            if after is None:
                if buffer[position:].strip():
                    rest = buffer[position : position + 80]
                    detail = f"after {count:,} whole rows the file goes on with {rest!r}"
                else:
                    detail = f"after {count:,} whole rows the file ends without ']'"
                yield Dropped("read", where, "broken or cut JSON", detail, scope="many")
                return
            yield Dropped("read", where, *problem)
            count += 1
            buffer, position = after


def end_of_value(text: str, start: int) -> int | None:
    """Where an element of an array ends by its brackets and quotes, however deep; None if it goes on."""
    return _ValueScan().end(text, start)


def _skipped(file: TextIO, buffer: str, position: int) -> tuple[str, int] | None:
    """What is left behind the value at ``position``, read from the file in flat memory."""
    scan = _ValueScan()
    while (end := scan.end(buffer, position)) is None:
        position = scan.beyond
        buffer = file.read(_CHUNK)
        if not buffer:
            return None
    return buffer, end


class _ValueScan:
    """Follows brackets and quotes through a value that comes in pieces, without recursion."""

    def __init__(self) -> None:
        self.depth = 0
        self.inside = False  # a string
        self.beyond = 0  # where to go on in the next piece

    def end(self, text: str, position: int) -> int | None:
        """The end of the value in this piece, or None if it goes on in the next."""
        while match := (_INSIDE if self.inside else _OUTSIDE).search(text, position):
            mark, position = match[0], match.end()
            if mark == "\\":
                position += 1  # the escaped character, which may be in the next piece
            elif mark == '"':
                self.inside = not self.inside
            elif mark in "[{":
                self.depth += 1
            elif self.depth == 0:
                if mark in ",]":  # what stands behind a value of an array
                    return match.start()
            elif mark in "]}":
                self.depth -= 1
                if self.depth == 0:
                    return position
        self.beyond = max(0, position - len(text))
        return None


def load_object(path: Path) -> dict[str, Any]:
    """A whole file that is one JSON object."""
    try:
        with open_text(path) as file:
            value = json.load(file)
    except RecursionError as error:
        raise InputError(
            f"{path} cannot be read: lists and objects lie in each other {_NESTED[1]} deep; "
            f"remove or flatten what is nested so deeply"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON that can be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not JSON that can be read: {error}") from error
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {_DIGITS}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def _rows_of_object(path: Path, value: dict[str, Any]) -> Iterator[Any]:
    lists = {k: v for k, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    if len(lists) == 1:
        return iter(next(iter(lists.values())))
    if value and all(isinstance(v, dict) for v in value.values()):  # {"17": {"question": …}}
        return iter([{"id": key, **row} for key, row in value.items()])
    raise InputError(
        f"{path}: expected an array of objects, an object of objects or an object with one array of "
        f"objects; found an object with keys {', '.join(list(value)[:8])}"
    )
