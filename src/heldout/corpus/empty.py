"""Files that hold nothing a corpus could be made of: an error at once, not a search that finds nothing."""

from __future__ import annotations

from pathlib import Path

from heldout.benchmark import find_reader, json_line
from heldout.corpus.lines import FAILURES, Span, lines
from heldout.corpus.texts import is_lines
from heldout.errors import InputError
from heldout.store import Dropped

_LOOK = 64 << 20  # bytes without one JSON object, after which a file is not JSON Lines


def refuse_without_lines(path: Path) -> None:
    """Refuse a file of JSON Lines none of whose lines is a JSON object. Folders are not looked into."""
    if not path.is_file() or not is_lines(path.name):
        return
    seen = 0
    first: Dropped | None = None
    try:
        for number, line in lines(path, Span()):
            row = json_line(line, path, number) if line is not None else None
            if row is not None and not isinstance(row, Dropped):
                return
            first = first or row
            seen += len(line or b"")
            if seen > _LOOK:
                break
    except FAILURES:
        return  # the scan says what is damaged, and goes on with what is not
    if first is None:
        raise InputError(f"{path} holds no line: expected JSON Lines, one JSON object a line")
    raise InputError(
        f"{path}: no line is a JSON object (the first: {first.id}, {first.reason}, {first.detail}). "
        f"Expected JSON Lines, one object a line, or plain text in a file called .txt"
    )


def refuse_without_rows(path: Path) -> None:
    """Refuse a table without a row."""
    reader = find_reader(path) if path.is_file() else None
    if reader is not None and next(iter(reader.rows(path)), None) is None:
        raise InputError(f"{path} holds no row: expected a table with one row per item")
