"""Requests to an untrusted endpoint: limits on size and time, retries, and no key in any text."""

from __future__ import annotations

import contextlib
import email.utils
import json
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from heldout.errors import HeldoutError, InputError, counted
from heldout.image import ImageError
from heldout.model.endpoint._client import Answer, Client, Secret, TransportError, UnusableError

# How often an endpoint is asked, and how long we wait before asking again.


_MOST_VALUES = 4_000_000  # of one answer: each takes up to a hundred bytes when it is read
LONGEST_WAIT_SECONDS = 120.0  # at most, whatever Retry-After says
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
        """Wait for room in the budget; the caller sets ``tokens`` of the result to the real cost."""
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
        """Seconds before the next attempt, after ``attempt`` (from 0) failed; the server's Retry-After comes
        first."""
        wished = retry_after_seconds(retry_after)
        doubled = min(self.most_seconds, self.first_seconds * 2**attempt)
        waited = doubled * random.uniform(0.5, 1.0) if wished is None else wished
        return min(LONGEST_WAIT_SECONDS, waited)


def retry_after_seconds(text: str | None) -> float | None:
    """``Retry-After`` as seconds or as a date; None if it is missing or invalid."""
    if not text:
        return None
    try:
        return max(0.0, float(text)) if text.strip().isdigit() else _until(text)
    except (TypeError, ValueError, OverflowError):
        return None


def _until(date: str) -> float:
    return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())


MODELS = "/models"
_JSON = "application/json"
_ROUTES = re.compile(r"/(?:chat/completions|completions|models|images/edits)$")
_TOO_MANY = 429
_AGAIN = {408, 425, _TOO_MANY, 500, 502, 503, 504}
_LOOK_SECONDS = 0.5  # a signal that another thread received is seen no later than that
_LAST_SECONDS = 3.0  # for replies under way at an interrupt: they are paid for
_QUOTED = 300  # characters of a server's error that are quoted


class EndpointError(InputError):
    """The endpoint is gone, or refuses us altogether: no request can be answered."""


class UnansweredError(EndpointError):
    """No answer in all attempts: the server may be gone, or this one request too much for it. ``detail``
    is the last reason, for callers that go on with the next request."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.detail = text


class TimedOutError(UnansweredError):
    """The last of all attempts took too long."""


class RefusedError(HeldoutError):
    """This one request was answered with an error. ``status`` 0: with something that is no answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.detail = text


