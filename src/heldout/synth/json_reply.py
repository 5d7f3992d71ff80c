"""JSON out of a model's reply: as it stands, or repaired where only its wrapping is wrong."""

from __future__ import annotations

import json
import re
from typing import Any

from heldout.benchmark.grading import grade
from heldout.benchmark.grading.clean import CutError, without_thoughts
from heldout.model.request import CUT, REFUSED, Reply

MOST_CHARACTERS = 200_000
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


class UnreadableError(Exception):
    """``reason`` is one of a few words that can be counted; the message says what was wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_object(reply: Reply) -> tuple[dict[str, Any], bool]:
    """The one JSON object of a reply, and whether it had to be repaired. Duplicate keys are no
    object: nobody could say which of the two values was meant."""
    if reply.finish == REFUSED:
        raise UnreadableError("refused", f"{reply.text:.120}")
    if reply.finish == CUT:
        raise UnreadableError("cut off", "the reply reached its longest length")
    try:
        text = without_thoughts(reply.text).strip()
    except CutError as error:
        raise UnreadableError("cut off", "the reply ends inside its thoughts") from error
    if not text:
        raise UnreadableError("empty reply", "the model said nothing")
    if len(text) > MOST_CHARACTERS:
        raise UnreadableError("too long", f"{len(text):,} characters")
    try:
        return _checked(_loads(text)), False
    except ValueError:
        pass
    for candidate in _candidates(text):
        try:
            return _checked(_loads(candidate)), True
        except ValueError:
            continue
    refused = "{" not in text and grade(text, "an object").outcome == "refused"
    raise UnreadableError("refused" if refused else "malformed JSON", f"{text:.120}")


def _candidates(text: str) -> list[str]:
    """What may be the object: inside a code fence, or from the first brace to the last; then
    without trailing commas and with straight quotes."""
    found = [match.strip() for match in _FENCED.findall(text)]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    repaired = [_TRAILING_COMMA.sub(r"\1", one) for one in found]
    straight = [one.replace("“", '"').replace("”", '"') for one in repaired]
    return list(dict.fromkeys([*found, *repaired, *straight]))


def _loads(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _checked(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value
