"""A reply graded: right, wrong, unparsed or refused, with the rule that read it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heldout.benchmark.grading._numbers import Quantity, agree, quantity
from heldout.benchmark.grading.choice import (
    AMBIGUOUS,
    OUTCOMES,
    CutError,
    Grade,
    bare,
    leading_pole,
    letter,
    read_choice,
    read_whole,
    same,
    tagged,
    without_thoughts,
)

# Answers that are not chosen from a list: yes or no, a number, or words compared as wholes.


_POLES = frozenset({"yes", "no"})
_STATED = re.compile(
    r"(?:(?:so|thus|hence|therefore)[,\s]+)?(?:the\s+|my\s+)?(?:final\s+|correct\s+|right\s+|short\s+)?answer"
    r"\s*(?::|\s+is(?:\s*:)?)\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
_FRAMED_NUMBER = re.compile(
    r"(?:there (?:is|are)|it is|i (?:can )?(?:see|count))\s+(?:only |exactly )?(\S+)(?:\s+[\w-]+){0,3}",
    re.I,
)
_VARIABLE = re.compile(r"\$?[A-Za-zα-ωΑ-Ω](?:_?\d)?\s*=\s*([^=<>≤≥]+?)\$?")
_SEVERAL = re.compile(r"\b(?:or|either)\b", re.IGNORECASE)
_LONGEST = 8  # words a phrase may have over the gold's: a longer reply is prose that no rule reads


def read_open(text: str, gold: str, tolerance: float, *, alone: bool = False) -> Grade:
    """``alone``: the text was marked as the answer, so that all of it counts."""
    rule = "exact match"
    stated = _last_statement(text)
    if stated is not None:
        text, rule = stated, "the answer is"
    phrase = bare(text).strip()
    phrase, gold = _one_side(phrase, gold)
    if same(gold) in _POLES:
        return _polar(phrase, same(gold), rule)
    if same(phrase) == same(gold):
        return Grade("right", phrase, rule)
    wanted_parts = _parts(bare(gold))
    if wanted_parts == _parts(phrase) and len(wanted_parts) > 1:
        return Grade("right", phrase, "same parts")
    wanted = quantity(bare(gold))
    if wanted is not None:
        return _number(phrase, wanted, tolerance, rule)
    if _SEVERAL.search(phrase) and not _SEVERAL.search(gold):
        parts = [same(part) for part in re.split(r",|\bor\b|\beither\b", phrase)]
        if same(gold) in parts:
            return Grade("unparsed", "", AMBIGUOUS)
    if not alone and len(phrase.split()) > len(gold.split()) + _LONGEST:
        return Grade("unparsed", "", "prose")
    return Grade("wrong", phrase, rule)


def _one_side(phrase: str, gold: str) -> tuple[str, str]:
    """ "x = 4" equals "4", where only one of the two names the variable."""
    ours, theirs = _VARIABLE.fullmatch(phrase), _VARIABLE.fullmatch(bare(gold))
    if (ours is None) == (theirs is None):
        return phrase, gold
    return (ours[1], gold) if ours is not None else (phrase, theirs[1] if theirs else gold)


def _parts(text: str) -> frozenset[str]:
    """The parts of a list: "lung, heart" names what "heart and lung" does."""
    return frozenset(same(part) for part in re.split(r"[,;]|\band\b", text) if same(part))


def _last_statement(text: str) -> str | None:
    """What the last "the answer is" that opens a sentence states, up to the end of its sentence."""
    tag = None
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
        match = _STATED.fullmatch(sentence.strip().strip("*").strip())
        if match is not None:
            tag = match[1]
    return tag


def _polar(phrase: str, gold: str, rule: str) -> Grade:
    first = next((line for line in phrase.splitlines() if line.strip()), "")
    pole = leading_pole(first, _POLES)
    if pole == "":
        return Grade("unparsed", "", AMBIGUOUS)
    if pole is None:
        return Grade("unparsed", "", "neither yes nor no")
    exact = same(phrase) in _POLES
    return Grade("right" if pole == gold else "wrong", pole, rule if exact else "first word")


def _number(phrase: str, wanted: Quantity, tolerance: float, rule: str) -> Grade:
    framed = _FRAMED_NUMBER.fullmatch(phrase.rstrip("."))
    read = quantity(phrase) or (quantity(framed[1]) if framed else None)
    if read is None:
        short = len(phrase.split()) <= 3 and not re.search(r"\d", phrase)
        return Grade("wrong", phrase, rule) if short else Grade("unparsed", "", "no number alone")
    right = agree(read, wanted, tolerance)
    return Grade("right" if right else "wrong", phrase, "number")


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
        reading = _choice(text, tag, gold, options)
    elif tag is not None:
        reading = read_open(tag, gold, tolerance, alone=True)
        reading = reading._replace(rule=f"answer tag: {reading.rule}")
    else:
        reading = read_open(text, gold, tolerance)
    outcome, parsed, rule = reading
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