@dataclass(frozen=True)
class Connection:
    """``url`` up to and including ``/v1``; safe to use from several threads. ``timeout``: seconds for one
    attempt, from the first packet to the last byte of the answer. ``role``: whose settings error messages name,
    "judge" for judge.model. While ``stopped`` is set, no request is made a second time.

    Every text that leaves here has gone through ``redact``: callers that join pieces of an answer into a
    new text pass that through it again.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    backoff: Backoff = field(default_factory=Backoff)
    pace: Pace = field(default_factory=Pace)
    role: str = ""
    stopped: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    _client: Client = field(default_factory=Client, repr=False, compare=False)
    _secret: Secret = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", checked_address(self.url, self.setting("api_key_env")))
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise InputError(
                f"the key for {self.url} holds a character that no header can carry: expected printable "
                f"ASCII alone"
            )
        object.__setattr__(self, "_secret", Secret(self.api_key))

    def setting(self, name: str) -> str:
        """The name of a setting of this server in error messages."""
        return f"{self.role}.{name}" if self.role else name

    def place(self, path: str = "") -> str:
        """The address for error messages, after the role whose settings hold it."""
        return f"{self.role}: {self.url}{path}" if self.role else f"{self.url}{path}"

    def stop(self) -> None:
        """Make no request a second time, and give up those under way unless they are answered soon."""
        self.stopped.set()
        self._client.give_up(_LAST_SECONDS)

    def get(self, path: str) -> Any:
        return self._asked(path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._asked(path, json.dumps(body).encode())

    def post_form(self, path: str, body: bytes, content_type: str) -> Any:
        """What is no JSON: a form with files in it, as image endpoints take them."""
        return self._asked(path, body, content_type)

    def redact(self, text: str) -> str:
        """``text`` without the key, however it is written."""
        return self._secret.redact(text)

    def _asked(self, path: str, body: bytes | None, content_type: str = _JSON) -> Any:
        headers = {"Content-Type": content_type, "Accept": _JSON}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        method = "GET" if body is None else "POST"
        failure: Exception = EndpointError("")
        for attempt in range(self.backoff.attempts):
            self.pace.wait()
            answer, retry_after = None, None
            try:
                answer = self._client.exchange(method, self.url + path, headers, body, self.timeout)
            except TransportError as error:
                failure = self._unanswered(path, error)
                if error.final:
                    break
            except UnusableError as error:
                raise RefusedError(0, self.redact(str(error))) from None
            if answer is not None:
                if 200 <= answer.status < 300:
                    return self._parsed(answer.body)
                failure = self._refusal(path, answer)
                if answer.status not in _AGAIN:
                    break
                retry_after = answer.headers.get("Retry-After")
            last = attempt + 1 == self.backoff.attempts
            if last or self.stopped.wait(self.backoff.seconds(attempt, retry_after)):
                break
        raise failure

    def _unanswered(self, path: str, error: TransportError) -> EndpointError:
        problem = self.redact(error.problem)
        if error.final:
            return EndpointError(f"{self.place(path)}: {problem}")
        if not error.slow:
            message = f"{problem} in {self._often}"
            return UnansweredError(self._gave_up(path, problem), message)
        setting = self.setting("timeout")
        why = f"Does it need more time (the setting {setting})?"
        message = f"{problem} in {self._often}; the setting {setting} gives it more time"
        return TimedOutError(self._gave_up(path, problem, why), message)

    @property
    def _often(self) -> str:
        return counted(self.backoff.attempts, "attempt", "attempts")

    def _gave_up(self, path: str, problem: str, why: str = "Is the server running?") -> str:
        message = f"{self.place(path)} did not answer in {self._often} ({problem}). {why}"
        if path == MODELS:  # the first request: there is nothing to continue
            return message
        return f"{message} What was answered is kept: run the same command to go on"

    def _refusal(self, path: str, answer: Answer) -> Exception:
        """The error that a failed answer means, if no further attempt is made."""
        status, text = answer.status, self._error_text(answer)
        if status in (401, 403):
            return EndpointError(f"{self.place(path)} {self._about_key(status, text)}")
        if 300 <= status < 400:
            return EndpointError(
                f"{self.place(path)} redirects elsewhere (status {status}): give the final address"
            )
        if status in _AGAIN and status < 500:
            problem = f"status {status}: {text}"
            why = "Is the server running?"
            if status == _TOO_MANY:
                setting = self.setting("requests_per_second")
                why = f"Ask more slowly with the setting {setting}: 0.5 is one request in two seconds."
            return UnansweredError(self._gave_up(path, problem, why), f"{problem} in {self._often}")
        return RefusedError(status, text)

    def _about_key(self, status: int, text: str) -> str:
        """A key that is missing and a key that is wrong are different errors."""
        setting = self.setting("api_key_env")
        if not self.api_key:
            return (
                f"asks for a key (status {status}): name the environment variable that holds it with the "
                f"setting {setting}"
            )
        return (
            f"refuses the key that was given (status {status}: {text}): is it the key of this server, still "
            f"valid, and allowed to use this model? The setting {setting} names the variable that holds it"
        )

    def _parsed(self, data: bytes | bytearray) -> Any:
        try:
            text = data.decode(json.detect_encoding(data), "surrogatepass")
            if sum(map(text.count, ",[{")) > _MOST_VALUES:
                raise RefusedError(0, f"the answer holds more than {_MOST_VALUES:,} values")
            return self._secret.clean(json.loads(text), text)
        except (ValueError, RecursionError):
            beginning = data[:4096].decode(errors="replace")
        raise RefusedError(0, f"the answer is not JSON: {self.redact(beginning)[:60]!r}")

    def _error_text(self, answer: Answer) -> str:
        """The server's error message on one short line."""
        text = answer.body.decode(errors="replace")
        with contextlib.suppress(ValueError, RecursionError):  # a proxy complains in HTML
            parsed = json.loads(text)
            inner = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
            message = inner.get("message", inner) if isinstance(inner, dict) else inner
            text = message if isinstance(message, str) else json.dumps(message)
        line = " ".join(self.redact(text).split()) or " ".join(self.redact(answer.reason).split())
        return self.redact(line)[:_QUOTED] or f"status {answer.status}"


def checked_address(url: str, key_setting: str = "api_key_env") -> str:
    """The address up to ``/v1``. Error messages show only its scheme and host: an invalid address may still
    hold a password."""
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named, parts = False, urllib.parse.urlsplit("")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"{parts.scheme}://{parts.hostname}: an address with a password, query or fragment would be "
            f"written into the run; give the key in an environment variable ({key_setting})"
        )
    if parts.scheme not in ("http", "https") or not named:
        # What was pasted may hold a key anywhere.
        shown = f"{parts.scheme}://{parts.hostname}" if parts.hostname else "this address"
        raise InputError(f"{shown}: expected an address like http://localhost:8000/v1")
    path = _ROUTES.sub("", parts.path.rstrip("/"))  # some name a route of the API
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"


