"""How often an endpoint is asked, and how long we wait before asking again."""

from __future__ import annotations

import contextlib
import email.utils
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LONGEST_WAIT_SECONDS = 120.0  # whatever a server asks for: a Retry-After of a year is not a plan
_MINUTE = 60.0
_SHORTEST = 0.02  # seconds between two looks at the budget


@dataclass
class Pace:
    """At most ``per_second`` requests a second over all threads; None is as fast as they come."""

    per_second: float | None = None
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self) -> None:
        if self.per_second is None:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 1.0 / self.per_second
        if start > now:
            time.sleep(start - now)


@dataclass
class TokenPace:
    """At most ``per_minute`` tokens in any 60 seconds over all threads, prompts and replies together; None
    is no limit. A request is counted with what it is expected to cost while it is under way, and with
    what it did cost for a minute after its reply. A request that alone costs more than the budget goes
    when nothing else is counted."""

    per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _window: list[_Spent] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def request(self, expected: int) -> Iterator[_Spent]:
        """Wait for room; the caller sets ``tokens`` of what is given to the real cost."""
        if self.per_minute is None:
            yield _Spent(expected)
            return
        spent = _Spent(expected)
        while (seconds := self._admit(spent)) > 0:
            self.sleep(seconds)
        try:
            yield spent
        finally:
            with self._lock:
                spent.ended = self.clock()

    def _admit(self, spent: _Spent) -> float:
        """Seconds to wait before asking again; 0: counted from now on."""
        assert self.per_minute is not None
        with self._lock:
            now = self.clock()
            self._window = [
                spent
                for spent in self._window
                if spent.ended is None or spent.ended > now - _MINUTE
            ]
            counted = sum(spent.tokens for spent in self._window)
            if not self._window or counted + spent.tokens <= self.per_minute:
                self._window.append(spent)
                return 0.0
            leaving = [
                spent.ended + _MINUTE - now for spent in self._window if spent.ended is not None
            ]
            return max(_SHORTEST, min([*leaving, 1.0]))


@dataclass(eq=False)
class _Spent:
    tokens: int
    ended: float | None = None


@dataclass(frozen=True)
class Backoff:
    """Doubling waits with jitter, so that threads that failed together do not return together."""

    attempts: int = 6
    first_seconds: float = 0.5
    most_seconds: float = 30.0

    def seconds(self, attempt: int, retry_after: str | None = None) -> float:
        """Before the next attempt, when ``attempt`` (from 0) failed; the server's wish comes first."""
        wished = retry_after_seconds(retry_after)
        doubled = min(self.most_seconds, self.first_seconds * 2**attempt)
        waited = doubled * random.uniform(0.5, 1.0) if wished is None else wished
        return min(LONGEST_WAIT_SECONDS, waited)


def retry_after_seconds(text: str | None) -> float | None:
    """``Retry-After`` as seconds or as a date; None where there is none, or nonsense."""
    if not text:
        return None
    try:
        return max(0.0, float(text)) if text.strip().isdigit() else _until(text)
    except (TypeError, ValueError, OverflowError):
        return None


def _until(date: str) -> float:
    return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
