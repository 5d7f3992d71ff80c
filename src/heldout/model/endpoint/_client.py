"""One HTTP exchange within a deadline and a size limit, whatever the server does.

A client's own timeouts restart with every byte, so that a slow server can delay them for ever. Here requests
run as tasks of one event loop in a thread of its own, where a task can be ended at
any point: while a name is looked up, at the handshake, amid the headers, between two bytes.
"""

from __future__ import annotations

import asyncio
import functools
import http.cookiejar
import logging
import os
import socket
import ssl
import threading
import weakref
import zlib
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heldout.errors import InputError

if TYPE_CHECKING:  # imported when a request is made: the import takes longer than many commands
    import httpx
import base64
import html
import json
import re
import urllib.parse
from typing import Any

LARGEST_RESPONSE = 64 * 2**20  # bytes, unpacked: log-probabilities of a long prompt are a few MB
_PIECE = 2**18  # bytes that are unpacked at a time
_LARGEST_COMPLAINT = 2**16
_KEPT_OPEN = 256  # connections: as many as a command may ask for at a time
_THREAD = "heldout-http"
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # which httpx reads, too
_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "proxy", "socks")))
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")  # as OpenSSL says it
_GZIP = 16 + zlib.MAX_WBITS


class TransportError(Exception):
    """No complete answer: refused, reset, cut short, or (``slow``) not within the deadline. ``final``: the
    next attempt would meet the same."""

    def __init__(self, problem: str, *, slow: bool = False, final: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.slow = slow
        self.final = final


class UnusableError(Exception):
    """An answer that cannot be read: too large, or compressed in a way that was not asked for."""


@dataclass
class Answer:
    """The ``body`` of an error response is its beginning: as much as an error message needs."""

    status: int = 0
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Client:
    """Connections that stay open between requests, shared by threads. It follows no redirects, keeps no
    cookies, verifies certificates, and takes proxies and certificates from the environment."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None
        self._lock = threading.Lock()
        self._under_way: set[Future[Answer]] = set()

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Answer:
        """``timeout``: seconds from the look-up of the name to the last byte of the answer."""
        with self._lock:
            if self._client is None:
                self._client = _new_client()
                # A loop holds its open sockets; they are closed when this client is collected.
                weakref.finalize(self, _submit_close, self._client).atexit = False
        exchange = _exchange(self._client, method, url, headers, body, timeout)
        future = asyncio.run_coroutine_threadsafe(exchange, _loop())
        self._under_way.add(future)
        try:
            return future.result()
        except CancelledError:
            raise TransportError("the request was given up", slow=False, final=True) from None
        finally:
            self._under_way.discard(future)

    def give_up(self, after: float) -> None:
        """Requests that are under way now end in so many seconds, answered or not."""

        def cancel(futures: set[Future[Answer]]) -> None:
            for future in futures:
                future.cancel()

        timer = threading.Timer(after, cancel, [self._under_way.copy()])
        timer.daemon = True
        timer.start()


async def _exchange(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
) -> Answer:
    import httpx

    answer = Answer()
    problem, slow, final = "", False, False
    try:
        async with (
            asyncio.timeout(timeout),
            client.stream(method, url, headers=headers, content=body) as response,
        ):
            answer = Answer(response.status_code, response.reason_phrase, response.headers)
            most = _LARGEST_COMPLAINT if answer.status >= 400 else LARGEST_RESPONSE
            async for part in _unpacked(response, most):
                answer.body += part
                if len(answer.body) > most:
                    if answer.status >= 400:
                        break
                    raise UnusableError(f"the answer is larger than {most:,} bytes")
            return answer
    except TimeoutError:
        slow = True
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        cause = _cause(error)
        ours = (ssl.SSLCertVerificationError, httpx.InvalidURL, httpx.LocalProtocolError)
        final = isinstance(cause, ours)
        final = final or (isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS)
        problem = _described(cause)
    if answer.status >= 400:
        return answer  # the error is known, even if the response is incomplete
    if slow:
        problem = f"no answer within {timeout:g} s"
        if answer.status:
            size = f"{len(answer.body):,} bytes"
            problem = f"no more than {size} of the answer came within {timeout:g} s"
    # Not chained: what the library raised may quote the server, and holds the request with its key.
    raise TransportError(problem, slow=slow, final=final)


async def _unpacked(response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """The body, unpacked to one byte more than ``most`` at most: a few kilobytes may hold gigabytes."""
    import httpx

    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise UnusableError(f"the answer is packed as {encoding[:40]!r}, which was not asked for")
    if not encoding or encoding == "identity":
        async for raw in response.aiter_raw():
            yield raw
        return
    unpacker, left = zlib.decompressobj(_GZIP), most + 1
    try:
        async for raw in response.aiter_raw():
            if response.num_bytes_downloaded > most:
                raise UnusableError(f"the answer is larger than {most:,} bytes")
            full = True
            while full and left and not unpacker.eof:
                wanted = min(left, _PIECE)
                part = unpacker.decompress(raw, wanted)
                left, raw = left - len(part), unpacker.unconsumed_tail
                full = len(part) == wanted  # there may be more of it
                yield part
            # What follows the end is read, so that the connection can be kept.
    except zlib.error as error:
        raise UnusableError(f"the answer is not the gzip it says it is: {error}") from error
    if not unpacker.eof:
        raise httpx.RemoteProtocolError("the packed answer was cut short")


def _cause(error: BaseException) -> BaseException:
    """The operating system's error: the layers above say only "all connection attempts failed"."""
    cause = error
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.errno is not None:
            cause = inner
        if isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[-1]
        else:
            inner = inner.__cause__ or inner.__context__
    return cause


def _described(cause: BaseException) -> str:
    """The system's error message, which the event loop's own ("Connect call failed") leaves out."""
    if isinstance(cause, socket.gaierror):
        return cause.strerror or str(cause)
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        return "it does not speak TLS: is it http:// instead of https://?"
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno)
    return str(cause) or type(cause).__name__


