"""Files below a remote folder, listed once per opening: page by page into a file, in flat memory.

Every pass over a corpus reads that file, so all of them see one state of the store. A listing that was
killed goes on behind the last name it wrote (of stores that list what is below a folder in order: S3), if
that was less than a day ago.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from heldout.remote._transfer import persist, split
from heldout.remote.access import is_remote
from heldout.remote.path import RemotePath, forget
from heldout.remote.stores import Child, Facts, open_store

_CONTINUED = 24 * 3600.0  # seconds; an older beginning is not worth continuing
_COMPLETE = b"null\n"
_CHUNK = 1 << 20


def cache_folder() -> Path:
    """This machine's folder for what can be made again: ``$HELDOUT_CACHE``, else ``~/.cache/heldout``."""
    own = os.environ.get("HELDOUT_CACHE")
    general = os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own)
    return (Path(general) if general else Path.home() / ".cache") / "heldout"


def files_below(root: RemotePath) -> Iterator[Child]:
    """Every file below ``root`` in one stable order: that of ``walk`` over the same folder on disk."""
    address = str(root)
    if address not in _snapshots:
        _snapshots[address] = Snapshot(address)
    return iter(_snapshots[address])


def refresh(location: str) -> None:
    """Look at what is there anew from now on: listings, sizes and marks. Of an address; else nothing is done."""
    if not is_remote(location):
        return
    forget()
    _close(location)


def _close(location: str = "") -> None:
    for address in [address for address in _snapshots if address.startswith(location)]:
        _snapshots.pop(address).close()


class Snapshot:
    """The listing of one folder, in a file that grows as far as somebody has read it."""

    def __init__(self, address: str) -> None:
        self.scheme, self.place = split(address)
        self.address = address
        self.complete = False
        self.last = ""
        self._store = open_store(self.scheme)
        self._folders: Iterator[list[Child]] | None = None
        self._lock = threading.Lock()
        folder = cache_folder() / "listings"
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(address.encode()).hexdigest()[:32]
        self._held: IO[Any] = (folder / f".{name}.lock").open("a")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path = folder / f"{name}.jsonl"
            self._continue()
        except BlockingIOError:  # another process lists the same folder
            self.path = folder / f"{name}.{os.getpid()}.jsonl"
            self.path.write_bytes(b"")

    def _continue(self) -> None:
        """Go on behind the last whole line of a listing that was killed."""
        usable = 0
        young = self.path.exists() and self.path.stat().st_mtime > time.time() - _CONTINUED
        if self._store.flat and young:
            with self.path.open("rb") as file:
                for line in file:
                    if line == _COMPLETE:  # that run is over: look again
                        usable, self.last = 0, ""
                        break
                    if line.endswith(b"\n"):
                        usable += len(line)
                        self.last = json.loads(line)[0]
        with self.path.open("ab") as file:
            file.truncate(usable)

    def __iter__(self) -> Iterator[Child]:
        offset = 0
        while True:
            with self.path.open("rb") as file:
                file.seek(offset)
                lines = file.readlines(_CHUNK)
            for line in lines:
                if line != _COMPLETE:
                    name, size, mark = json.loads(line)
                    yield Child(name, Facts(size, mark))
            offset += sum(map(len, lines))
            if not lines:
                if self.complete:
                    return
                self._extend(offset)

    def _extend(self, offset: int) -> None:
        with self._lock:
            if self.complete or self.path.stat().st_size > offset:
                return  # another reader was faster
            children, more = self._page()
            lines = [_line(child) for child in children if not child.name.endswith("/")]
            if not more:
                lines.append(_COMPLETE)
            with self.path.open("ab") as file:
                file.write(b"".join(lines))
            if children:
                self.last = children[-1].name
            self.complete = not more

    def _page(self) -> tuple[list[Child], bool]:
        if self._store.flat:
            return persist(self.address, lambda: self._store.page(self.place, self.last))
        if self._folders is None:
            self._folders = _folder_by_folder(RemotePath(self.address), "")
        page = next(self._folders, None)
        return (page, True) if page is not None else ([], False)

    def close(self) -> None:
        if self.complete or self.path.suffixes[0] != ".jsonl":
            self.path.unlink(missing_ok=True)
        self._held.close()


_snapshots: dict[str, Snapshot] = {}
atexit.register(_close)


def _line(child: Child) -> bytes:
    assert child.facts is not None
    return json.dumps([child.name, *child.facts]).encode() + b"\n"


def _folder_by_folder(folder: RemotePath, prefix: str) -> Iterator[list[Child]]:
    """One page per folder's run of files; memory is that of the largest folder."""
    page: list[Child] = []
    for child in sorted(folder.children(), key=lambda child: f"{child.name}/"):
        if child.facts is not None:
            page.append(Child(prefix + child.name, child.facts))
            continue
        yield page
        page = []
        yield from _folder_by_folder(folder / child.name, f"{prefix}{child.name}/")
    yield page
