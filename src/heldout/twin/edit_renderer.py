"""An OpenAI-compatible image edit endpoint as a renderer: POST /images/edits, one picture a request."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from heldout.model.endpoint import Connection, EndpointError
from heldout.model.endpoint.connection import RefusedError, TimedOutError
from heldout.twin.edit_reply import read_picture, read_tokens
from heldout.twin.edit_request import TEMPLATE, edit_prompt, form
from heldout.twin.framing import Size, frame
from heldout.twin.renderer import RenderError, RenderTask

EDITS = "/images/edits"
SIZES: tuple[Size, ...] = ((1024, 1024), (1536, 1024), (1024, 1536))
_UNREADABLE = 3  # attempts at an answer that is no JSON: a proxy cut it, and the next may be whole
_FAILURES = 5  # in a row: the server is broken, not the item
_REFUSED = "refused by the endpoint"
_POLICY = ("safety", "policy", "policies", "moderation", "content filter", "content_filter")


@dataclass(frozen=True)
class Spent:
    """What was paid for, pictures that could not be used included; tokens where the endpoint tells."""

    pictures: int = 0
    tokens_read: int = 0
    tokens_written: int = 0


@dataclass
class EditRenderer:
    """Safe to use from several threads. ``sizes``: what the endpoint draws; the original is fitted into
    the best of them and cut out of the answer; with none, it is sent as it is. ``extra``: further
    fields of the form, such as quality=high."""

    connection: Connection
    model: str
    sizes: tuple[Size, ...] = SIZES
    extra: Mapping[str, str] = field(default_factory=dict)
    name: str = "edit"
    _spent: Spent = field(default=Spent(), repr=False)
    _asks_for_data: bool = field(default=True, repr=False)
    _failed: int = field(default=0, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {
            "renderer": self.name,
            "endpoint": self.connection.url,
            "model": self.model,
            "template": TEMPLATE,
            "sizes": [f"{width}x{height}" for width, height in self.sizes],
            "extra": dict(self.extra),
        }

    @property
    def spent(self) -> Spent:
        return self._spent

    def render(self, task: RenderTask) -> Image.Image:
        framed = frame(task.original, self.sizes)
        fields = {"model": self.model, "prompt": edit_prompt(task), "n": "1", **self.extra}
        if self.sizes:
            fields["size"] = f"{framed.picture.width}x{framed.picture.height}"
        answer = self._asked(fields, framed.picture)
        read, written = read_tokens(answer)
        with self._lock:
            self._failed = 0
            spent = self._spent
            self._spent = Spent(
                spent.pictures + 1, spent.tokens_read + read, spent.tokens_written + written
            )
        return framed.unframe(read_picture(answer))

    def _asked(self, fields: dict[str, str], picture: Image.Image) -> Any:
        problem: RefusedError | None = None
        attempts = _UNREADABLE
        while attempts:
            asks = self._asks_for_data
            body = form({**fields, "response_format": "b64_json"} if asks else fields, picture)
            try:
                return self.connection.post_form(EDITS, *body)
            except RefusedError as refused:
                problem = refused
                if asks and refused.status == 400 and "response_format" in refused.told:
                    self._asks_for_data = False  # some send data always, and refuse to be asked
                    continue
                if refused.status:
                    break
                attempts -= 1
            except TimedOutError as slow:
                problem = RefusedError(0, slow.told)
                break
        assert problem is not None
        raise self._refused(problem) from problem

    def _refused(self, refused: RefusedError) -> RenderError | EndpointError:
        url = self.connection.url
        if refused.status == 404:
            return EndpointError(
                f"{url}{EDITS} is not there, or not for {self.model}: {refused.told}"
            )
        told = f"status {refused.status}: {refused.told}" if refused.status else refused.told
        broken = refused.status >= 500 or refused.status == 0
        if not broken and any(word in refused.told.lower() for word in _POLICY):
            return RenderError(_REFUSED, told)  # the item's fault, however many there are
        with self._lock:
            self._failed += 1
            failed, answered = self._failed, self._spent.pictures
        if failed >= _FAILURES and (broken or not answered):
            return EndpointError(
                f"{url}{EDITS} failed on {failed} pictures in a row, the last with {told}. What was "
                f"drawn is kept: run the same command to go on"
            )
        return RenderError("the endpoint failed" if broken else _REFUSED, told)
