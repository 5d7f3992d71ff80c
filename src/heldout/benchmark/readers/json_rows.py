"""JSON arrays and JSON Lines, streamed: a gigabyte of rows costs the memory of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from heldout.benchmark.readers.base import Row, head
from heldout.errors import InputError
from heldout.store import Dropped

_CHUNK = 1 << 20
_SEPARATORS = re.compile(r"[ \t\r\n,]*")
MAX_LINE = 64 << 20  # a longer line or element is not a row of anything
MAX_DEPTH = 100  # levels; what handles a row recurses, and must not depend on who called it
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class JsonReader:
    """A top-level array of objects, an object of objects, or an object with one array of objects."""

    name = "json"
    suffixes = (".json",)

    def recognises(self, path: Path) -> bool:
        start = head(path).lstrip()
        return start[:1] == b"[" or (start[:1] == b"{" and not JsonLinesReader().recognises(path))

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
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
            return len(lines) > 1 and all(line.strip().startswith(b"{") for line in lines[:2])
        return first.startswith(b"{")

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        with path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file), 1):
                row = too_long(path, number) if line is None else json_line(line, path, number)
                if row is not None:
                    yield row


def bounded_lines(file: BinaryIO, end: int | None = None) -> Iterator[bytes | None]:
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
    return Dropped(
        "read", f"{path.name} line {number}", "line too long", f"over {MAX_LINE:,} bytes"
    )


def too_deep(value: Any) -> bool:
    """Whether a value is nested more than MAX_DEPTH levels deep; it does not recurse itself."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            part
            for held in level
            for part in (held.values() if isinstance(held, dict) else held)
            if isinstance(part, dict | list)
        ]
    return bool(level)


def json_line(line: bytes, path: Path, number: int) -> Row | Dropped | None:
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
        return Dropped("read", where, "not JSON", f"{error}: {line[:80]!r}")
    except ValueError as error:
        return Dropped("read", where, "number too long", f"{error}: {line[:80]!r}")
    if not isinstance(value, dict):
        return Dropped("read", where, "not an object", f"expected {{…}}, found {line[:80]!r}")
    return _nested(where) if too_deep(value) else Row(number, value)


def _nested(where: str) -> Dropped:
    return Dropped("read", where, "nested too deeply", f"more than {MAX_DEPTH} levels")


def numbered(path: Path, values: Iterator[Any]) -> Iterator[Row | Dropped]:
    for number, value in enumerate(values, 1):
        if isinstance(value, Dropped):
            yield value
        elif isinstance(value, dict | list) and too_deep(value):
            yield _nested(f"{path.name} row {number}")
        elif isinstance(value, dict):
            yield Row(number, value)
        else:
            where = f"{path.name} row {number}"
            yield Dropped("read", where, "not an object", f"expected {{…}}, found {value!r:.80}")


def stream_array(path: Path) -> Iterator[Any]:
    """Elements of a top-level JSON array, parsed one at a time.

    A file cut in the middle yields what is whole and then one Dropped that says where it ends.
    """
    decoder = json.JSONDecoder()
    with path.open("r", encoding="utf-8-sig", errors="replace") as file:
        buffer = file.read(_CHUNK).lstrip()
        position, count = 1, 0  # past the opening bracket
        while True:
            position = _SEPARATORS.match(buffer, position).end()  # type: ignore[union-attr]
            if buffer.startswith("]", position):
                return
            if position < len(buffer):
                try:
                    value, end = decoder.raw_decode(buffer, position)
                    # A number or a word at the very end of the buffer may go on in the next chunk.
                    if end < len(buffer) or isinstance(value, dict | list):
                        yield value
                        count += 1
                        position = end
                        continue
                except json.JSONDecodeError:
                    pass  # incomplete so far, or broken: more text will tell
                except ValueError as error:
                    after = _end_of_value(buffer, position)
                    if after is not None:
                        where = f"{path.name} row {count + 1}"
                        yield Dropped("read", where, "number too long", str(error))
                        count += 1
                        position = after
                        continue
                except RecursionError:
                    after = _closing_bracket(buffer, position)
                    if after is not None:
                        yield _nested(f"{path.name} row {count + 1}")
                        count += 1
                        position = after
                        continue
            buffer = buffer[position:]
            position = 0
            more = file.read(max(_CHUNK, len(buffer)))  # doubling keeps re-parsing linear
            if not more or len(buffer) > MAX_LINE:
                if buffer.strip():
                    detail = f"after {count:,} whole rows the file goes on with {buffer[:80]!r}"
                else:
                    detail = f"after {count:,} whole rows the file ends without ']'"
                yield Dropped(
                    "read",
                    f"{path.name} row {count + 1}",
                    "broken or cut JSON",
                    detail,
                    scope="many",
                )
                return
            buffer += more


def _end_of_value(buffer: str, position: int) -> int | None:
    """Where an element ends whose integers Python will not read; None if it goes on."""
    try:
        return json.JSONDecoder(parse_int=str).raw_decode(buffer, position)[1]
    except (json.JSONDecodeError, RecursionError):
        return None


def _closing_bracket(buffer: str, position: int) -> int | None:
    """Where the object or array that opens at ``position`` ends; None if it goes on."""
    depth = 0
    for token in _BRACKETS.finditer(buffer, position):
        text = token[0]
        if text[0] != '"':
            depth += 1 if text in "[{" else -1
            if depth == 0:
                return token.end()
    return None


def load_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON that can be read: {error}") from error
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