def _new_client() -> httpx.AsyncClient:
    import httpx

    for name in _LOGGERS:  # they quote responses, and other libraries turn them on
        logging.getLogger(name).addFilter(_not_ours)
    nothing = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_OPEN)
    try:
        return httpx.AsyncClient(
            verify=_trusted(*(os.environ.get(name) for name in _CERTIFICATES)),
            timeout=None,  # one deadline covers all of it
            limits=limits,
            follow_redirects=False,  # a redirect would carry the key to another host
            cookies=nothing,
            trust_env=True,
            headers={"Accept-Encoding": "gzip"},
        )
    except (ValueError, ImportError, OSError) as error:  # may quote a proxy's password
        missing = isinstance(error, ImportError)
        problem = "needs the package socksio" if missing else "cannot be used"
    raise InputError(
        f"a proxy or certificate file that the environment names {problem}: look at HTTP_PROXY, "
        f"HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
    )


@functools.cache  # reading all certificates takes a tenth of a second
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Certificate authorities that the environment names, in ``file`` or ``folder``."""
    import httpx

    return httpx.create_ssl_context()


def _not_ours(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD


_started: list[asyncio.AbstractEventLoop] = []
_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """The loop that all exchanges of this process run on; its thread ends with the process."""
    with _starting:
        if not _started:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
            _started.append(loop)
        return _started[0]


def _submit_close(client: httpx.AsyncClient) -> None:
    asyncio.run_coroutine_threadsafe(client.aclose(), _loop())


# A key that a server repeats is removed before anything else sees that text.
#
# Servers and proxies quote what they were sent: as it is, percent-encoded in an address, escaped in JSON or
# HTML, in base64 among other headers. Each of these forms is looked for. A key that a server encodes in another
# way cannot be found.


STRUCK = "***"
_LONG = 8  # characters: a shorter key may be a word or a number that an answer holds, too
_WORD = 4  # characters: a shorter one is a secret only where it is called one
_HIDDEN = re.compile(r"\\u00[2-7]|\\\\")  # JSON may spell any letter by its number, or quote JSON

_ESCAPE = re.compile(r"%[0-9A-F]{2}")


class Secret:
    """What must not be stored or printed. ``redact`` for a text, ``clean`` for a parsed document."""

    def __init__(self, key: str | None) -> None:
        self._forms: tuple[str, ...] = ()
        self._words: re.Pattern[str] | None = None
        if key and len(key) >= _LONG:
            self._forms = _forms(key)
        elif key:
            bearer = rf"(?i:bearer)(?:\s|%20|\+)+{re.escape(key)}"
            word = rf"|(?<![\w-]){re.escape(key)}(?![\w-])" if len(key) >= _WORD else ""
            self._words = re.compile(bearer + word)

    def __repr__(self) -> str:
        return f"Secret({STRUCK})"

    def redact(self, text: str) -> str:
        """``text`` without the key in any of its forms."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, STRUCK)
        return text if self._words is None else self._words.sub(STRUCK, text)

    def clean(self, value: Any, source: str) -> Any:
        """``value``, parsed from the JSON text ``source``, with every string and name in it redacted."""
        if _HIDDEN.search(source) is None and self.redact(source) == source:
            return value  # skips megabytes of log-probabilities that hold no key
        return self._walk(value)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self._walk(part) for part in value]
        if isinstance(value, dict):
            return {self.redact(name): self._walk(part) for name, part in value.items()}
        return value


def _forms(key: str) -> tuple[str, ...]:
    """Every way in which a key is commonly written, the longest first."""
    data, quote = key.encode(), urllib.parse.quote
    escaped, page = json.dumps(key)[1:-1], html.escape(key)
    percent = {quote(key, safe=""), quote(key), urllib.parse.quote_plus(key)}
    percent |= {"".join(f"%{byte:02X}" for byte in data)}
    percent |= {_ESCAPE.sub(lambda escape: escape[0].lower(), form) for form in percent}
    numbers = {"".join(f"\\u{byte:04{case}}" for byte in data) for case in "xX"}
    hexadecimal = {data.hex(), data.hex().upper(), data.hex(" "), data.hex(":")}
    forms = {
        key,
        key.upper(),
        key.lower(),
        escaped,
        escaped.replace("/", r"\/"),
        json.dumps(escaped)[1:-1],
        repr(key)[1:-1],
        page,
        page.replace("&#x27;", "&#39;"),
        quote(quote(key, safe=""), safe=""),
    }
    for before in range(3):
        # Base64 goes by three bytes, so that what precedes the key decides how it looks; letters that it
        # shares with its neighbours are left out.
        letters = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        shared = 1 if (before + len(data)) % 3 else 0
        whole = letters[-(-8 * before // 6) : len(letters) - shared]
        forms |= {whole, whole.replace("+", "-").replace("/", "_"), whole.replace("/", r"\/")}
        forms.add(quote(whole, safe=""))
    return tuple(
        sorted(forms | percent | numbers | hexadecimal, key=lambda form: (-len(form), form))
    )
