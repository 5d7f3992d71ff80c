"""Plain text files as items: a file is a page, and a book is many, cut where its lines end."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from heldout.corpus.lines import open_text

PAGE = 1 << 18  # characters; a longer file is several pages
_LOOK = 1 << 16  # bytes that tell the encoding
_MARKS = ("\n\n", "\n", " ")  # where a page may end, best first


class NotText(Exception):  # noqa: N818 - what a file is rather than a fault of ours
    """The file holds something else than words."""


def pages(path: Path) -> Iterator[str]:
    """The words of a text file in pieces of at most PAGE characters, none of them blank."""
    with open_text(path) as file:
        buffered = io.BufferedReader(cast(io.RawIOBase, file), _LOOK)
        text = io.TextIOWrapper(buffered, _encoding(buffered.peek()), errors="replace")
        held = ""
        while more := text.read(PAGE - len(held)):
            held += more
            if len(held) < PAGE:
                continue
            cut = _end(held)
            if page := held[:cut].strip():
                yield page
            held = held[cut:]
        if page := held.strip():
            yield page


def _end(held: str) -> int:
    """Where the page ends: after a paragraph, else a line, else a word, in its second half."""
    for mark in _MARKS:
        found = held.rfind(mark, len(held) // 2)
        if found >= 0:
            return found + len(mark)
    return len(held)


def _encoding(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start[:4096]:
        raise NotText(f"zero bytes among the first: {start[:16]!r}")
    try:
        codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # may end inside a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"
