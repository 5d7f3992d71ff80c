"""JSON as text with spans, so that entries are taken out and the rest stays as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark.readers.json_rows import end_of_value
from heldout.benchmark.readers.text_lines import text_encoding

# Integers stay text: Python refuses to read very long ones, and only spans are wanted here.
_DECODER = json.JSONDecoder(parse_int=str)
_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_DEFAULT_GAP = ", "

Span = tuple[int, int]


def load_text(path: Path) -> str:
    """The text of a file; bytes that are not UTF-8 survive being written again, UTF-16 becomes UTF-8."""
    data = path.read_bytes()
    encoding, mark = text_encoding(data[:4])
    if encoding == "utf-8":
        return data.decode("utf-8", "surrogateescape")
    return data[mark:].decode(encoding, "replace")


def store_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def first_value(text: str) -> int:
    """Where the document's value begins: after a byte order mark and white space."""
    start = 1 if text.startswith("\ufeff") else 0
    return _SPACE.match(text, start).end()  # type: ignore[union-attr]


def elements(text: str, start: int) -> Iterator[Span]:
    """Spans of the elements of the array at ``start``; a cut file ends where it is cut."""
    position = start + 1
    while True:
        position = _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]
        if position >= len(text) or text[position] == "]":
            return
        end: int | None
        try:
            _, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = end_of_value(text, position)  # the reader drops it, and counts it
            if end is None:
                return
        yield position, end
        position = end


@dataclass(frozen=True)
class Member:
    key: str
    start: int  # of the key
    value: int
    end: int


def members(text: str, start: int) -> Iterator[Member]:
    """Members of the object at ``start``."""
    position = start + 1
    while True:
        position = _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]
        if position >= len(text) or text[position] == "}":
            return
        try:
            key, end = _DECODER.raw_decode(text, position)
            colon = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            value = _SPACE.match(text, colon + 1).end()  # type: ignore[union-attr]
            _, end = _DECODER.raw_decode(text, value)
        except (ValueError, RecursionError):
            return
        yield Member(str(key), position, value, end)
        position = end


@dataclass(frozen=True)
class Entries:
    """The entries of one container (an array, or an object's members) inside a text."""

    text: str
    spans: tuple[Span, ...]
    inside: Span  # from behind the opening bracket to the closing one

    @classmethod
    def of(cls, text: str, start: int, spans: Sequence[Span]) -> Entries:
        after = _SPACE.match(text, spans[-1][1] if spans else start + 1).end()  # type: ignore[union-attr]
        return cls(text, tuple(spans), (start + 1, after))

    @property
    def closing(self) -> str:
        """The rest of the file; of one that was cut, just the bracket that is missing."""
        end = _SEPARATORS.match(self.text, self.inside[1]).end()  # type: ignore[union-attr]
        if self.text[end : end + 1] in ("]", "}"):
            return self.text[end:]
        return "]" if self.text[self.inside[0] - 1] == "[" else "}"

    @property
    def gap(self) -> str:
        """What stands between two entries in this file."""
        if len(self.spans) < 2:
            return _DEFAULT_GAP
        return self.text[self.spans[0][1] : self.spans[1][0]]


def joined(parts: Sequence[tuple[Entries, Sequence[int]]]) -> str:
    """The inside of a container: chosen entries (counted from 0) of several, in the first's style."""
    frame = parts[0][0]
    begin, end = frame.inside
    lead = frame.text[begin : frame.spans[0][0]] if frame.spans else ""
    tail = frame.text[frame.spans[-1][1] : end] if frame.spans else ""
    pieces: list[str] = []
    for entries, chosen in parts:
        for index in chosen:
            start, stop = entries.spans[index]
            if pieces:
                before = entries.spans[index - 1][1] if index else None
                pieces.append(entries.gap if before is None else entries.text[before:start])
            pieces.append(entries.text[start:stop])
    return lead + "".join(pieces) + tail
