"""Whole copies of remote files in a folder of bounded size, shared by runs and by processes.

A copy is called after its address and the mark of its content, so it is never out of date. It is written
under another name and renamed; an unfinished one is continued. When the folder is full, the copies used
longest ago go. A file that is open when it is removed stays readable.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from pathlib import Path
from typing import Any

from heldout.errors import blame_the_machine
from heldout.remote._transfer import BLOCK, fetch, fetch_whole
from heldout.remote.access import access
from heldout.remote.stores import NO_RANGES, Facts, RemoteError
from heldout.store import exclusive

_COPY, _PART = ".copy", ".part"
_WHOLE = 2 << 30  # of a server that sends no ranges, at once
_ABANDONED = 3600.0  # seconds without a new byte, after which an unfinished copy may go


class CopyFile(io.FileIO):
    """A copy opened for reading. Arrow's readers do not close the files they are given."""

    def _dealloc_warn(self, source: object) -> None:
        self.close()


def is_on() -> bool:
    return access().cache is not None


def copy_of(address: str, facts: Facts) -> Any:
    """The file, opened, from its copy, which is made now if there is none; None without a cache folder, and
    for a file that is larger than it."""
    chosen = access()
    if chosen.cache is None or facts.size > chosen.cache_bytes:
        return None
    folder = Path(chosen.cache)
    name = hashlib.sha256(f"{address}\0{facts.size}\0{facts.mark}".encode()).hexdigest()[:40]
    copy = folder / f"{name}{_COPY}"
    for _ in range(2):  # another process may remove it before it is opened
        if not copy.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder / f".{name[:3]}.lock"):
                if not copy.exists():
                    _make_room(folder, chosen.cache_bytes - facts.size, keep=name)
                    _download(address, facts, folder / f"{name}{_PART}", copy)
        with contextlib.suppress(FileNotFoundError):
            os.utime(copy)  # used now
            return io.BufferedReader(CopyFile(copy))
    return None


def _download(address: str, facts: Facts, part: Path, copy: Path) -> None:
    try:
        with part.open("ab") as file:
            done = file.seek(0, os.SEEK_END)
            if done > facts.size:
                done = file.truncate(0)
            while done < facts.size:
                try:
                    data = fetch(address, done, min(done + BLOCK, facts.size), facts)
                except RemoteError as error:
                    if error.reason != NO_RANGES:
                        raise
                    file.truncate(0)
                    data = fetch_whole(address, min(_WHOLE, facts.size))
                    done = 0
                file.write(data)
                done += len(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        blame_the_machine(error)
        raise
    part.replace(copy)


def _make_room(folder: Path, left: int, keep: str) -> None:
    """Remove the copies used longest ago until what remains fits into ``left`` bytes."""
    with exclusive(folder / ".room.lock"):
        held: list[tuple[float, int, Path]] = []
        for entry in os.scandir(folder):
            if entry.name.endswith((_COPY, _PART)) and not entry.name.startswith(keep):
                with contextlib.suppress(FileNotFoundError):
                    facts = entry.stat()
                    held.append((facts.st_mtime, facts.st_size, Path(entry.path)))
        total = sum(size for _, size, _ in held)
        for used, size, path in sorted(held):
            if total <= left:
                return
            if path.suffix == _PART and used > time.time() - _ABANDONED:
                continue  # another process writes it
            path.unlink(missing_ok=True)
            total -= size
