"""A server's answer as a list of tokens with log-probabilities; anything else is refused with a reason."""

from __future__ import annotations

import base64
import functools
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heldout.image import ImageRef, to_rgb
from heldout.model.endpoint.connection import RefusedError
from heldout.model.request import Request, Text

CLAMPED = -9999.0  # what vLLM writes in place of minus infinity, which JSON does not have
_ABOVE_ZERO = 1e-6
_MOST_TOKENS = 4_000_000
_END = 1000  # tokens: more than any key has


@dataclass(frozen=True)
class PromptTokens:
    """A prompt as the server read it. The first token has no log-probability, nor may a picture's."""

    tokens: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    prompt_tokens: int | None = (
        None  # by the server's own count; more than tokens: it cut the prompt
    )

    def end(self, redact: Callable[[str], str]) -> str:
        """The end of the prompt, for an error message. Tokens may spell the key: it is removed before the text
        is cut, so that no part of it is left."""
        return redact("".join(self.tokens[-_END:]))[-60:]


def read_chat(answer: Any) -> PromptTokens:
    """``prompt_logprobs`` of a chat completion: per token {id: {logprob, rank, decoded_token}} or null.

    The prompt's own token comes first; with ``prompt_logprobs: 1`` the likeliest may follow it.
    """
    prompt_logprobs = _field(answer, "prompt_logprobs")
    if prompt_logprobs is None:  # some servers keep it beside the message
        choices = _field(answer, "choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        prompt_logprobs = _field(first, "prompt_logprobs") if isinstance(first, dict) else None
    if not isinstance(prompt_logprobs, list) or not prompt_logprobs:
        raise RefusedError(0, "the answer has no prompt_logprobs")
    if len(prompt_logprobs) > _MOST_TOKENS:
        raise RefusedError(0, f"{len(prompt_logprobs):,} prompt_logprobs")
    tokens: list[str] = []
    logprobs: list[float | None] = []
    for place in prompt_logprobs:
        if place is None:
            tokens.append("")
            logprobs.append(None)
            continue
        if not isinstance(place, dict) or not place:
            raise RefusedError(
                0, f"prompt_logprobs holds {str(place)[:40]!r}; expected token by id"
            )
        own = next(iter(place.values()))
        if not isinstance(own, dict) or "logprob" not in own:
            raise RefusedError(0, f"prompt_logprobs holds {str(own)[:40]!r}; expected a logprob")
        tokens.append(_word(own.get("decoded_token")))
        logprobs.append(_number(own["logprob"]))
    return PromptTokens(tuple(tokens), tuple(logprobs), _prompt_tokens(answer))


def read_completion(answer: Any) -> PromptTokens:
    """``logprobs`` of an echoed completion: tokens and token_logprobs, the generated one at the end."""
    choices = _field(answer, "choices")
    if not isinstance(choices, list) or not choices:
        raise RefusedError(0, "the answer has no choices")
    logprobs = _field(choices[0], "logprobs")
    if not isinstance(logprobs, dict):
        raise RefusedError(0, "the answer has no logprobs")
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens:
        raise RefusedError(0, "the answer has no tokens and token_logprobs")
    if len(tokens) != len(values) or len(tokens) > _MOST_TOKENS:
        raise RefusedError(0, f"{len(tokens):,} tokens with {len(values):,} token_logprobs")
    return PromptTokens(
        tuple(_word(token) for token in tokens),
        tuple(None if value is None else _number(value) for value in values),
        _prompt_tokens(answer),
    )


def _prompt_tokens(answer: Any) -> int | None:
    usage = _field(answer, "usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 < count <= _MOST_TOKENS else None


def name_of(answer: Any, field: str = "model") -> str:
    """What a server calls the model that answered, or another name in its answer; "" if it does not."""
    value = answer.get(field) if isinstance(answer, dict) else None
    return value[:200].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise RefusedError(
            0, f"the answer holds {type(value).__name__} where an object is expected"
        )
    return value.get(name)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    """A log-probability. NaN and minus infinity pass: they are the model's, and the self-checks'."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedError(0, f"a logprob is {str(value)[:40]!r}; expected a number")
    number = float(value)
    if number > _ABOVE_ZERO:
        raise RefusedError(0, f"a logprob of {number:g}; log-probabilities are at most 0")
    return -math.inf if number <= CLAMPED else min(0.0, number) if number == number else number


# Which of a server's tokens spell a text: every server writes tokens in its own way.
#
# Servers do not write spaces alike (" yes", "▁yes", "Ġyes", or "yes" where a decoder eats the space), so tokens
# and text are compared without them. A character cut into bytes comes as U+FFFD, piece by piece; such
# pieces stand for the characters between what is readable on either side.


CUT = "\N{REPLACEMENT CHARACTER}"
LONGEST_TAIL = 16  # tokens a template may put behind an answer
_SPACES = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n", "ĉ": "\t"})
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_WIDEST = 4  # a piece is part of one character; a run of n pieces is at most n characters


def bare(text: str) -> str:
    """A text without its spaces, which servers write differently."""
    return "".join(text.translate(_SPACES).split())


def bare_token(token: str) -> str:
    return bare(CUT if _BYTE.fullmatch(token) else token)


def spell(tokens: Sequence[str], text: str) -> list[tuple[int, int]] | None:
    """Per token the characters of ``bare(text)`` it spells; None if they do not spell just this text."""
    wanted, at = bare(text), 0
    spans: list[tuple[int, int]] = []
    index = 0
    pieces = [bare_token(token) for token in tokens]
    while index < len(pieces):
        if CUT not in pieces[index]:
            if not wanted.startswith(pieces[index], at):
                return None
            spans.append((at, at + len(pieces[index])))
            at += len(pieces[index])
            index += 1
            continue
        last = index
        while last < len(pieces) and (CUT in pieces[last] or not pieces[last]):
            last += 1
        following = pieces[last] if last < len(pieces) else None
        reach = sum(max(len(piece), 1) for piece in pieces[index:last])
        end = _end_of_run(wanted, at, reach, following)
        if end is None:
            return None
        spans += [(at, end)] * (last - index)
        at, index = end, last
    return spans if at == len(wanted) else None


def ending(tokens: Sequence[str], text: str) -> tuple[int, int] | None:
    """The last tokens that spell ``text``, as a slice; a template's own end may follow them."""
    for tail in range(min(LONGEST_TAIL, len(tokens) - 1) + 1):
        end = len(tokens) - tail
        start = _start(tokens, end, text)
        if start is not None:
            return start, end
    return None


def _start(tokens: Sequence[str], end: int, text: str) -> int | None:
    wanted = bare(text)
    if not wanted or not bare_token(tokens[end - 1]):
        return None
    first_place, readable = None, 0
    for start in range(end - 1, -1, -1):
        piece = bare_token(tokens[start])
        readable += len(piece.replace(CUT, ""))
        if readable > len(wanted) or end - start > _WIDEST * len(wanted) + LONGEST_TAIL:
            break
        # The longest run that fits, so that a character's first byte is included; never a space.
        if piece and spell(tokens[start:end], text) is not None:
            first_place = start
    return first_place


def _end_of_run(text: str, at: int, reach: int, following: str | None) -> int | None:
    """Where a run of unreadable pieces ends: the nearest place from which the readable goes on."""
    if following is None:
        return len(text) if at < len(text) <= at + reach else None
    for end in range(at + 1, min(len(text), at + reach) + 1):
        if text.startswith(following, end):
            return end
    return None


# A request as a server reads it: a chat whose last words are the answer, or one plain document.


# Both protocols generate at least one token; what it is does not matter.
_QUIET: dict[str, Any] = {"max_tokens": 1, "temperature": 0, "stream": False}


def chat_body(model: str, request: Request) -> dict[str, Any]:
    """The answer is an assistant's turn that goes on, so that no template tail is scored with it."""
    parts: list[dict[str, Any]] = []
    for part in request.content:
        if isinstance(part, ImageRef):
            parts.append({"type": "image_url", "image_url": {"url": data_url(part)}})
        elif not part.scored:
            parts.append({"type": "text", "text": part.text})
    messages = [
        {"role": "user", "content": parts or [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": request.target},
    ]
    return {
        "model": model,
        "messages": messages,
        "prompt_logprobs": 1,  # not 0: some versions take that for "none"
        "add_generation_prompt": False,
        "continue_final_message": True,
        **_QUIET,
    }


def document(request: Request) -> str:
    """The parts as one text. A turn without a chat template: the answer on a line of its own."""
    texts = [part for part in request.content if isinstance(part, Text)]
    if not request.turn:
        return "".join(part.text for part in texts)
    asked = "".join(part.text for part in texts if not part.scored)
    return f"{asked}\n{request.target}" if asked else request.target


def completion_body(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "echo": True, "logprobs": 1, **_QUIET}


@functools.lru_cache(maxsize=16)  # questions on one picture come one after the other
def data_url(ref: ImageRef) -> str:
    """The pixels that a local backend would see, as lossless PNG: rotation, depth and palette are applied
    here."""
    buffer = io.BytesIO()
    to_rgb(ref.open()).save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
