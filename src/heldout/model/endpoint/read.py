"""What a server answered, as a list of told tokens; anything that is not one is refused with a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heldout.model.endpoint.connection import RefusedError

CLAMPED = -9999.0  # what vLLM writes in place of minus infinity, which JSON does not have
_ABOVE_ZERO = 1e-6
_MOST_TOKENS = 4_000_000
_END = 1000  # tokens: more than any key has


@dataclass(frozen=True)
class Told:
    """A prompt as the server read it. The first token has no log-probability, nor may a picture's."""

    tokens: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    prompt_tokens: int | None = (
        None  # by the server's own count; more than tokens: it cut the prompt
    )

    def end(self, redact: Callable[[str], str]) -> str:
        """The last words, for a complaint. Tokens may spell the key: it is struck out of more than is
        shown, so that none of it is left where the text is cut."""
        return redact("".join(self.tokens[-_END:]))[-60:]


def read_chat(answer: Any) -> Told:
    """``prompt_logprobs`` of a chat completion: per token {id: {logprob, rank, decoded_token}} or null.

    The prompt's own token comes first; with ``prompt_logprobs: 1`` the likeliest may follow it.
    """
    found = _field(answer, "prompt_logprobs")
    if found is None:  # some servers keep it beside the message
        choices = _field(answer, "choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        found = _field(first, "prompt_logprobs") if isinstance(first, dict) else None
    if not isinstance(found, list) or not found:
        raise RefusedError(0, "the answer has no prompt_logprobs")
    if len(found) > _MOST_TOKENS:
        raise RefusedError(0, f"{len(found):,} prompt_logprobs")
    tokens: list[str] = []
    logprobs: list[float | None] = []
    for place in found:
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
    return Told(tuple(tokens), tuple(logprobs), _prompt_tokens(answer))


def read_completion(answer: Any) -> Told:
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
    return Told(
        tuple(_word(token) for token in tokens),
        tuple(None if value is None else _number(value) for value in values),
        _prompt_tokens(answer),
    )


def _prompt_tokens(answer: Any) -> int | None:
    usage = _field(answer, "usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 < count <= _MOST_TOKENS else None


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
