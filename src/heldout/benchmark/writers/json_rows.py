"""JSON arrays, objects and lines: chosen rows, every byte of them as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import FileRow, TextLines, file_encoding, head, text_encoding
from heldout.benchmark.readers.json_rows import (
    JsonLinesReader,
    bounded_lines,
    end_of_value,
    load_object,
    numbered,
    stream_array,
)
from heldout.benchmark.readers.llava import turns
from heldout.benchmark.readers.pipes import PathVqaReader
from heldout.benchmark.writers.base import FilePart
from heldout.store import Dropped

# JSON as text with spans, so that entries are taken out and the rest stays as it was written.


# Integers stay text: Python refuses to read very long ones, and only spans are wanted here.
_DECODER = json.JSONDecoder(parse_int=str)
_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_DEFAULT_GAP = ", "

Span = tuple[int, int]


def load_text(path: Path) -> str:
    """The text of a file; bytes that are not UTF-8 survive being written again, UTF-16 becomes UTF-8."""
    with path.open("rb") as file:  # of an address by ranges, however long
        data = file.read()
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
            end = end_of_value(text, position)  # the reader drops and counts it
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
    for entries, numbers in parts:
        for index in numbers:
            start, stop = entries.spans[index]
            if pieces:
                before = entries.spans[index - 1][1] if index else None
                pieces.append(entries.gap if before is None else entries.text[before:start])
            pieces.append(entries.text[start:stop])
    return lead + "".join(pieces) + tail


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonWriter:
    name = "json"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        write_entries([(part.path, sorted(part.rows)) for part in parts], target)


class JsonLinesWriter:
    name = "jsonl"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        write_lines([(part.path, part.rows) for part in parts], target)


def write_entries(chosen: Sequence[tuple[Path, Sequence[int]]], target: Path) -> None:
    """Entries by number (from 1) of arrays or objects, in the frame of the first file."""
    parts = [(entries_of(load_text(path)), [n - 1 for n in numbers]) for path, numbers in chosen]
    frame = parts[0][0]
    store_text(target, frame.text[: frame.inside[0]] + joined(parts) + frame.closing)


def entries_without(path: Path, gone: Collection[int], target: Path) -> None:
    """A file without some entries, by number from 1; what nobody can read stays."""
    count = len(entries_of(load_text(path)).spans)
    write_entries([(path, [n for n in range(1, count + 1) if n not in gone])], target)


def entries_of(text: str) -> Entries:
    """The rows of a file as its reader counts them: elements, or members of an object of objects."""
    start = first_value(text)
    if text[start : start + 1] == "[":
        return Entries.of(text, start, list(elements(text, start)))
    entries = list(members(text, start))
    lists = [member for member in entries if _list_of_objects(text[member.value : member.end])]
    if len(lists) == 1:
        return Entries.of(text, lists[0].value, list(elements(text, lists[0].value)))
    return Entries.of(text, start, [(member.start, member.end) for member in entries])


def write_lines(chosen: Sequence[tuple[Path, frozenset[int]]], target: Path) -> None:
    """Lines by number (from 1), each ended as it was; a last line without an end gets one.

    UTF-16 becomes UTF-8.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        open_line = False
        for path, numbers in chosen:
            if not out.tell() and file_encoding(path) == ("utf-8", len(_BYTE_ORDER_MARK)):
                out.write(_BYTE_ORDER_MARK)
            with TextLines(path) as lines:
                for number, line in enumerate(bounded_lines(lines), 1):
                    if number not in numbers or line is None:
                        continue
                    if open_line:
                        out.write(b"\n")
                    out.write(line)
                    open_line = not line.endswith(b"\n")


def _list_of_objects(text: str) -> bool:
    if not text.startswith("["):
        return False
    value = json.loads(text, parse_int=str)
    return bool(value) and isinstance(value[0], dict)


# LLaVA conversations are kept or removed whole, since later turns depend on earlier ones.


