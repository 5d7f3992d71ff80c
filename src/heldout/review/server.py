"""The web application around desks, and the loopback server that runs it."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from typing import Any, Self
from urllib.parse import parse_qs

from heldout.errors import InputError, require
from heldout.review.desk import Desk, JudgedMeanwhileError

# Requests are accepted from this machine only, with the token, from the page itself.
#
# A web site that the browser visits can send requests to 127.0.0.1 (and, by pointing its own name there, read
# the answers). So the host must be this machine by name, the origin must be the page where one is given, and
# the token must be right: it was printed in the terminal and not sent over the network.


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
    """Refuses foreign requests; the first request with the token in the URL gets a cookie in exchange."""

    def __init__(self, app: Asgi, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie = f"heldout-review-{port}"  # cookies are shared by all ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here
        headers: dict[bytes, bytes] = dict(scope["headers"])
        writes = scope["method"] not in ("GET", "HEAD")
        # A body that was not read completely must not be taken for the next request, nor be read for ever.
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
            message = "This page needs the token that heldout review printed in its terminal."
            await _answer(send, 403, message, close)
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
    """``body`` as one message, then the further messages of ``receive``, such as a disconnect."""
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


LOOPBACK = "127.0.0.1"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_app(*desks: Desk, token: str, port: int) -> Asgi:
    """The guarded application; every request but the first needs the token.

    ``?kind=`` selects the desk; the default is the first.
    """
    _require()
    from fastapi import Body, Depends, FastAPI, HTTPException
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from starlette.exceptions import HTTPException as AnyHTTPException

    by_kind = {desk.kind: desk for desk in desks}

    def chosen(kind: str = desks[0].kind) -> Desk:
        for name, desk in by_kind.items():
            if name == kind:
                return desk
        raise HTTPException(404)

    def places(index: int, desk: Desk = Depends(chosen)) -> Desk:  # noqa: B008
        if not 0 <= index < len(desk.cards):
            raise HTTPException(404)
        return desk

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    files = _page()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Any, error: RequestValidationError) -> Response:
        """Without the input, which FastAPI would repeat: it need not be a text that can be sent."""
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        ]
        return JSONResponse({"message": _sendable("; ".join(problems))}, 422)

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Any, error: AnyHTTPException) -> Response:
        """FastAPI calls a body that its parser gives up on (nested too deeply) a bad request."""
        if error.status_code == 400:
            message = "the request is not JSON that can be read: it may be nested too deeply"
            return JSONResponse({"message": message}, 422)
        return JSONResponse({"detail": error.detail}, error.status_code)

    def static(name: str) -> Response:
        kind = _TYPES[name.rpartition(".")[2]]
        return Response(files[name], media_type=f"{kind}; charset=utf-8")

    @app.get("/", response_model=None)
    def index() -> Response:
        return static("index.html")

    @app.get("/page/{name}", response_model=None)
    def page(name: str) -> Response:
        return static(name) if name in files else Response(status_code=404)

    @app.get("/api/session", response_model=None)
    def session(desk: Desk = Depends(chosen)) -> dict[str, Any]:  # noqa: B008
        kinds = [{"kind": desk.kind, "total": len(desk.cards)} for desk in desks]
        return {**desk.session(), "kinds": kinds}

    @app.get("/api/progress", response_model=None)
    def progress(desk: Desk = Depends(chosen)) -> dict[str, Any]:  # noqa: B008
        return desk.progress()

    @app.get("/api/cards/{index}", response_model=None)
    def card(index: int, desk: Desk = Depends(places)) -> Response:  # noqa: B008
        return JSONResponse(desk.card(index))

    @app.get("/picture/{index}/{place}", response_model=None)
    def picture(index: int, place: int, desk: Desk = Depends(places)) -> Response:  # noqa: B008
        """The request has numbers only; the tables say which file is meant."""
        pictures = list(desk.cards[index].pictures.values())
        if not 0 <= place < len(pictures):
            return Response(status_code=404)
        shown = pictures[place].show()
        headers = {
            "x-picture-origin": shown.origin,
            "x-picture-size": f"{shown.width}x{shown.height}",
            "x-picture-why": shown.why.encode("ascii", "backslashreplace")
            .decode()[:300]
            .replace("\n", " "),
        }
        status = 200 if shown.data else 404
        return Response(shown.data, status_code=status, media_type=shown.media, headers=headers)

    @app.post("/api/cards/{index}/judgement", response_model=None)
    def judge(
        index: int,
        body: dict[str, Any] = Body(),  # noqa: B008
        desk: Desk = Depends(places),  # noqa: B008
    ) -> Response:
        try:
            return JSONResponse(desk.judge(index, **_judgement(body)))
        except JudgedMeanwhileError as conflict:
            return JSONResponse({"message": str(conflict), "card": desk.card(index)}, 409)
        except InputError as error:
            return JSONResponse({"message": _sendable(str(error))}, 422)

    @app.post("/api/desk", response_model=None)
    def remember(
        choices: dict[str, Any] = Body(),  # noqa: B008
        desk: Desk = Depends(chosen),  # noqa: B008
    ) -> Response:
        try:
            desk.remember(choices)
        except InputError as error:
            return JSONResponse({"message": _sendable(str(error))}, 422)
        return JSONResponse({})

    @app.post("/api/undo", response_model=None)
    def undo(
        asked: dict[str, Any] = Body(),  # noqa: B008
        desk: Desk = Depends(chosen),  # noqa: B008
    ) -> Response:
        index = asked.get("index")
        if index is not None and (not isinstance(index, int) or not 0 <= index < len(desk.cards)):
            return JSONResponse({"message": "there is no such card"}, 422)
        return JSONResponse({"index": desk.undo(index), "progress": desk.progress()})

    @app.get("/api/agreement", response_model=None)
    def agreement(desk: Desk = Depends(chosen)) -> Response:  # noqa: B008
        if desk.blind:
            message = "hidden from a blinded rater: open the page again, not blinded"
            return JSONResponse({"tables": [], "message": message})
        return JSONResponse({"tables": [asdict(table) for table in desk.tables()], "message": ""})

    return Guard(app, token=token, port=port)


class PageServer:
    """The page of desks, on a port of this machine; ``run`` serves it until ``stop`` is called."""

    def __init__(self, *desks: Desk, port: int = 0) -> None:
        _require()
        import uvicorn

        token = secrets.token_urlsafe(24)
        self._socket = _listening(port)
        bound = self._socket.getsockname()[1]
        self.url = f"http://{LOOPBACK}:{bound}/?token={token}"
        config = uvicorn.Config(
            make_app(*desks, token=token, port=bound),
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def serve(*desks: Desk, port: int = 0, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted. ``ready`` gets the address with the token, once it can be opened."""
    with PageServer(*desks, port=port) as page:
        ready(page.url)
        page.run()


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        # a browser that opens the address before uvicorn is up waits, and is served
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"port {port}: it cannot be used: {error}; leave it out for a free one"
        ) from error
    return listening


_LONGEST_LOOK = 86_400


def _judgement(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a judgement, refused where one is of another kind than expected."""
    verdict, note, seen = fields.get("verdict"), fields.get("note", ""), fields.get("seen")
    ratings = fields.get("ratings", {})
    if not (verdict is None or isinstance(verdict, str)) or not isinstance(note, str):
        raise InputError("verdict and note are texts")
    if not (seen is None or isinstance(seen, str)) or not isinstance(ratings, dict):
        raise InputError("seen is a time, ratings are numbers by scale")
    if _sendable(note) != note:
        raise InputError("the note holds half of a character (a lone surrogate): type it again")
    seconds = fields.get("seconds")
    if seconds is not None and not (
        isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST_LOOK
    ):
        raise InputError("seconds is how long the card was looked at, a day at most")
    rounded = None if seconds is None else round(float(seconds), 1)
    return {
        "verdict": verdict,
        "note": note,
        "seen": seen,
        "ratings": ratings,
        "seconds": rounded,
    }


def _sendable(text: str) -> str:
    """The text without lone surrogates, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _page() -> dict[str, bytes]:
    folder = resources.files("heldout.review") / "page"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }


def _require() -> None:
    for module in ("fastapi", "uvicorn"):
        require(module, "review", "the review page")
