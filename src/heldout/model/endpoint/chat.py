"""A model behind chat completions, asked in words: what any OpenAI-compatible server can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from heldout.image import ImageError, ImageRef
from heldout.model.endpoint.capabilities import named_model
from heldout.model.endpoint.connection import (
    Connection,
    EndpointError,
    RefusedError,
    TimedOutError,
)
from heldout.model.endpoint.message import data_url
from heldout.model.endpoint.parallel import in_parallel
from heldout.model.endpoint.read_reply import read_reply
from heldout.model.reply import Prompt, Reply
from heldout.model.request import Request, Text
from heldout.store import Dropped

STAGE = "ask"
CHAT = "/chat/completions"
TOP = 20  # likeliest first tokens that are told: what the protocol allows
_UNREADABLE = 3  # attempts at an answer that is no JSON: a proxy cut it, and the next may be whole
_FAILURES = 5  # in a row: the server is broken, not the item
_TOO_LONG = ("context length", "context_length", "too long", "maximum context", "max_model_len",
             "too many tokens", "exceeds the model")  # fmt: skip


@dataclass
class ChatEndpoint:
    """An Asker. ``logprobs``: ask for the first token's likeliest letters, too. Pictures travel as data
    URLs; temperature is 0; ``token_field`` is what the server calls the limit of a reply."""

    connection: Connection
    model: str
    server: str = "unknown"
    max_tokens: int = 64
    concurrency: int = 4
    dtype: str = "unknown"
    logprobs: bool = False
    token_field: str = "max_tokens"
    _failed: int = 0
    _answered: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def open(cls, connection: Connection, model: str | None, **settings: Any) -> ChatEndpoint:
        named, _, server = named_model(connection, model)
        return cls(connection, named, server, **settings)

    @property
    def identity(self) -> Mapping[str, str]:
        return {
            "backend": "endpoint chat",
            "model": self.model,
            "revision": "unknown",
            "dtype": self.dtype,
            "server": self.server,
            "max_new_tokens": str(self.max_tokens),
        }

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        def one(prompt: Prompt) -> Reply | Dropped:
            given = self._ask(prompt)
            if isinstance(given, Reply):
                keep(given)  # here, in its own thread: an interrupt must not lose what was paid for
            return given

        yield from in_parallel(one, prompts, self.concurrency)

    def _ask(self, prompt: Prompt) -> Reply | Dropped:
        request = prompt.request
        try:
            body = self._body(prompt)
        except ImageError as error:
            return Dropped(STAGE, request.id, error.reason, error.detail)
        problem: RefusedError | None = None
        for _ in range(_UNREADABLE):
            try:
                reply = read_reply(request.id, self.connection.post(CHAT, body), prompt.letters)
                # Once more: a text that came in parts is joined by now.
                reply = replace(reply, text=self.connection.redact(reply.text))
            except RefusedError as refused:
                problem = refused
                if refused.status:
                    break
                continue
            except TimedOutError as slow:
                problem = RefusedError(0, slow.told)
                break
            with self._lock:
                self._failed, self._answered = 0, self._answered + 1
            return reply
        assert problem is not None
        return self._refused(request, problem)

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for part in prompt.request.content:
            if isinstance(part, ImageRef):
                content.append({"type": "image_url", "image_url": {"url": data_url(part)}})
            else:
                assert isinstance(part, Text)
                content.append({"type": "text", "text": part.text})
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "stream": False,
            self.token_field: self.max_tokens,
        }
        if self.logprobs and prompt.letters:
            body |= {"logprobs": True, "top_logprobs": TOP}
        return body

    def _refused(self, request: Request, refused: RefusedError) -> Dropped:
        broken = refused.status >= 500 or refused.status == 0
        long = any(words in refused.told.lower() for words in _TOO_LONG)
        told = f"status {refused.status}: {refused.told}" if refused.status else refused.told
        with self._lock:
            self._failed += (
                0 if long else 1
            )  # a long prompt is the item's fault, however many there are
            failed, answered = self._failed, self._answered
        if refused.status == 404:
            raise EndpointError(
                f"{self.connection.url} does not serve {self.model}: {refused.told}"
            )
        if not long and failed >= _FAILURES and (broken or not answered):
            raise EndpointError(
                f"{self.connection.url} failed on {failed} questions in a row, the last with {told}. "
                f"What was answered is kept: run the same command to go on"
            )
        if long:
            return Dropped(STAGE, request.id, "prompt too long", told)
        reason = "the endpoint failed" if broken else "refused by the endpoint"
        return Dropped(STAGE, request.id, reason, told)
