"""Bytes of remote files: by ranges, retried within bounds, checked to be of one and the same file.

A fault in the middle of a file costs the range that was under way, nothing before it. Faults that stay
become a RemoteError with a reason; what was read until then counts.
"""

from __future__ import annotations

import functools
import io
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, TypeVar

from heldout.errors import HeldoutError, PrerequisiteError, blame_the_machine
from heldout.remote.access import WEB, harmless
from heldout.remote.stores import (
    CHANGED,
    LOST,
    REFUSED,
    Facts,
    RemoteError,
    open_store,
    renew_stores,
)

TRIES = 7
FIRST_WAIT = 0.2  # seconds; it doubles, and varies so that workers do not keep step
_PAUSE, _TRIES_AFTER = 60.0, 2  # seconds after a loss during which a host is tried less often
_lost: dict[str, float] = {}  # when which host was given up
_REFUSALS = 2  # the second time with credentials read anew
_MISTAKES = (
    HeldoutError,
    TypeError,
    AttributeError,
    NameError,
    AssertionError,
    NotImplementedError,
)

BLOCK = 8 << 20  # bytes of one request at most
_FIRST = 256 << 10  # read ahead at first; doubles while a file is read in order
_LEAST = 16 << 10
_HELD = 16 << 20  # bytes of one file in memory
_FILES = 4  # files whose bytes are in memory

Value = TypeVar("Value")


def split(address: str) -> tuple[str, str]:
    """Scheme and place: what a store calls the file."""
    scheme, _, place = address.partition("://")
    return scheme, place


def persist(address: str, action: Callable[[], Value]) -> Value:
    """What ``action`` returns, tried again while its fault may pass.

    Raises:
        FileNotFoundError: There is no such file.
        RemoteError: The fault stays.
    """
    refusals = 0
    problem = ""
    root = "/".join(address.split("/", 3)[:3])  # a host, a bucket
    tries = TRIES if time.monotonic() - _lost.get(root, -_PAUSE) >= _PAUSE else _TRIES_AFTER
    for attempt in range(tries):
        if attempt:
            wait = FIRST_WAIT * 2 ** (attempt - 1)
            time.sleep(wait * random.uniform(0.5, 1.5))
        try:
            value = action()
            _lost.pop(root, None)
            return value
        except (FileNotFoundError, RemoteError, *_MISTAKES):
            raise
        except ImportError as error:  # a backend's own package: trying again installs nothing
            raise PrerequisiteError(
                f"{address} needs the package '{error.name or error}', which is not installed. "
                f"Install it with: pip install 'heldout[remote]'"
            ) from error
        except Exception as error:
            blame_the_machine(error)
            problem = harmless(f"{type(error).__name__}: {error}")
            if isinstance(error, PermissionError) or _status(error) in (401, 403):
                if isinstance(error, PermissionError):
                    problem = harmless(error.strerror or str(error))
                refusals += 1
                if refusals == _REFUSALS or split(address)[0] in WEB:
                    detail = f"{problem}; are the credentials expired or missing?"
                    raise RemoteError(REFUSED, detail, address) from None
                renew_stores()
            elif _status(error) in (404, 410) or type(error).__name__ in _MISSING:
                raise FileNotFoundError(2, "there is no such file", address) from None
    _lost[root] = time.monotonic()
    raise RemoteError(LOST, f"{tries} tries, the last: {problem}", address)


_MISSING = ("RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError")


def _status(error: Exception) -> int | None:
    reply = getattr(error, "response", None)
    status = getattr(reply, "status_code", None) or getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def facts_of(address: str) -> Facts | None:
    """Size and mark of a file; None if there is none."""
    scheme, place = split(address)
    return persist(address, lambda: open_store(scheme).facts(place))


def fetch(address: str, start: int, end: int, facts: Facts) -> bytes:
    """Bytes ``start`` to ``end`` of the file that has these ``facts``."""
    scheme, place = split(address)

    def get() -> bytes:
        data, mark = open_store(scheme).get(place, start, end)
        if (
            mark is None and end >= facts.size
        ):  # the store does not say: ask once, at the file's end
            now = open_store(scheme).facts(place)
            mark = now.mark if now is not None else "gone"
        if mark is not None and facts.mark and mark != facts.mark:
            raise RemoteError(CHANGED, "another file has taken its place since", address)
        if len(data) != end - start:
            raise OSError(f"{len(data):,} of {end - start:,} bytes came")
        return data

    try:
        return persist(address, get)
    except FileNotFoundError:
        raise RemoteError(CHANGED, "it was removed while it was read", address) from None


def fetch_whole(address: str, limit: int) -> bytes:
    """A whole file of up to ``limit`` bytes; of a longer one, more than ``limit``."""
    scheme, place = split(address)
    return persist(address, lambda: open_store(scheme).whole(place, limit))


class RangeReader:
    """One file by ranges. Those read last stay in memory: a tar's reader and the pictures in it meet here."""

    def __init__(self, address: str, facts: Facts) -> None:
        self.address, self.facts = address, facts
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._next = 0  # where the last request ended
        self._step = _FIRST
        self._lock = threading.Lock()

    def read(self, start: int, length: int, *, ahead: bool) -> bytes:
        """Up to ``length`` bytes, fewer only at the end of the file. ``ahead``: the next ones, too, are
        probably wanted."""
        end = min(start + length, self.facts.size)
        with self._lock:
            parts: list[bytes] = []
            while start < end:
                part = self._held(start, end) or self._fetched(start, end, ahead)
                parts.append(part)
                start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _held(self, start: int, end: int) -> bytes:
        for first, data in self._pieces:
            if first <= start < first + len(data):
                return data[start - first : end - first]
        return b""

    def _fetched(self, start: int, end: int, ahead: bool) -> bytes:
        if not ahead:
            step = _LEAST
        elif self._next <= start <= self._next + self._step:  # in order, perhaps with gaps
            step = self._step = min(2 * self._step, BLOCK)
        else:
            step = self._step = _FIRST
        stop = min(max(end, start + step), start + BLOCK, self.facts.size)
        data = fetch(self.address, start, stop, self.facts)
        self._next = stop
        self._pieces.append((start, data))
        while len(self._pieces) > 1 and sum(len(piece) for _, piece in self._pieces) > _HELD:
            self._pieces.popleft()
        return data[: end - start]


_readers: OrderedDict[str, RangeReader] = OrderedDict()
_readers_lock = threading.Lock()


def range_reader(address: str, facts: Facts) -> RangeReader:
    with _readers_lock:
        reader = _readers.get(address)
        if reader is None or reader.facts != facts:
            reader = _readers[address] = RangeReader(address, facts)
        _readers.move_to_end(address)
        while len(_readers) > _FILES:
            _readers.popitem(last=False)
        return reader


def forget_bytes() -> None:
    with _readers_lock:
        _readers.clear()


class RemoteFile(io.RawIOBase):
    """A remote file opened for reading; ``ahead`` while it is read in order."""

    def __init__(self, address: str, facts: Facts, *, ahead: bool = True) -> None:
        super().__init__()
        self._read = functools.partial(range_reader(address, facts).read, ahead=ahead)
        self._size = facts.size
        self._position = 0
        self.name = address

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(22, "a position before the file's start", self.name)
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
