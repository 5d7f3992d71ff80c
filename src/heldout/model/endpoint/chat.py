"""A model behind chat completions, which any OpenAI-compatible server offers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from heldout.image import ImageError, ImageRef
from heldout.model.endpoint._read import data_url, name_of
from heldout.model.endpoint.capabilities import named_model
from heldout.model.endpoint.connection import (
    Connection,
    EndpointError,
    RefusedError,
    ServerWatch,
    TokenPace,
    UnansweredError,
    in_parallel,
)
from heldout.model.request import CUT, REFUSED, STOPPED, Prompt, Reply, Request, Text
from heldout.store import Dropped

# A server's answer to a chat as a Reply; anything else is refused with a reason.


_MOST_TOKENS = 4_000_000
_LONGEST = 4_000_000  # characters of a reply that are kept


def read_reply(identifier: str, answer: Any, letters: int) -> Reply:
    """An empty completion is a reply: it was paid for. A refusal is one, too."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise RefusedError(0, f"the answer holds no message: {str(answer)[:80]!r}")
    refusal = message.get("refusal")
    finish = choice.get("finish_reason")
    text = _content(message.get("content"))
    kind = STOPPED
    if finish == "length":
        kind = CUT
    if finish == "content_filter" or (isinstance(refusal, str) and refusal):
        kind, text = REFUSED, text or str(refusal or "")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        identifier,
        text[:_LONGEST],
        kind,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _letters(choice.get("logprobs"), letters),
        name_of(answer),
        name_of(answer, "system_fingerprint"),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _content(value: Any) -> str:
    """Text, nothing, or a list of parts of which some are text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    raise RefusedError(0, f"the message's content is {type(value).__name__}; expected text")


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if known else None


def _letters(logprobs: Any, letters: int) -> tuple[float | None, ...]:
    """Log-probability of each letter as the first token: summed over all spellings that the server lists."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top_logprobs = first.get("top_logprobs") if isinstance(first, dict) else None
    if not letters or not isinstance(top_logprobs, list):
        return ()
    letter_logprobs: dict[str, float] = {}
    for row in top_logprobs:
        token, value = (row.get("token"), row.get("logprob")) if isinstance(row, dict) else ("", 0)
        if isinstance(token, str) and isinstance(value, int | float) and value <= 1e-6:
            word = token.strip(" \n▁Ġ(")
            known = letter_logprobs.get(word, -math.inf)
            letter_logprobs[word] = (
                known + math.log1p(math.exp(value - known))
                if known >= value
                else (value + math.log1p(math.exp(known - value)))
            )
    return tuple(letter_logprobs.get(chr(ord("A") + n)) for n in range(letters))


STAGE = "ask"
FAILED = "the endpoint failed"  # a reason that may be gone the next time
CHAT = "/chat/completions"
TOP = 20  # likeliest first tokens that a server lists: what the protocol allows
_UNREADABLE = 3  # attempts at an answer that is no JSON: a proxy cut it, and the next may be whole
_PROBE_TOKENS = 16
_TOO_LONG = (
    "context length",
    "context_length",
    "too long",
    "maximum context",
    "max_model_len",
    "too many tokens",
    "exceeds the model",
)

_OPTIONAL = ("response_format", "seed")  # not every server has them
_OPTIONAL_WORDS = (*_OPTIONAL, "json_schema", "schema", "grammar", "guided", "structured")
_CHARACTERS_PER_TOKEN, _IMAGE_TOKENS, _REPLY_TOKENS = (
    4,
    1_280,
    512,
)  # expected, before a reply tells