_FAILURES = 5  # in a row: the server may be broken, not the items
_PROBE_ATTEMPTS = 2


class ServerWatch:
    """Distinguishes a server that is gone from items that it fails on; one rule for every kind of request.

    After five failures in a row, and after a request that got no answer in all attempts, a request that
    the server answered before is sent again. A server that answers it is alive, and only the items that
    it fails on are lost; a server that does not, or that never answered anything, ends the work.
    """

    def __init__(self) -> None:
        self._failed, self._gone = 0, False
        self._lock, self._probing = threading.Lock(), threading.Lock()

    def begin(self) -> None:
        self._gone = False

    def succeeded(self) -> None:
        with self._lock:
            self._failed = 0

    def unanswered(
        self, connection: Connection, error: UnansweredError, again: Again | None
    ) -> RefusedError:
        """The failure of this one item; raises ``error`` where the server is gone."""
        if not isinstance(error, TimedOutError) and not self._is_alive(connection, again):
            raise error
        return RefusedError(0, error.detail)

    def refused(
        self,
        connection: Connection,
        refused: RefusedError,
        again: Again | None,
        *,
        counts: bool = True,
        units: str = "questions",
    ) -> None:
        """Count a failure; raises EndpointError where the server is gone.

        Args:
            connection: To the server.
            refused: How it failed.
            again: Sends a request that the server answered before; None if it never answered.
            counts: Whether the server may be at fault: not where a prompt is too long.
            units: What was asked for, for the error message.
        """
        broken = refused.status >= 500 or refused.status == 0
        with self._lock:
            self._failed += counts
            failed = self._failed
        doubtful = counts and failed >= _FAILURES and (broken or again is None)
        if not doubtful or self._is_alive(connection, again, failed):
            return
        message = f"status {refused.status}: {refused.detail}" if refused.status else refused.detail
        more = ", nor does it answer again what it answered before" if again is not None else ""
        raise EndpointError(
            f"{connection.url} failed on {failed} {units} in a row, the last with {message}{more}. "
            f"What was finished is kept: run the same command to go on"
        )

    def _is_alive(self, connection: Connection, again: Again | None, failed: int = 0) -> bool:
        """``failed``: requests in a row that made the server doubtful; fewer by now mean that another
        thread has an answer."""
        with self._probing:
            if self._gone or again is None:
                return False
            if self._failed < failed:
                return True
            backoff = replace(connection.backoff, attempts=_PROBE_ATTEMPTS)
            try:
                again(replace(connection, backoff=backoff))
            except RefusedError as refused:
                # a refusal of the short reply is an answer, too
                self._gone = not 0 < refused.status < 500
            except (EndpointError, ImageError):
                self._gone = True
            if not self._gone:
                self.succeeded()
            return not self._gone


Again = Callable[[Connection], object]


# Several requests at a time, by a fixed number of threads.


Asked = TypeVar("Asked")
Given = TypeVar("Given")


def in_parallel(
    ask: Callable[[Asked], Given],
    requests: Iterable[Asked],
    concurrency: int,
    stop: Callable[[], None] = lambda: None,
) -> Iterator[Given]:
    """In the order of their arrival; what is answered before the server dies is still given. ``stop`` is called
    at an interrupt: it may give up requests under way, which are waited for."""
    pending: set[Future[Given]] = set()
    ended: EndpointError | None = None
    # An interrupt within concurrent.futures.wait can leave a lock behind that its threads then wait for.
    finished: SimpleQueue[Future[Given]] = SimpleQueue()
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            for request in requests:
                future = pool.submit(ask, request)
                pending.add(future)
                future.add_done_callback(finished.put)
                while len(pending) >= 2 * concurrency and ended is None:
                    done = _finished(finished) & pending
                    pending -= done
                    ended = yield from _given(done)
                if ended is not None:
                    break
            if ended is not None:
                pending = {future for future in pending if not future.cancel()}
            last: EndpointError | None = None
            while pending:
                done = _finished(finished) & pending  # without what was cancelled
                pending -= done
                last = (yield from _given(done)) or last
        except BaseException:  # an interrupt, or the caller stopped
            stop()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if (error := ended or last) is not None:
        raise error


def _finished(queue: SimpleQueue[Future[Given]]) -> set[Future[Given]]:
    """The next that has finished, if one has within a moment."""
    done: set[Future[Given]] = set()
    with contextlib.suppress(Empty):
        done.add(queue.get(timeout=_LOOK_SECONDS))
    return done


def _given(done: Iterable[Future[Given]]) -> Generator[Given, None, EndpointError | None]:
    """Results of the finished requests; returns the error that ends everything, if one of them raised it."""
    ended: EndpointError | None = None
    for future in done:
        try:
            yield future.result()
        except EndpointError as error:
            ended = error
    return ended
