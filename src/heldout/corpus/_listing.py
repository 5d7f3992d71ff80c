"""Files below a folder in one stable order, listed lazily: millions of names in flat memory.

A folder's entries come sorted by name, each sub-folder in its place among them. A folder that is
too large to sort in memory is sorted in runs that lie in a temporary file and are merged.
"""

from __future__ import annotations

import glob
import hashlib
import heapq
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from heldout.benchmark import split_of
from heldout.errors import blame_the_machine
from heldout.image import IMAGE_ENDINGS, ending
from heldout.remote import RemotePath, files_below, is_remote, located, number_of, remember

RUN = 20_000  # names sorted in memory at once
_CHUNK = 1 << 14  # read per run while merging

FILE, LINK, HIDDEN, UNREADABLE, SPECIAL = "file", "link", "hidden", "unreadable", "special"
RUN_FOLDER = "run folder"  # what heldout itself wrote, perhaps while this corpus is read
_MANIFEST = 1 << 16  # bytes of a manifest that are looked at


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry that is not a plain folder; ``name`` is relative to the root."""

    name: str
    kind: str
    size: int
    modified: int  # nanoseconds


def walk(root: Path) -> Iterator[FolderEntry]:
    """Every entry below ``root``. Links to folders are reported, never followed: they can loop."""
    if isinstance(root, RemotePath):
        yield from _walk_remote(root)
        return
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
                yield FolderEntry(name, HIDDEN, 0, 0)
            elif mark == "d" and is_run_folder(f"{base}/{name}"):
                yield FolderEntry(name, RUN_FOLDER, 0, 0)
            elif mark == "d":
                try:
                    levels.append(_Level(f"{base}/{name}", f"{name}/"))
                except OSError as error:
                    blame_the_machine(error)
                    yield FolderEntry(name, UNREADABLE, 0, 0)
            else:
                yield _entry(f"{base}/{name}", name, mark)
    finally:  # the caller may stop in the middle
        for level in levels:
            level.close()


def _walk_remote(root: RemotePath) -> Iterator[FolderEntry]:
    hidden = ""
    for child in files_below(root):
        if hidden and child.name.startswith(hidden):
            continue
        folders = child.name.split("/")[:-1]
        first = next((at for at, name in enumerate(folders) if name.startswith(".")), None)
        if first is not None:
            hidden = "/".join(folders[: first + 1]) + "/"
            yield FolderEntry(hidden[:-1], HIDDEN, 0, 0)
        elif child.facts is not None:
            remember(f"{root}/{child.name}", child.facts)  # opening it needs no second request
            yield FolderEntry(child.name, FILE, child.facts.size, number_of(child.facts.mark))


def is_run_folder(folder: str) -> bool:
    """True for the folder of a heldout run: it holds thumbnails of what was scanned, not a corpus."""
    if is_remote(folder):  # runs are written to disks
        return False
    try:
        path = f"{folder}/manifest.json"
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with Path(path).open("rb") as file:
            return b'"manifest_version"' in file.read(_MANIFEST)
    except OSError:
        return False


def file_key(path: Path, name: str = "") -> str:
    """A key that changes with the file's name, size or modification time."""
    try:
        facts = path.stat()
    except OSError:
        return digest(name or path.name, "missing")
    return digest(name or path.name, facts.st_size, facts.st_mtime_ns)


def digest(*facts: object) -> str:
    text = "\0".join(str(fact) for fact in facts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _entry(path: str, name: str, mark: str) -> FolderEntry:
    kind = {"f": FILE, "l": LINK}.get(mark, SPECIAL)
    try:
        facts = os.lstat(path)
    except OSError:
        return FolderEntry(name, UNREADABLE, 0, 0)
    return FolderEntry(name, kind, facts.st_size, facts.st_mtime_ns)


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
        spill.write(os.fsencode(name) + b"\0")  # the only byte that no name contains
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


# The data files of a corpus: one file, a folder of them, or a pattern like ``{000..099}.tar``.


_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


def is_pattern(location: str) -> bool:
    marked = _RANGE.search(location) or _CHOICE.search(location) or glob.has_magic(location)
    return bool(marked) and not located(location).exists()


@dataclass(slots=True)
class FileSet:
    """``endings`` say which files of a folder belong; all files of a pattern do."""

    location: str
    endings: tuple[str, ...]
    split: str | None = None  # keep only files whose path names this split

    def files(self) -> Iterator[tuple[str, Path]]:
        """(name relative to the root, path) in stable order; a range may name a missing file."""
        root = located(self.location)
        if is_pattern(self.location):
            for text in expand(self.location):
                for path in self._matches(text):
                    name = path.relative_to(self.root()).as_posix()
                    if self._belongs(name):
                        yield name, path
        elif root.is_dir():
            for entry in walk(root):
                path = root / entry.name
                if entry.kind == LINK and not path.is_file():
                    continue
                if (
                    entry.kind in (FILE, LINK)
                    and entry.name.lower().endswith(self.endings)
                    and not path.name.startswith(".")
                    and self._belongs(entry.name)
                ):
                    yield entry.name, path
        else:
            yield root.name, root

    def root(self) -> Path:
        """The folder that file names are relative to, and below which images are looked for."""
        path = located(self.location)
        if is_pattern(self.location):
            fixed = re.split(r"[{*?\[]", self.location, maxsplit=1)[0]
            return located(fixed + "x").parent
        return path if path.is_dir() else path.parent

    def _matches(self, text: str) -> list[Path]:
        if not glob.has_magic(text):
            return [located(text)]
        root = self.root()
        return sorted(root.glob(located(text).relative_to(root).as_posix()))

    def _belongs(self, name: str) -> bool:
        if self.split is None:
            return True
        return any(split_of(part) == self.split for part in Path(name).with_suffix("").parts)


def expand(pattern: str) -> Iterator[str]:
    """Bash's braces: ``{00..12}`` counts with leading zeros, ``{a,b}`` chooses."""
    if match := _RANGE.search(pattern):
        width = len(match[1]) if match[1].startswith("0") or len(match[1]) == len(match[2]) else 0
        options: Iterator[str] = (
            str(number).zfill(width) for number in range(int(match[1]), int(match[2]) + 1)
        )
    elif match := _CHOICE.search(pattern):
        options = iter(match[1].split(","))
    else:
        yield pattern
        return
    for option in options:
        yield from expand(pattern[: match.start()] + option + pattern[match.end() :])


# What a file holds, as far as its name says it and a large one is cut by it; the rest is told by its content.
PICTURE, LINES, PARQUET, TAR, ZIP, OTHER = "picture", "lines", "parquet", "tar", "zip", "other"
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_KINDS = {
    **dict.fromkeys(IMAGE_ENDINGS, PICTURE),
    **dict.fromkeys((".jsonl", ".ndjson"), LINES),
    **dict.fromkeys((".parquet", ".pq"), PARQUET),
    **dict.fromkeys((".tar", ".tgz"), TAR),
    ".zip": ZIP,
}


def kind_of(name: str) -> str:
    """What a file of this name holds, if the name says it."""
    end = ending(name)
    if end in _PACKED:
        inner = ending(name[: -len(end)])
        # Dolma and C4 call JSON Lines .json.gz.
        return {".tar": TAR, ".jsonl": LINES, ".ndjson": LINES, ".json": LINES}.get(inner, OTHER)
    return _KINDS.get(end, OTHER)