class LlavaWriter:
    name = "llava"

    def units(self, path: Path) -> Mapping[int, int]:
        items = (
            numbered(path, stream_array(path)) if _is_array(path) else JsonLinesReader().rows(path)
        )
        units: dict[int, int] = {}
        for item in items:
            if isinstance(item, FileRow):
                for turn in turns(item, ""):
                    if isinstance(turn, dict):
                        units[len(units) + 1] = item.number
        return units

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        chosen = []
        for part in parts:
            units = self.units(part.path)
            chosen.append((part.path, sorted({units[row] for row in part.rows})))
        if _is_array(parts[0].path):
            write_entries(chosen, target)
        else:
            write_lines([(path, frozenset(numbers)) for path, numbers in chosen], target)


def _is_array(path: Path) -> bool:
    return head(path).lstrip()[:1] == b"["


# PathVQA's official files: an image with all its questions is one entry, kept or removed whole.


class PathVqaWriter:
    name = "pathvqa"

    def units(self, path: Path) -> Mapping[int, int]:
        rows = (row for row in PathVqaReader().rows(path) if isinstance(row, FileRow))
        units: dict[int, int] = {}
        for position, entry in enumerate(stream_array(path), 1):
            for _ in range(_questions(entry)):
                units[next(rows).number] = position
        return units

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        chosen = []
        for part in parts:
            units = self.units(part.path)
            chosen.append((part.path, sorted({units[row] for row in part.rows})))
        write_entries(chosen, target)


def _questions(entry: object) -> int:
    """How many rows the reader makes of an entry; none of one it drops."""
    if isinstance(entry, Dropped) or not isinstance(entry, dict) or "img_id" not in entry:
        return 0
    try:
        questions, answers = entry["sentf"]["pvqa"], entry["labelf"]["pvqa"]
    except (KeyError, TypeError):
        return 0
    return len(questions) if len(questions) == len(answers) else 0


# COCO captions: chosen captions with their images; licences and everything else as it was.


class CocoWriter:
    name = "coco"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        images: list[tuple[Entries, list[int]]] = []
        captions: list[tuple[Entries, list[int]]] = []
        taken: set[str] = set()
        for part in parts:
            chosen = _Chosen.of(part)
            text = load_text(part.path)
            lists = {member.key: member.value for member in members(text, first_value(text))}
            shown = [i for i, image in chosen.images if image not in taken]
            taken |= {image for _, image in chosen.images}
            images.append((_entries(text, lists["images"]), shown))
            if "annotations" in lists:
                captions.append((_entries(text, lists["annotations"]), chosen.captions))
        text = images[0][0].text
        edits = [(images[0][0].inside, joined(images))]
        if captions:
            edits.append((captions[0][0].inside, joined(captions)))
        for (begin, end), inside in sorted(edits, reverse=True):
            text = text[:begin] + inside + text[end:]
        store_text(target, text)


def _entries(text: str, start: int) -> Entries:
    return Entries.of(text, start, list(elements(text, start)))


@dataclass(frozen=True)
class _Chosen:
    captions: list[int]  # positions from 0
    images: list[tuple[int, str]]  # positions and ids

    @classmethod
    def of(cls, part: FilePart) -> _Chosen:
        """Rows are counted as the reader does: good captions first, then images without any."""
        content = load_object(part.path)
        places: dict[str, int] = {}
        for position, image in enumerate(content["images"]):
            if _is_image(image):
                places[str(image["id"])] = position
        captions: list[int] = []
        used: set[str] = set()
        described: set[str] = set()
        number = 0
        for position, note in enumerate(content.get("annotations", [])):
            if not isinstance(note, dict) or not isinstance(note.get("caption"), str):
                continue
            image = str(note.get("image_id"))
            if image not in places:
                continue
            described.add(image)
            number += 1
            if number in part.rows:
                captions.append(position)
                used.add(image)
        for image in places:
            if image not in described:
                number += 1
                if number in part.rows:
                    used.add(image)
        return cls(captions, [(places[place], place) for place in places if place in used])


def _is_image(image: Any) -> bool:
    return isinstance(image, dict) and "id" in image and isinstance(image.get("file_name"), str)
