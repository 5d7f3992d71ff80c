"""Which of the options shown a reply chooses: by letter, by its words, or by a sentence that states it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from heldout.benchmark.benchmark import normal
from heldout.benchmark.grading._numbers import plain_math, same_formula

# A reply as plain text: without markup, and without reasoning between tags.


_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_TAG, _END = "<answer>", "</answer>"
_BOXED = "\\boxed{"
_BRACE = re.compile(r"\\?[{}]")
# from the end; a reply has one box, hostile text has thousands
_MOST_BOXES, _LONGEST_BOX = 20, 2_000
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
    """The content of the last <answer>, or of the last \\boxed{}; None without either."""
    place = reply.lower().rfind(_TAG)
    if place >= 0:
        inner = reply[place + len(_TAG) :]
        end = inner.lower().find(_END)
        return inner[: end if end >= 0 else None].strip()
    return _last_box(reply)


def _last_box(reply: str) -> str | None:
    """The content of the last \\boxed{} that is closed."""
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


# Outcomes of grading.


OUTCOMES = ("right", "wrong", "unparsed", "refused")


class Grade(NamedTuple):
    """``parsed`` is the letter chosen, or an open answer's text; empty where no rule read one."""

    outcome: str
    parsed: str
    rule: str


AMBIGUOUS, CONTRADICTORY, UNREADABLE = "ambiguous", "contradictory", "unreadable statement"

