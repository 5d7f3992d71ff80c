"""The capabilities of an endpoint, by three tiny requests whose right answer is known."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PIL import Image

from heldout.errors import InputError
from heldout.image import ImageRef, InlineBytes
from heldout.model.endpoint._read import (
    PromptTokens,
    chat_body,
    completion_body,
    ending,
    read_chat,
    read_completion,
    spell,
)
from heldout.model.endpoint.connection import (
    MODELS,
    Connection,
    EndpointError,
    RefusedError,
)
from heldout.model.request import Request, Text

_QUESTION, _ANSWER = "Is the sky blue?", "yes"
_DOCUMENT = "The quick brown fox jumps over the lazy dog, and nobody asks the dog about it."
_LETTERS_PER_TOKEN = 4.0


@dataclass(frozen=True)
class Ability:
    works: bool
    reason: str


@dataclass(frozen=True)
class Capabilities:
    model: str
    served: tuple[str, ...]
    server: str
    chat: Ability  # answers in the model's own chat template
    images: Ability
    completions: Ability  # plain documents
    letters_per_token: float = _LETTERS_PER_TOKEN


def probe(connection: Connection, model: str | None) -> Capabilities:
    named, served, server = named_model(connection, model)
    ratio = _LETTERS_PER_TOKEN

    def chat() -> PromptTokens:
        return _chat(connection, named)

    def pictures() -> PromptTokens:
        return _chat(connection, named, _picture())

    def completions() -> PromptTokens:
        body = completion_body(named, _DOCUMENT)
        return read_completion(connection.post("/completions", body))

    asked = _ability(chat, _answers, connection.redact)
    plain = _ability(pictures, _answers, connection.redact)
    images = plain[0]
    if images.works and asked[1] is not None and plain[1] is not None:
        more = len(plain[1].tokens) - len(asked[1].tokens)
        message = f"a picture adds {more} tokens to the prompt"
        images = Ability(more > 0, message if more > 0 else f"{message}: it is dropped")
    echoed, prompt = _ability(completions, _echoes, connection.redact)
    if echoed.works and prompt is not None:
        ratio = max(1.0, len(_DOCUMENT) / max(1, len(prompt.tokens) - 1))
    return Capabilities(named, served, server, asked[0], images, echoed, ratio)


def named_model(connection: Connection, model: str | None) -> tuple[str, tuple[str, ...], str]:
    """The model to ask, all that are served, and who serves them."""
    served, server = _served(connection)
    named = model or (served[0] if len(served) == 1 else None)
    if named is None:
        message = (
            f"it serves {', '.join(served)}"
            if served
            else f"{MODELS} is not there (is the address right?)"
        )
        raise InputError(
            f"{connection.place()}: name the model with the setting {connection.setting('model')}; {message}"
        )
    if served and named not in served:
        raise InputError(
            f"{connection.place()} does not serve '{named}'; it serves {', '.join(served)}"
        )
    return named, served, server


def _served(connection: Connection) -> tuple[tuple[str, ...], str]:
    try:
        answer = connection.get(MODELS)
    except RefusedError as refused:
        if refused.status == 404:
            return (), "unknown"
        message = (
            f"{refused.detail} (status {refused.status})" if refused.status else refused.detail
        )
        raise EndpointError(
            f"{connection.place(MODELS)}: {message}. Is this the address of an OpenAI-compatible API?"
        ) from refused
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise EndpointError(
            f"{connection.place(MODELS)} is not a list of models: is this an OpenAI-compatible API?"
        )
    rows = [row for row in rows if isinstance(row, dict)]
    names = tuple(str(row["id"]) for row in rows if isinstance(row.get("id"), str))
    owners = sorted({str(row.get("owned_by"))[:40] for row in rows if row.get("owned_by")})
    return names, ", ".join(owners) or "unknown"


def _ability(
    ask: Callable[[], PromptTokens],
    judge: Callable[[PromptTokens, Callable[[str], str]], str],
    redact: Callable[[str], str],
) -> tuple[Ability, PromptTokens | None]:
    try:
        prompt = ask()
    except RefusedError as refused:
        status = f" (status {refused.status})" if refused.status else ""
        return Ability(False, f"{refused.detail}{status}"), None
    problem = judge(prompt, redact)
    return Ability(
        not problem, problem or f"{len(prompt.tokens)} tokens with log-probabilities"
    ), prompt


def _answers(prompt: PromptTokens, redact: Callable[[str], str]) -> str:
    span = ending(prompt.tokens, _ANSWER)
    if span is None:
        return f"the prompt ends in {prompt.end(redact)!r}, not in the answer that was given"
    if any(prompt.logprobs[place] is None for place in range(*span)):
        return "the answer's tokens have no log-probability"
    return ""


def _echoes(prompt: PromptTokens, redact: Callable[[str], str]) -> str:
    for leading in range(min(4, len(prompt.tokens))):
        for behind in (1, 0):
            body = slice(leading, len(prompt.tokens) - behind)
            if spell(prompt.tokens[body], _DOCUMENT) is not None:
                empty = sum(value is None for value in prompt.logprobs[body])
                return "" if empty <= 1 else f"{empty} tokens of the prompt have no log-probability"
    if len(prompt.tokens) <= 2:
        return "log-probabilities of the generated token alone: echo is not supported with logprobs"
    return "the echoed tokens do not spell the prompt"


def _chat(connection: Connection, model: str, *pictures: ImageRef) -> PromptTokens:
    request = Request("probe", (*pictures, Text(_QUESTION), Text(_ANSWER, scored=True)))
    return read_chat(connection.post("/chat/completions", chat_body(model, request)))


def _picture() -> ImageRef:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(buffer, "PNG")
    return ImageRef("probe", InlineBytes(buffer.getvalue(), "probe"))


def as_json(can: Capabilities) -> dict[str, Any]:
    abilities = {"chat": can.chat, "images": can.images, "completions": can.completions}
    return {
        "model": can.model,
        "served": list(can.served),
        "server": can.server,
        **{
            name: {"works": ability.works, "reason": ability.reason}
            for name, ability in abilities.items()
        },
    }
