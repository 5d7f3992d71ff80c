"""What a benchmark reader is: it recognises a file by looking inside, and yields flat rows.

A reader knows one file format and nothing about questions or answers: it turns the format into
rows (``{"question": …, "image": …}``) one at a time. ``FieldMap`` turns rows into Examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from heldout.benchmark.readers.text_lines import text_encoding
from heldout.store import Dropped


@dataclass(frozen=True, slots=True)
class FileRow:
    """``number`` counts as a person would, from 1; images are ImageRefs, bytes, paths or data URLs."""

    number: int
    values: dict[str, Any]


class Reader(Protocol):
    name: str
    #: file endings that are worth looking into; "" stands for a folder
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
