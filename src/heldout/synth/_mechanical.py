"""Criteria that code can check, beside the verifier's opinion.

Each check returns True (met), False (not met; for a penalty: True means that it applies) or None
where words alone cannot decide. Checks are narrow on purpose: a False by code is an obvious fault in the text.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from heldout.benchmark import normal
from heldout.errors import counted, percent
from heldout.synth.draft import LETTERS, Draft, PaperFigure

MOST_WORDS, MOST_SENTENCES = 35, 2
_OUTLIER = 2.0  # times the median length of the other options, and by more than a few characters
_OVERLONG, _BY = 1.5, 12  # times the longest wrong option, and by more characters than this
_LEAKED = 0.75  # of the right option's content words that stand in the question

_FORBIDDEN = re.compile(r"\b(?:captions?|contexts?)\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\b(?:captions?|contexts?|legends?|passages?|paragraphs?|manuscripts?|authors?|vignette)\b"
    r"|\baccording to the (?:text|description|figure|article|paper|study|report)\b"
    r"|\b(?:described|mentioned|stated|reported|noted) (?:in|by) the (?:text|article|paper|study"
    r"|report|description)\b"
    r"|\b(?:fig(?:ure)?|table)\.? ?\d+[a-z]?\b|\bthe (?:provided|given|accompanying) (?:text"
    r"|description|information)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:none|n/?a|null|nil|nothing|other|unknown|option [a-e]|[a-e]|[-–—.?…]*)", re.I
)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"[.!?]+(?=\s+[A-Z(\"“]|\s*$)")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|vs|cf|approx|Dr|No|ca|et al|[A-Z])\.")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_AGE = re.compile(
    r"\b(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)[- ]"
    r"(year|month|week|day)s?[- ]old\b|\baged? (?:of )?(\d{1,3})\b",
    re.IGNORECASE,
)
_SEX = {
    "male": ("male", "man", "boy", "men", "boys", "males", "gentleman"),
    "female": ("female", "woman", "girl", "women", "girls", "females", "lady"),
}
_SPELT = dict(
    zip(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ],
        map(str, range(1, 13)),
        strict=True,
    )
)
_UNIT = re.compile(
    r"\b(\d+(?:\.\d+)?)\s*(mm|cm|µm|um|nm|kg|mg|ml|°|degrees?|%|mmhg|hz|khz|mhz|hours?|weeks?|months?|years?)(?!\w)",
    re.IGNORECASE,
)
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "has",
        "have",
        "in",
        "into",
        "is",
        "it",
        "its",
        "most",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "were",
        "which",
        "with",
        "without",
        "what",
        "who",
        "whose",
        "than",
        "then",
        "there",
        "these",
        "those",
        "shows",
        "show",
        "showing",
        "shown",
        "seen",
    ]
)


@dataclass(frozen=True)
class CodeCheck:
    """What code says about one criterion, and why."""

    met: bool | None
    note: str = ""


Check = Callable[[Draft, PaperFigure], CodeCheck]


def check_by_code(draft: Draft, figure: PaperFigure) -> dict[str, CodeCheck]:
    """By criterion what code can say about an item."""
    return {key: check(draft, figure) for key, check in _CHECKS.items()}


def _self_contained(draft: Draft, _: PaperFigure) -> CodeCheck:
    match = _POINTING.search(draft.question)
    return CodeCheck(None) if match is None else CodeCheck(False, f"points to '{match[0]}'")


def _vocabulary(draft: Draft, figure: PaperFigure) -> CodeCheck:
    """Ages, sexes and measures of the question must be in the sources. True where all of several do."""
    sources = " ".join((figure.caption, *figure.references))
    facts = facts_of(draft.question)
    if not facts:
        return CodeCheck(None)
    missing = sorted(facts - facts_of(sources))
    if missing:
        return CodeCheck(False, f"not in the sources: {', '.join(missing)}"[:200])
    return CodeCheck(True, f"in the sources: {', '.join(sorted(facts))}"[:200])


def facts_of(text: str) -> set[str]:
    """Ages, sexes and measures in a text, each in one spelling."""
    faults = set()
    for match in _AGE.finditer(text):
        number = (match[1] or match[3]).lower()
        faults.add(f"age {_SPELT.get(number, number)} {(match[2] or 'year').lower()}")
    words = {word.lower() for word in _WORD.findall(text)}
    # "six-year-old" is one word, and its sex is the next: words are enough here.
    faults |= {f"sex {sex}" for sex, names in _SEX.items() if words & set(names)}
    for number, unit in _UNIT.findall(text):
        faults.add(f"{float(number):g} {unit.lower().rstrip('s').replace('degree', '°')}")
    return faults


def _diagnosis_leak(draft: Draft, _: PaperFigure) -> CodeCheck:
    """The right option's own words in the question, more than any wrong option's."""
    asked = content_words(draft.question)
    shares = {
        letter: len(words & asked) / max(1, len(words))
        for letter, option in _options(draft)
        for words in [content_words(option)]
    }
    own = shares.pop(draft.answer)
    phrase = normal(draft.options[LETTERS.index(draft.answer)])
    several = len(content_words(phrase)) >= 2
    if several and phrase in normal(draft.question):
        return CodeCheck(False, "the right option stands in the question word for word")
    others = [option for letter, option in _options(draft) if letter != draft.answer]
    if (
        not several
        and _stands_in(phrase, asked)
        and not any(content_words(option) & asked for option in others)
    ):
        return CodeCheck(False, "the right option stands in the question, and no other does")
    if several and own >= _LEAKED and own >= max(shares.values()) + 0.25:
        return CodeCheck(
            False, f"{percent(own, 0)} of the right option's words stand in the question"
        )
    return CodeCheck(None)


def _stands_in(phrase: str, asked: set[str]) -> bool:
    words = content_words(phrase)
    return bool(words) and words <= asked


def content_words(text: str) -> set[str]:
    return {
        word
        for word in (w.lower() for w in _WORD.findall(text))
        if word not in _STOP and len(word) > 2
    }


def _option_type(draft: Draft, _: PaperFigure) -> CodeCheck:
    empty = [letter for letter, option in _options(draft) if _PLACEHOLDER.fullmatch(option.strip())]
    if empty:
        return CodeCheck(False, f"placeholder in {', '.join(empty)}")
    numeric = [letter for letter, option in _options(draft) if _is_measure(option)]
    if 0 < len(numeric) < len(draft.options):
        return CodeCheck(False, f"numbers in {', '.join(numeric)}, words in the others")
    return CodeCheck(None)


def _is_measure(text: str) -> bool:
    """A number with at most a unit: "12.31 degrees", "3 cm", "40–50 %"."""
    rest = _NUMBER.sub(" ", text)
    return bool(_NUMBER.search(text)) and len(_WORD.findall(rest)) <= 1


def _single_answer(draft: Draft, _: PaperFigure) -> CodeCheck:
    twice = _repeated(draft.options)
    return CodeCheck(False, f"'{twice}' stands twice") if twice else CodeCheck(None)


def _parallel(draft: Draft, _: PaperFigure) -> CodeCheck:
    lengths = [len(option) for option in draft.options]
    for place, (letter, length) in enumerate(zip(LETTERS, lengths, strict=True)):
        others = statistics.median(lengths[:place] + lengths[place + 1 :])
        if abs(length - others) > 12 and not 1 / _OUTLIER <= length / max(others, 1) <= _OUTLIER:
            what = "right option" if letter == draft.answer else "option"
            return CodeCheck(
                False, f"{what} {letter} has {length} characters, the others about {others:.0f}"
            )
    return CodeCheck(None)


def _concision(draft: Draft, _: PaperFigure) -> CodeCheck:
    words = len(draft.question.split())
    text = _ABBREVIATED.sub(lambda match: match[0][:-1], draft.question)
    sentences = max(1, len(_SENTENCE.findall(text)))
    if words > MOST_WORDS or sentences > MOST_SENTENCES:
        return CodeCheck(
            False,
            f"{counted(words, 'word', 'words')} in {counted(sentences, 'sentence', 'sentences')}",
        )
    return CodeCheck(
        True, f"{counted(words, 'word', 'words')} in {counted(sentences, 'sentence', 'sentences')}"
    )


def _answer_field(draft: Draft, _: PaperFigure) -> CodeCheck:
    if draft.answer not in tuple(LETTERS[: len(draft.options)]):
        return CodeCheck(False, f"the answer is {draft.answer!r:.20}")
    if any(not option.strip() for option in draft.options):
        return CodeCheck(False, "an option is empty")
    twice = _repeated(draft.options)
    return CodeCheck(False, f"'{twice}' stands twice") if twice else CodeCheck(True)


def _schema(draft: Draft, _: PaperFigure) -> CodeCheck:
    extra = draft.extra.get("extra_keys", "")
    return CodeCheck(False, f"further keys: {extra}") if extra else CodeCheck(True)


def _forbidden(draft: Draft, _: PaperFigure) -> CodeCheck:
    for text in (draft.question, *draft.options):
        if match := _FORBIDDEN.search(text):
            return CodeCheck(True, f"'{match[0]}'")
    return CodeCheck(False)


def _multiple_keys(draft: Draft, _: PaperFigure) -> CodeCheck:
    right = draft.options[LETTERS.index(draft.answer)]
    same = [
        letter
        for letter, option in _options(draft)
        if letter != draft.answer and normal(option) == normal(right)
    ]
    return CodeCheck(True, f"{', '.join(same)} says the same") if same else CodeCheck(None)


def _options(draft: Draft) -> Iterable[tuple[str, str]]:
    return zip(LETTERS, draft.options, strict=True)


def _repeated(options: Iterable[str]) -> str:
    seen: set[str] = set()
    for option in options:
        if normal(option) in seen:
            return option[:60]
        seen.add(normal(option))
    return ""


_CHECKS: Mapping[str, Check] = {
    "self-contained": _self_contained,
    "vocabulary": _vocabulary,
    "diagnosis-leak": _diagnosis_leak,
    "single-answer": _single_answer,
    "option-type": _option_type,
    "parallel": _parallel,
    "concision": _concision,
    "answer-field": _answer_field,
    "schema": _schema,
    "forbidden-terms": _forbidden,
    "multiple-keys": _multiple_keys,
}


def answer_is_overlong(draft: Draft) -> bool:
    """The right option is by far the longest: no criterion of the rubric, but a shortcut."""
    lengths = [len(option) for option in draft.options]
    own = lengths.pop(LETTERS.index(draft.answer))
    return own > _OVERLONG * max(lengths) and own - max(lengths) > _BY