@dataclass
class ChatEndpoint:
    """An Asker. ``logprobs``: ask for the first token's likeliest letters, too. Pictures travel as data
    URLs; temperature is 0; ``token_field`` is what the server calls the limit of a reply. ``seed``: sent
    with top_p 1. A prompt's schema and the seed are sent until the server refuses a request with them
    and takes it without; from then on they are left out (``refused``: why, by field).

    ``answered``: a prompt that the model answered, now or in an earlier run. Where requests fail, it is
    sent again, for a short reply (see ServerWatch)."""

    connection: Connection
    model: str
    server: str = "unknown"
    max_tokens: int = 64
    concurrency: int = 4
    dtype: str = "unknown"
    logprobs: bool = False
    token_field: str = "max_tokens"
    seed: int | None = None
    tokens: TokenPace = field(default_factory=TokenPace)
    refused: dict[str, str] = field(default_factory=dict)
    answered: Prompt | None = field(default=None, repr=False)
    _taken: set[str] = field(default_factory=set)
    _watch: ServerWatch = field(default_factory=ServerWatch, repr=False)
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
            **({} if self.seed is None else {"seed": str(self.seed), "top_p": "1"}),
        }

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        self._watch.begin()
        self.connection.stopped.clear()

        def ask(prompt: Prompt) -> Reply | Dropped:
            reply = self._ask(prompt)
            if isinstance(reply, Reply):
                # here, in its own thread: an interrupt must not lose a reply that was paid for
                keep(reply)
            return reply

        yield from in_parallel(ask, prompts, self.concurrency, self.connection.stop)

    def _ask(self, prompt: Prompt) -> Reply | Dropped:
        request = prompt.request
        try:
            body = self._body(prompt)
        except ImageError as error:
            return Dropped(STAGE, request.id, error.reason, error.detail)
        problem: RefusedError | None = None
        for _ in range(_UNREADABLE):
            try:
                reply = self._post(prompt, body)
                # Once more: a text that came in parts is joined by now.
                reply = replace(reply, text=self.connection.redact(reply.text))
            except RefusedError as refused:
                problem = refused
                if refused.status:
                    break
                continue
            except UnansweredError as silent:
                problem = self._watch.unanswered(self.connection, silent, self._again)
                break
            self._watch.succeeded()
            self.answered = prompt
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
        if self.seed is not None:
            body |= {"top_p": 1, "seed": self.seed}
        if prompt.schema is not None:
            named = {"name": "reply", "schema": prompt.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    @property
    def decoding(self) -> Mapping[str, str]:
        """By optional field whether the server takes it; empty before the first reply."""
        taken = dict.fromkeys(sorted(self._taken), "sent")
        return taken | {name: f"refused: {message}" for name, message in self.refused.items()}

    def _post(self, prompt: Prompt, body: Mapping[str, Any]) -> Reply:
        """Send the body. A refusal may be due to an optional field that the server has not accepted before:
        then the request is sent without it, and if that is answered, so are all later requests."""
        body = {name: value for name, value in body.items() if name not in self.refused}
        try:
            reply = self._once(prompt, body)
        except RefusedError as refused:
            doubtful = [name for name in _OPTIONAL if name in body and name not in self._taken]
            if not doubtful or not _about_the_request(refused):
                raise
            for without in _subsets(doubtful):
                shorter = {name: value for name, value in body.items() if name not in without}
                try:
                    reply = self._once(prompt, shorter)
                except RefusedError:
                    continue
                with self._lock:
                    self.refused |= dict.fromkeys(without, refused.detail)
                break
            else:
                raise
        with self._lock:
            self._taken |= {name for name in _OPTIONAL if name in body} - set(self.refused)
        return reply

    def _once(self, prompt: Prompt, body: Mapping[str, Any]) -> Reply:
        with self.tokens.request(_expected_tokens(prompt, self.max_tokens)) as spent:
            answer = self.connection.post(CHAT, body)
            reply = read_reply(prompt.request.id, answer, prompt.letters)
            if reply.prompt_tokens is not None and reply.reply_tokens is not None:
                spent.tokens = reply.prompt_tokens + reply.reply_tokens
        return reply

    def _refused(self, request: Request, refused: RefusedError) -> Dropped:
        broken = refused.status >= 500 or refused.status == 0
        long = any(words in refused.detail.lower() for words in _TOO_LONG)
        message = f"status {refused.status}: {refused.detail}" if refused.status else refused.detail
        if refused.status == 404:
            raise EndpointError(
                f"{self.connection.url} does not serve {self.model}: {refused.detail}"
            )
        # A prompt that is too long does not count as a failure of the server.
        self._watch.refused(self.connection, refused, self._again, counts=not long)
        if long:
            return Dropped(STAGE, request.id, "prompt too long", message)
        reason = FAILED if broken else "refused by the endpoint"
        return Dropped(STAGE, request.id, reason, message)

    @property
    def _again(self) -> Callable[[Connection], object] | None:
        """Sends a prompt that was answered before; None where there is none."""
        prompt = self.answered
        if prompt is None:
            return None

        def send(connection: Connection) -> object:
            body = self._body(replace(prompt, letters=0, schema=None))
            body = {name: value for name, value in body.items() if name not in self.refused}
            body[self.token_field] = _PROBE_TOKENS
            return connection.post(CHAT, body)

        return send


def _about_the_request(refused: RefusedError) -> bool:
    """Whether leaving a field out may help: not for a broken server, unless it names the field."""
    message = refused.detail.lower()
    if refused.status >= 500:
        return any(word in message for word in _OPTIONAL_WORDS)
    return refused.status in (400, 415, 422) and not any(words in message for words in _TOO_LONG)


def _subsets(names: list[str]) -> list[tuple[str, ...]]:
    """Fields to leave out: each alone, then all."""
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return [*alone, tuple(names)] if len(names) > 1 else alone


def _expected_tokens(prompt: Prompt, most: int) -> int:
    letters = sum(len(part.text) for part in prompt.request.content if isinstance(part, Text))
    images = len(prompt.request.images) * _IMAGE_TOKENS
    return letters // _CHARACTERS_PER_TOKEN + images + min(most, _REPLY_TOKENS)
