"""Replies on disk the moment they arrive: whatever dies afterwards, nothing paid for is asked again.

One line of JSON per reply, found by a digest of everything it depends on. A line that a kill cut short is
ignored, and its prompt asked again.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from heldout.model.reply import Reply


class Journal:
    """Use as a context manager; ``keep`` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._replies: dict[str, Reply] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                found = _read(line)
                if found is not None:
                    self._replies[found[0]] = found[1]

    def __enter__(self) -> Journal:
        self._file = self._path.open("ab")
        if self._file.tell() and not self._path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")  # what was cut short ends here
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None

    def __contains__(self, key: str) -> bool:
        return key in self._replies

    def reply(self, key: str) -> Reply:
        return self._replies[key]

    def keep(self, key: str, reply: Reply) -> None:
        line = json.dumps({"key": key, **asdict(reply)}, ensure_ascii=True) + "\n"
        with self._lock:
            assert self._file is not None
            self._file.write(line.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            self._replies[key] = reply


def _read(line: bytes) -> tuple[str, Reply] | None:
    try:
        found: Any = json.loads(line)
        key = found.pop("key")
        found["choice_logprobs"] = tuple(found["choice_logprobs"])
        return str(key), Reply(**found)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
