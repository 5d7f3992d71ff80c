"""Who may speak to the page: this machine, with the token, from the page itself.

A web site that the browser visits can send requests to 127.0.0.1 (and, by pointing its own name there,
read the answers). So the host must be ours by name, the origin must be ours where one is given, and the
token must be known: it came by the terminal, not by the network.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = b"x-heldout-token"
BODY = 64 * 1024  # bytes of a request: a judgement is a few hundred
BODY_SECONDS = 10.0  # for all of a body: the page is on this machine
_TOO_LARGE = 413, f"A request has at most {BODY:,} bytes."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Refuses what is not ours; the first request with the token in the URL trades it for a cookie."""

    def __init__(self, app: Asgi, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie = f"heldout-review-{port}"  # cookies do not tell ports apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here
        headers: dict[bytes, bytes] = dict(scope["headers"])
        writes = scope["method"] not in ("GET", "HEAD")
        # What was not read to its end must not be taken for the next request, nor keep us reading.
        close = [(b"connection", b"close")] if writes else []
        refusal = self._refusal(scope, headers)
        if refusal:
            await _answer(send, *refusal, close)
            return
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if asked and self._right(asked) and scope["path"] == "/":
            kept = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            moved = [(b"location", b"/"), (b"set-cookie", kept.encode())]
            await _answer(send, 303, "", moved)
            return
        if not self._right(headers.get(HEADER, b"").decode("latin-1")) and not self._right(
            self._from_cookie(headers)
        ):
            told = "This page needs the token that heldout review printed in its terminal."
            await _answer(send, 403, told, close)
            return
        if writes:
            body = await _received(receive)
            if not isinstance(body, bytes):
                await _answer(send, *body, close)
                return
            receive = _replayed(body, receive)

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self.app(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self.hosts:
            return 403, "This server answers to 127.0.0.1 alone."
        origin = headers.get(b"origin")
        ours = {f"http://{host}" for host in self.hosts}
        if origin is not None and origin.decode("latin-1").lower() not in ours:
            return 403, "This request comes from another site."
        site = headers.get(b"sec-fetch-site", b"none")
        if site not in (b"same-origin", b"none") and scope["path"] != "/":
            return 403, "This request comes from another site."
        if scope["method"] not in ("GET", "HEAD"):
            if not headers.get(b"content-type", b"").startswith(b"application/json"):
                return 415, "Judgements are sent as JSON."
            length = headers.get(b"content-length", b"0")
            if not length.isdigit() or len(length) > 9 or int(length) > BODY:
                return _TOO_LARGE
        return None

    def _from_cookie(self, headers: dict[bytes, bytes]) -> str:
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return ""
        return cookies[self.cookie].value if self.cookie in cookies else ""

    def _right(self, offered: str) -> bool:
        return bool(offered) and secrets.compare_digest(offered.encode(), self.token.encode())


async def _received(receive: Receive) -> bytes | tuple[int, str]:
    """The whole body, counted as it arrives (a length that is announced may be a lie, and chunks announce
    none); or the refusal of one that is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return 400, "The request was cut short."
                body += message.get("body", b"")
                if len(body) > BODY:
                    return _TOO_LARGE
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return 408, f"The request took longer than {BODY_SECONDS:g} s."


def _replayed(body: bytes, receive: Receive) -> Receive:
    """``body`` as one message, and then whatever else ``receive`` has to say: that the client left."""
    waiting = [body]

    async def replay() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


async def _answer(
    send: Send, status: int, text: str, more: list[tuple[bytes, bytes]] | None = None
) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS, *(more or [])]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
