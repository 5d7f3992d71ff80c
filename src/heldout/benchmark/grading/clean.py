"""A reply as words: without markup, without what a model thought aloud between tags."""

from __future__ import annotations

import re
from typing import NamedTuple

from heldout.benchmark.example import normal
from heldout.benchmark.grading.numbers import plain_math, same_formula

_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_TAG, _END = "<answer>", "</answer>"
_BOXED = "\\boxed{"
_BRACE = re.compile(r"\\?[{}]")
_MOST_BOXES, _LONGEST_BOX = 20, 2_000  # from the end; a reply has one box, an attack has thousands
_SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</s>|<eos>|<end_of_turn>")
_ARTICLE = re.compile(r"^(?:the|an|a)\s+(?=\S)")
_MARKS = str.maketrans("", "", "*_`$#")
LONGEST = 20_000  # characters of a reply, from its end, that are looked at: the rest is a runaway


class CutError(Exception):
    """The model was still thinking when its reply ended."""


def without_thoughts(reply: str) -> str:
    """What follows the thinking; some templates open it in the prompt, so only its end is seen."""
    lowered = reply.lower()
    for end in ("</think>", "</thinking>"):
        place = lowered.rfind(end)
        if place >= 0:
            reply = reply[place + len(end) :]
            lowered = reply.lower()
    if _OPEN_THOUGHT.search(reply):
        raise CutError
    return _SPECIAL.sub(" ", reply[-LONGEST:]).strip()


def tagged(reply: str) -> str | None:
    """What stands in the last <answer>, or in the last \\boxed{}; None without either."""
    place = reply.lower().rfind(_TAG)
    if place >= 0:
        inner = reply[place + len(_TAG) :]
        end = inner.lower().find(_END)
        return inner[: end if end >= 0 else None].strip()
    return _last_box(reply)


def _last_box(reply: str) -> str | None:
    """What stands in the last \\boxed{} that is closed."""
    place = len(reply)
    for _ in range(_MOST_BOXES):
        place = reply.rfind(_BOXED, 0, place)
        if place < 0:
            return None
        start, depth = place + len(_BOXED), 1
        for brace in _BRACE.finditer(reply, start, start + _LONGEST_BOX):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)  # \\{ and \\} are signs
            if not depth:
                return reply[start : brace.start()].strip()
    return None


def bare(text: str) -> str:
    """Without emphasis and quotes around the whole; formulas as plain text."""
    text = plain_math(text).strip()
    if "_" in text and re.fullmatch(r"\w+", text):  # a name such as upper_left keeps its line
        return text
    text = text.translate(_MARKS).strip()
    while len(text) > 1 and (text[0], text[-1]) in {('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’")}:
        text = text[1:-1].strip()
    return text


def same(text: str) -> str:
    """Texts with the same ``same`` are one answer: case, spacing, closing marks, an article and the
    notation of formulas aside."""
    folded = normal(bare(text))
    return same_formula(_ARTICLE.sub("", folded))


# What became of a reply.


OUTCOMES = ("right", "wrong", "unparsed", "refused")


class Grade(NamedTuple):
    """``parsed`` is the letter chosen, or an open answer's text; empty where no rule read one."""

    outcome: str
    parsed: str
    rule: str