_LETTERED = re.compile(
    r"(?:option|choice|answer)?\s*[(\[{]?\s*([A-Za-z])\s*(?P<end>\s*[-–—](?=\s)|[)\]}]?[.:,)]?)"
    r"(?:\s*(?P<text>.+))?",
    re.DOTALL | re.IGNORECASE,
)
_EMPHASIS = str.maketrans("", "", "*`$#")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_REASON = re.compile(
    r"[,.;:]?\s+(?:because|since|as (?:the|it|this|there|shown|seen|indicated)|given that)\b"
)
# "The answer is …", "Answer: …", "I would choose …": what follows has to be an option and nothing else.
_STATEMENT = re.compile(
    r"(?:\b(?:the|my|your|its|so|thus|hence|therefore|final|correct|right|best|most|likely|appropriate"
    r"|accurate|suitable)[,\s]+)*"
    r"\b(?:answer|option|choice|selection)\b"
    r"(?:\s+(?:to|for|of)\s+(?:the|this|your|that)\s+(?:question|image|picture))?"
    r"(?:\s*[:=：]|\s+(?:is|would be|should be|must be|seems to be|appears to be|will be))"
    r"\s*(?:[:\-]|therefore|thus|most likely|likely|probably|clearly|indeed|definitely)?[\s,]*",
    re.IGNORECASE,
)
_CHOOSING = re.compile(
    r"\b(?:i|i'd|i'll|we)\s+(?:would\s+|will\s+|'d\s+)?(?:choose|pick|select|go with|answer)\s*:?\s+",
    re.IGNORECASE,
)
_IS_RIGHT = re.compile(
    r"^(?:(?:so|thus|hence|therefore|the)[,\s]+)*(.{1,300}?)\s+is\s+(?:the\s+)?(?:answer|(?:most\s+)?"
    r"(?:correct|right|best|appropriate|accurate)(?:\s+(?:answer|option|choice|one))?)$",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:not|never|if|whether|unless|unlikely|doubt|nor|neither|cannot|can't|unsure|unclear|either"
    r"|\w+n't|suppose|assume|assuming|might|could|may)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(r"\bfinal\b", re.IGNORECASE)
_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_REST = 600  # characters around "the answer is" that are looked at
_MOST = 50  # most statements of a reply that repeats itself
_POLES = (frozenset({"yes", "no"}), frozenset({"true", "false"}))


class ChoiceReading(NamedTuple):
    """``place`` is the option chosen, None where the reply chooses none; ``rule``: why."""

    place: int | None
    rule: str


def letter(place: int) -> str:
    """The letter an option is shown with."""
    return chr(ord("A") + place)


def read_whole(text: str, options: Sequence[str]) -> ChoiceReading | None:
    """``text`` as one option and nothing else; None where it is something else."""
    text = bare(text)
    words = same(text)
    if not words:
        return None
    named = [place for place, option in enumerate(options) if same(option) == words]
    lettered = _by_letter(text, options)
    if lettered is not None and lettered.place is None:
        return lettered if not named else _one(named, "option text")
    if lettered is not None and named and lettered.place not in named:
        return ChoiceReading(None, AMBIGUOUS)  # options "B", "A": is "A" a letter or a text?
    if lettered is not None:
        return lettered
    return _one(named, "option text") if named else None


def read_choice(reply: str, options: Sequence[str]) -> ChoiceReading | None:
    """The option that the reply chooses; a place of None: it mentions a choice but makes no clear one."""
    whole = read_whole(reply, options)
    if whole is not None:
        return whole
    stated = _statements(reply, options)
    if stated is not None:
        return stated
    return _leading(reply, options)


def _by_letter(text: str, options: Sequence[str]) -> ChoiceReading | None:
    match = _LETTERED.fullmatch(text.strip())
    if match is None:
        return None
    place = ord(match[1].upper()) - ord("A")
    rest = bare(match["text"] or "")
    if place >= len(options):
        # Beyond the options: "Z" chooses nothing. "I: …" may still be an ordinary sentence.
        return None if rest or not match["end"] else ChoiceReading(None, "no such option")
    if not rest:
        return ChoiceReading(place, "letter")
    if not match["end"].strip():
        return None  # "A dog" is not option A
    if same(rest) == same(options[place]):
        return ChoiceReading(place, "letter and text")
    if any(same(rest) == same(option) for option in options):
        return ChoiceReading(None, CONTRADICTORY)
    head, more = _head(rest)
    if more and same(head) == same(options[place]):
        # Where other options follow, it may be their list: sentences that say more are looked at first.
        others = {r.place for r in _parts(more, options)} - {place, None}
        return None if others else ChoiceReading(place, "letter and text")
    return None


def _one(places: Sequence[int], rule: str) -> ChoiceReading:
    return ChoiceReading(places[0], rule) if len(places) == 1 else ChoiceReading(None, AMBIGUOUS)


def _head(text: str) -> tuple[str, str]:
    """The first sentence, or what stands before "because", and the rest."""
    reason, sentence = _REASON.search(text), _SENTENCE.search(text)
    cuts = [match for match in (reason, sentence) if match is not None]
    if not cuts:
        return text, ""
    first = min(cuts, key=lambda match: match.start())
    return text[: first.start()], text[first.end() :]


def _parts(text: str, options: Sequence[str]) -> list[ChoiceReading]:
    parts = [part for part in _SENTENCE.split(text) if part.strip()]
    return [reading for part in parts if (reading := read_whole(part, options)) is not None]


def _statements(reply: str, options: Sequence[str]) -> ChoiceReading | None:
    """Every "the answer is …" has to be clear and all have to agree; a *final* one overrules.

    Prose that only sounds like one ("the popular choice is always the best", "after we pick up Kevin")
    makes a reply unreadable where nothing else is stated, and does not where an answer is.
    """
    statements: list[tuple[bool, ChoiceReading]] = []
    prose: list[ChoiceReading] = []
    for line in reply.splitlines():
        line = line.translate(_EMPHASIS).strip()
        for start, end in _sentences(line):
            right = _IS_RIGHT.match(line[start:end].strip().rstrip(".!"))
            inner = read_whole(right[1], options) if right is not None else None
            if inner is not None:
                statements.append((False, inner))
                continue
            for opening in (_STATEMENT, _CHOOSING):
                for statement in opening.finditer(line, start, end):
                    reading = _stated(line, start, statement, options)
                    if reading.rule == UNREADABLE and not _ANSWER.search(statement[0]):
                        prose.append(reading)
                    else:
                        statements.append((bool(_FINAL.search(statement[0])), reading))
                    if len(statements) + len(prose) > _MOST:
                        return ChoiceReading(None, AMBIGUOUS)
    final = [reading for is_final, reading in statements if is_final]
    readings = final or [reading for _, reading in statements] or prose
    if not readings:
        return None
    places = {reading.place for reading in readings}
    if None in places:
        return ChoiceReading(None, next(r.rule for r in readings if r.place is None))
    if len(places) > 1:
        return ChoiceReading(None, AMBIGUOUS)
    return ChoiceReading(readings[-1].place, "the answer is")


def _sentences(line: str) -> list[tuple[int, int]]:
    cuts = [match.span() for match in _SENTENCE.finditer(line)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(line)]
    return list(zip(starts, ends, strict=True))


def _stated(
    line: str, start: int, statement: re.Match[str], options: Sequence[str]
) -> ChoiceReading:
    if _DOUBT.search(line[max(start, statement.start() - _REST) : statement.start()]):
        return ChoiceReading(None, UNREADABLE)  # "I don't think the answer is A"
    rest = line[statement.end() : statement.end() + _REST].strip()
    whole = read_whole(rest, options)
    if whole is not None:
        return whole
    head, _ = _head(rest)
    inner = read_whole(head, options)
    if inner is None:  # "B. Left lung. The picture shows …": a letter's point is not a full stop
        sentences = [part for part in _SENTENCE.split(rest) if part.strip()]
        inner = read_whole(" ".join(sentences[:2]), options) if len(sentences) > 1 else None
    return inner if inner is not None else ChoiceReading(None, UNREADABLE)


def _leading(reply: str, options: Sequence[str]) -> ChoiceReading | None:
    """An option alone in the first line or sentence, or in the last line, explained elsewhere; no other
    line may be another option."""
    lines = [line for line in reply.splitlines() if line.strip()]
    readable: list[ChoiceReading] = []
    polar = _polar(lines[0] if lines else "", options)
    if polar is not None:
        return polar
    if len(lines) > 1:
        readings = [read_whole(line, options) for line in lines]
        if readings[0] is not None or readings[-1] is not None:
            readable = [reading for reading in readings if reading is not None]
    if not readable and lines:
        head, more = _head(lines[0])
        first = read_whole(head, options) if more or head != lines[0] else None
        if first is not None:
            readable = [first, *_parts(more, options)]
    if not readable:
        return None
    places = {reading.place for reading in readable}
    if None in places or len(places) > 1:
        return ChoiceReading(None, AMBIGUOUS)
    return ChoiceReading(readable[0].place, f"{readable[0].rule}, explained")


def _polar(line: str, options: Sequence[str]) -> ChoiceReading | None:
    """ "Yes, there is a mass": of options yes and no (or true and false) the first word chooses."""
    words = [same(option) for option in options]
    poles = next((pair for pair in _POLES if pair <= set(words)), None)
    pole = leading_pole(line, poles) if poles else None
    if pole is None:
        return None
    return (
        ChoiceReading(words.index(pole), "first word") if pole else ChoiceReading(None, AMBIGUOUS)
    )


def leading_pole(line: str, poles: frozenset[str]) -> str | None:
    """The word of ``poles`` that a sentence opens with; "" for "yes and no"; None for neither."""
    either = "|".join(sorted(poles))
    match = re.match(rf"\W*({either})(?:\s*[,.;:!–—-]\s*|\s*$)(.*)", bare(line), re.I | re.S)
    if re.match(rf"\W*(?:{either})\W+(?:and|or|but)?\W*(?:{either})\b", bare(line), re.I):
        return ""
    return match[1].lower() if match is not None else None
