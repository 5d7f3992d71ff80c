"""JSON arrays, objects and lines: chosen rows, every byte of them as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from heldout.benchmark.readers.json_rows import bounded_lines
from heldout.benchmark.readers.text_lines import TextLines, file_encoding
from heldout.benchmark.writers.base import Part
from heldout.benchmark.writers.json_text import (
    Entries,
    elements,
    first_value,
    joined,
    load_text,
    members,
    store_text,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonWriter:
    name = "json"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[Part], target: Path) -> None:
        write_entries([(part.path, sorted(part.rows)) for part in parts], target)


class JsonLinesWriter:
    name = "jsonl"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[Part], target: Path) -> None:
        write_lines([(part.path, part.rows) for part in parts], target)


def write_entries(chosen: Sequence[tuple[Path, Sequence[int]]], target: Path) -> None:
    """Entries by number (from 1) of arrays or objects, in the frame of the first file."""
    found = [(entries_of(load_text(path)), [n - 1 for n in numbers]) for path, numbers in chosen]
    frame = found[0][0]
    store_text(target, frame.text[: frame.inside[0]] + joined(found) + frame.closing)


def entries_of(text: str) -> Entries:
    """The rows of a file as its reader counts them: elements, or members of an object of objects."""
    start = first_value(text)
    if text[start : start + 1] == "[":
        return Entries.of(text, start, list(elements(text, start)))
    found = list(members(text, start))
    lists = [one for one in found if _list_of_objects(text[one.value : one.end])]
    if len(lists) == 1:
        return Entries.of(text, lists[0].value, list(elements(text, lists[0].value)))
    return Entries.of(text, start, [(one.start, one.end) for one in found])


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
