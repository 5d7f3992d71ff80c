"""What a server answered to a chat, as a Reply; anything that is not one is refused with a reason."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from heldout.model.endpoint.connection import RefusedError
from heldout.model.request import CUT, REFUSED, STOPPED, Reply

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
        _name(answer.get("model")),
        _name(answer.get("system_fingerprint")),
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


def _name(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if known else None


def _letters(logprobs: Any, letters: int) -> tuple[float | None, ...]:
    """Log-probability of each letter as the first token: of all the ways to write it that are told."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top_logprobs = first.get("top_logprobs") if isinstance(first, dict) else None
    if not letters or not isinstance(top_logprobs, list):
        return ()
    found: dict[str, float] = {}
    for row in top_logprobs:
        token, value = (row.get("token"), row.get("logprob")) if isinstance(row, dict) else ("", 0)
        if isinstance(token, str) and isinstance(value, int | float) and value <= 1e-6:
            word = token.strip(" \n▁Ġ(")
            known = found.get(word, -math.inf)
            found[word] = (
                known + math.log1p(math.exp(value - known))
                if known >= value
                else (value + math.log1p(math.exp(known - value)))
            )
    return tuple(found.get(chr(ord("A") + n)) for n in range(letters))
