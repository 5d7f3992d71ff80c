"""Replies on disk the moment they arrive: whatever dies afterwards, nothing paid for is asked again.

One line of JSON per reply, found by a digest of everything it depends on. A line that a kill cut short is
ignored, and its prompt asked again. In memory there is only where each line starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from heldout.model.reply import Reply


class Journal:
    """Use as a context manager; ``keep`` and ``reply`` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._starts: dict[bytes, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            start = 0
            with path.open("rb") as lines:
                for line in lines:
                    found = _read(line)
                    if found is not None:
                        self._starts[_short(found[0])] = start
                    start += len(line)

    def __enter__(self) -> Journal:
        self._file = self._path.open("a+b")
        end = self._file.seek(0, os.SEEK_END)
        if end:
            self._file.seek(end - 1)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")  # what was cut short ends here
                self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None

    def __contains__(self, key: str) -> bool:
        return _short(key) in self._starts

    def __len__(self) -> int:
        return len(self._starts)

    def reply(self, key: str) -> Reply:
        """The reply that was kept; inside the context manager without opening the file again."""
        start = self._starts[_short(key)]
        with self._lock:
            if self._file is not None:
                line = _line(self._file, start)
            else:
                with self._path.open("rb") as file:
                    line = _line(file, start)
        found = _read(line)
        if found is None or found[0] != key:
            raise OSError(f"{self._path} was changed while it was in use, at byte {start:,}")
        return found[1]

    def keep(self, key: str, reply: Reply) -> None:
        line = json.dumps({"key": key, **asdict(reply)}, ensure_ascii=True) + "\n"
        with self._lock:
            assert self._file is not None
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(line.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            self._starts[_short(key)] = start


def _short(key: str) -> bytes:
    """Sixteen bytes of a key: the index of a long journal is mostly keys."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _line(file: IO[bytes], start: int) -> bytes:
    file.seek(start)
    return file.readline()


def _read(line: bytes) -> tuple[str, Reply] | None:
    try:
        found: Any = json.loads(line)
        key = found.pop("key")
        found["choice_logprobs"] = tuple(found["choice_logprobs"])
        return str(key), Reply(**found)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
