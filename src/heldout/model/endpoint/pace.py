"""How often an endpoint is asked, and how long we wait before asking again."""

from __future__ import annotations

import email.utils
import random
import threading
import time
from dataclasses import dataclass, field

LONGEST_WAIT_SECONDS = 120.0  # whatever a server asks for: a Retry-After of a year is not a plan


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
