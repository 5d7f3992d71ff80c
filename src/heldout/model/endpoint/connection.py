"""HTTP to an endpoint nobody has to trust: limits on size and time, retries, and no key in any message."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from heldout.errors import InputError
from heldout.model.endpoint.pace import Backoff, Pace

LARGEST_RESPONSE = 256 * 2**20  # log-probabilities of a long prompt are a few MB
_CHUNK = 2**20
_JSON = "application/json"
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_TOLD = 300  # characters of a server's complaint that are worth repeating


class EndpointError(InputError):
    """The endpoint is gone, or refuses us altogether: no request can be answered."""


class TimedOutError(EndpointError):
    """The last of all attempts took too long: the server may be gone, or this one request too much."""


class RefusedError(Exception):
    """This one request was answered with an error. ``status`` 0: with something that is no answer."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status
        self.told = told


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Connection:
    """``url`` up to and including ``/v1``; safe to use from several threads. ``role``: what a command calls
    its options after, "judge-" for --judge-model; complaints name them."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    backoff: Backoff = field(default_factory=Backoff)
    pace: Pace = field(default_factory=Pace)
    role: str = ""
    _opener: urllib.request.OpenerDirector = field(
        default_factory=lambda: urllib.request.build_opener(_NoRedirects), repr=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _checked(self.url))

    def get(self, path: str) -> Any:
        return self._asked(path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._asked(path, json.dumps(body).encode())

    def post_form(self, path: str, body: bytes, content_type: str) -> Any:
        """What is no JSON: a form with files in it, as image endpoints take them."""
        return self._asked(path, body, content_type)

    def _asked(self, path: str, body: bytes | None, content_type: str = _JSON) -> Any:
        problem, slow = "", False
        for attempt in range(self.backoff.attempts):
            self.pace.wait()
            retry_after, slow = None, False
            try:
                return _parsed(self._once(path, body, content_type))
            except urllib.error.HTTPError as error:
                told = self._without_key(_complaint(error))
                self._give_up_on(error.code, path, told)
                if error.code not in _AGAIN:
                    raise RefusedError(error.code, told) from error
                problem = f"status {error.code}: {told}"
                retry_after = error.headers.get("Retry-After") if error.headers else None
                if attempt + 1 == self.backoff.attempts and error.code >= 500:
                    raise RefusedError(error.code, told) from error
            except (OSError, http.client.HTTPException) as error:  # refused, reset, cut or too slow
                problem = self._without_key(str(getattr(error, "reason", error)) or repr(error))
                slow = isinstance(getattr(error, "reason", error), TimeoutError)
            if attempt + 1 < self.backoff.attempts:
                time.sleep(self.backoff.seconds(attempt, retry_after))
        raise (TimedOutError if slow else EndpointError)(
            f"{self.url}{path} did not answer in {self.backoff.attempts} attempts ({problem}). Is the "
            f"server still running? What was answered is kept: run the same command to go on"
        )

    def _once(self, path: str, body: bytes | None, content_type: str) -> bytes:
        headers = {"Content-Type": content_type, "Accept": _JSON}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        ends = time.monotonic() + self.timeout
        with self._opener.open(request, timeout=self.timeout) as response:
            parts, size = [], 0
            while chunk := response.read(_CHUNK):
                size += len(chunk)
                if size > LARGEST_RESPONSE:
                    raise RefusedError(0, f"the answer is larger than {LARGEST_RESPONSE:,} bytes")
                if time.monotonic() > ends:  # a socket's own timeout starts anew with every byte
                    raise TimeoutError(f"the answer took longer than {self.timeout:g} s")
                parts.append(chunk)
        return b"".join(parts)

    def _give_up_on(self, status: int, path: str, told: str) -> None:
        if status in (401, 403):
            raise EndpointError(
                f"{self.url}{path} refuses the key (status {status}): name the environment variable "
                f"that holds it with --{self.role}api-key-env"
            )
        if 300 <= status < 400:
            raise EndpointError(
                f"{self.url}{path} redirects elsewhere (status {status}): give the final address"
            )

    def _without_key(self, text: str) -> str:
        return text.replace(self.api_key, "***") if self.api_key else text


def _checked(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named, parts = False, urllib.parse.urlsplit("")
    if parts.scheme not in ("http", "https") or not named:
        raise InputError(f"{url}: expected an address like http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"{parts.scheme}://{parts.hostname}: an address with a password, query or fragment would be "
            f"written into the run; give the key in an environment variable (--api-key-env)"
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RefusedError(0, f"the answer is not JSON: {data[:60]!r}") from error


def _complaint(error: urllib.error.HTTPError) -> str:
    """What the server says about it, on one short line."""
    try:
        text = error.read(2**16).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return str(error.reason)
    with contextlib.suppress(ValueError, RecursionError):  # a proxy complains in HTML
        found = json.loads(text)
        inner = found.get("error", found) if isinstance(found, dict) else found
        message = inner.get("message", inner) if isinstance(inner, dict) else inner
        text = message if isinstance(message, str) else json.dumps(message)
    return " ".join(text.split())[:_TOLD] or str(error.reason)
