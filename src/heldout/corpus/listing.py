"""Files below a folder in one stable order, listed lazily: millions of names in flat memory.

A folder's entries come sorted by name, each sub-folder in its place among them. A folder that is
too large to sort in memory is sorted in runs that lie in a temporary file and are merged.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from heldout.errors import blame_the_machine

RUN = 20_000  # names sorted in memory at once
_CHUNK = 1 << 14  # read per run while merging

FILE, LINK, HIDDEN, UNREADABLE, SPECIAL = "file", "link", "hidden", "unreadable", "special"
RUN_FOLDER = "run folder"  # what heldout itself wrote, perhaps while this corpus is read
_MANIFEST = 1 << 16  # bytes of a manifest that are looked at


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that is not a plain folder; ``name`` is relative to the root."""

    name: str
    kind: str
    size: int
    modified: int  # nanoseconds


def walk(root: Path) -> Iterator[Entry]:
    """Every entry below ``root``. Links to folders are reported, never followed: they can loop."""
    base = os.fspath(root)
    levels = [_Level(base, "")]
    try:
        while levels:
            marked = next(levels[-1].names, None)
            if marked is None:
                levels.pop().close()
                continue
            mark, name = marked[-1], levels[-1].prefix + marked[:-2]
            if mark == "d" and marked.startswith("."):
                yield Entry(name, HIDDEN, 0, 0)
            elif mark == "d" and is_run_folder(f"{base}/{name}"):
                yield Entry(name, RUN_FOLDER, 0, 0)
            elif mark == "d":
                try:
                    levels.append(_Level(f"{base}/{name}", f"{name}/"))
                except OSError as error:
                    blame_the_machine(error)
                    yield Entry(name, UNREADABLE, 0, 0)
            else:
                yield _entry(f"{base}/{name}", name, mark)
    finally:  # the caller may stop in the middle
        for level in levels:
            level.close()


def is_run_folder(folder: str) -> bool:
    """True for the folder of a heldout run: it holds thumbnails of what was scanned, not a corpus."""
    try:
        path = f"{folder}/manifest.json"
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with Path(path).open("rb") as file:
            return b'"manifest_version"' in file.read(_MANIFEST)
    except OSError:
        return False


def file_key(path: Path, name: str = "") -> str:
    """Changes when the file is another one: its name, size or modification time."""
    try:
        facts = path.stat()
    except OSError:
        return digest(name or path.name, "missing")
    return digest(name or path.name, facts.st_size, facts.st_mtime_ns)


def digest(*facts: object) -> str:
    text = "\0".join(str(fact) for fact in facts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _entry(path: str, name: str, mark: str) -> Entry:
    kind = {"f": FILE, "l": LINK}.get(mark, SPECIAL)
    try:
        facts = os.lstat(path)
    except OSError:
        return Entry(name, UNREADABLE, 0, 0)
    return Entry(name, kind, facts.st_size, facts.st_mtime_ns)


class _Level:
    """One folder on the way down: ``name + "/" + mark`` of its entries, sorted."""

    def __init__(self, folder: str, prefix: str) -> None:
        self.prefix = prefix
        self.spill: IO[bytes] | None = None
        spans: list[tuple[int, int]] = []
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(f"{entry.name}/{_mark(entry)}")
                if len(names) == RUN:
                    if self.spill is None:
                        self.spill = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the level
                    names.sort()
                    spans.append(_write_run(self.spill, names))
                    names = []
        names.sort()
        self.names: Iterator[str] = iter(names)
        if self.spill is not None:
            handle = self.spill.fileno()
            runs = [_read_run(handle, start, end) for start, end in spans]
            self.names = heapq.merge(*runs, names)

    def close(self) -> None:
        if self.spill is not None:
            self.spill.close()


def _mark(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "l"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "f" if entry.is_file(follow_symlinks=False) else "s"


def _write_run(spill: IO[bytes], names: list[str]) -> tuple[int, int]:
    start = spill.tell()
    for name in names:
        spill.write(os.fsencode(name) + b"\0")  # the one byte no name contains
    spill.flush()
    return start, spill.tell()


def _read_run(handle: int, start: int, end: int) -> Iterator[str]:
    rest = b""
    while start < end:
        chunk = os.pread(handle, min(_CHUNK, end - start), start)
        if not chunk:
            return
        start += len(chunk)
        *whole, rest = (rest + chunk).split(b"\0")
        for name in whole:
            yield os.fsdecode(name)
