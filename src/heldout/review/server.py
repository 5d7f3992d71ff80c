"""The web application around desks, and the loopback server that runs it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict
from importlib import resources
from typing import Any

from heldout.errors import InputError, require
from heldout.review.desk import Desk, JudgedMeanwhileError
from heldout.review.guard import Asgi, Guard

LOOPBACK = "127.0.0.1"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_app(*desks: Desk, token: str, port: int) -> Asgi:
    """The guarded application; every request but the first needs the token.

    ``?kind=`` says which desk is meant; without it, it is the first.
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
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"told": _sendable("; ".join(problems))}, 422)

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Any, error: AnyHTTPException) -> Response:
        """FastAPI calls a body that its parser gives up on (nested too deeply) a bad request."""
        if error.status_code == 400:
            message = "the request is not JSON that can be read: it may be nested too deeply"
            return JSONResponse({"told": message}, 422)
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
        """Numbers alone: which file that is, the tables say."""
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
        said: dict[str, Any] = Body(),  # noqa: B008
        desk: Desk = Depends(places),  # noqa: B008
    ) -> Response:
        try:
            return JSONResponse(desk.judge(index, **_judgement(said)))
        except JudgedMeanwhileError as conflict:
            return JSONResponse({"told": str(conflict), "card": desk.card(index)}, 409)
        except InputError as error:
            return JSONResponse({"told": _sendable(str(error))}, 422)

    @app.post("/api/undo", response_model=None)
    def undo(
        asked: dict[str, Any] = Body(),  # noqa: B008
        desk: Desk = Depends(chosen),  # noqa: B008
    ) -> Response:
        index = asked.get("index")
        if index is not None and (not isinstance(index, int) or not 0 <= index < len(desk.cards)):
            return JSONResponse({"told": "there is no such card"}, 422)
        return JSONResponse({"index": desk.undo(index), "progress": desk.progress()})

    @app.get("/api/agreement", response_model=None)
    def agreement(desk: Desk = Depends(chosen)) -> Response:  # noqa: B008
        if desk.blind:
            message = "hidden from a blinded rater: open the page again without --blind"
            return JSONResponse({"tables": [], "told": message})
        return JSONResponse({"tables": [asdict(table) for table in desk.tables()], "told": ""})

    return Guard(app, token=token, port=port)


def serve(*desks: Desk, port: int = 0, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted. ``ready`` gets the address with the token, once it can be opened."""
    _require()
    import uvicorn

    token = secrets.token_urlsafe(24)
    with _listening(port) as listening:
        bound = listening.getsockname()[1]
        app = make_app(*desks, token=token, port=bound)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, lifespan="off"
        )
        ready(f"http://{LOOPBACK}:{bound}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()  # whoever opens the address before uvicorn is up waits, and is served
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"--port {port} cannot be used: {error}; leave it out for a free one"
        ) from error
    return listening


def _judgement(said: dict[str, Any]) -> dict[str, Any]:
    """The fields of a judgement, refused where one is of another kind than expected."""
    verdict, note, seen = said.get("verdict"), said.get("note", ""), said.get("seen")
    ratings = said.get("ratings", {})
    if not (verdict is None or isinstance(verdict, str)) or not isinstance(note, str):
        raise InputError("verdict and note are texts")
    if not (seen is None or isinstance(seen, str)) or not isinstance(ratings, dict):
        raise InputError("seen is a time, ratings are numbers by scale")
    if _sendable(note) != note:
        raise InputError("the note holds half of a character (a lone surrogate): type it again")
    return {"verdict": verdict, "note": note, "seen": seen, "ratings": ratings}


def _sendable(text: str) -> str:
    """Without lone surrogates: JSON can spell them, and UTF-8 has no bytes for them."""
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
