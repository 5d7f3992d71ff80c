"""A reply graded: right, wrong, unparsed or refused, with the rule that read it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heldout.benchmark.grading.choice import AMBIGUOUS, letter, read_choice, read_whole
from heldout.benchmark.grading.clean import CutError, bare, tagged, without_thoughts
from heldout.benchmark.grading.open_answer import read_open
from heldout.benchmark.grading.outcome import OUTCOMES, Grade

__all__ = ["OUTCOMES", "Grade", "grade", "letter"]

_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am)(?: very| really)? sorry\b|i apologi[sz]e|as an ai\b|as a(?:n ai)? language model"
    r"|i(?:'m| am) (?:unable|not able|not allowed|not permitted) to"
    r"|i (?:cannot|can't|can not|won't|will not) (?:help|assist|answer|provide|identify|determine"
    r"|see|view|analy[sz]e|comply|give|recognize|process|access|interpret|make|diagnose|offer)\b"
    r"|(?:it is|it's) not possible to (?:determine|answer|tell|say)|no image (?:was|is|has been)? ?"
    r"(?:provided|attached|visible)|(?:please|could you) (?:provide|upload|share|attach))",
    re.IGNORECASE,
)


def grade(reply: str, gold: str, options: Sequence[str] = (), *, tolerance: float = 0.0) -> Grade:
    """``options`` as they were shown, ``gold`` the right one's letter; without options gold is a text.

    ``tolerance`` is the relative error a number may have; 0: the same number.
    """
    try:
        text = without_thoughts(reply)
    except CutError:
        return Grade("unparsed", "", "thinking was cut off")
    if not bare(text):
        return Grade("unparsed", "", "empty")
    tag = tagged(text)
    if options:
        found = _choice(text, tag, gold, options)
    elif tag is not None:
        found = read_open(tag, gold, tolerance, alone=True)
        found = found._replace(rule=f"answer tag: {found.rule}")
    else:
        found = read_open(text, gold, tolerance)
    outcome, parsed, rule = found
    unread = outcome == "unparsed" or (outcome == "wrong" and not options)
    if unread and _REFUSAL.search(text[:400].replace("’", "'")) and rule != AMBIGUOUS:
        return Grade("refused", "", "refusal")
    return Grade(outcome, parsed, rule)


def _choice(text: str, tag: str | None, gold: str, options: Sequence[str]) -> Grade:
    if tag is not None:
        reading = read_whole(tag, options) or read_choice(tag, options)
        prefix = "answer tag: "
    else:
        reading, prefix = read_choice(text, options), ""
    if reading is None:
        return Grade("unparsed", "", f"{prefix}no rule reads it")
    if reading.place is None:
        return Grade("unparsed", "", prefix + reading.rule)
    chosen = letter(reading.place)
    return Grade("right" if chosen == gold else "wrong", chosen, prefix + reading.rule)
