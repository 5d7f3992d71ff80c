"""Whether two answers are the same, however their numbers, units and formulas are written."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from heldout.benchmark import normal
from heldout.overlap.texts._fields import ItemTexts
from heldout.overlap.texts._questions import NUMBER_WORDS

# Of LaTeX what is a mark alone, and what is a sign. Answers come without case.
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_STYLE = re.compile(
    r"\\(?:mathrm|mathbf|mathit|text|textbf|operatorname|mbox|left|right|displaystyle)\b"
)
_SIGNS = (
    (re.compile(r"\^?\s*\{?\\circ\b\}?|º"), "°"),
    (re.compile(r"\\omega\b|ω|Ω"), " ohm "),
    (re.compile(r"\\(?:times|cdot)\b|×|·"), " * "),
    (re.compile(r"\\mu\b|μ"), "µ"),
    (re.compile(r"\\le(?:q)?\b"), "≤"),
    (re.compile(r"\\ge(?:q)?\b"), "≥"),
    (re.compile(r"\\pi\b"), "π"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[,;:! ]|[${}]|~"), " "),
    (re.compile("[\u2212\u2013]"), "-"),
    (re.compile("²"), "^2"),
    (re.compile("³"), "^3"),
)
# A minus stands before a number; an apostrophe within a word is none of its letters, a prime is.
_TOKEN = re.compile(
    r"(?<![\w.])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|[^\s\w.,;:!?\"“”‘’`-]|(?<=\S)-(?=\d)"
)
_ARTICLES = ("a", "an", "the")
_PARTS = {"half": ("1", "/", "2"), "quarter": ("1", "/", "4")}
_UNITS = {
    written: unit
    for unit, others in {
        "second": "s sec secs seconds",
        "minute": "min mins minutes",
        "hour": "h hr hrs hours",
        "day": "d days",
        "year": "yr yrs years",
        "metre": "m meter meters metres",
        "centimetre": "cm centimeter centimeters centimetres",
        "millimetre": "mm millimeter millimeters millimetres",
        "kilometre": "km kilometer kilometers kilometres",
        "gram": "g grams",
        "kilogram": "kg kilograms",
        "milligram": "mg milligrams",
        "litre": "l liter liters litres",
        "millilitre": "ml milliliter milliliters millilitres",
        "ohm": "ohms",
        "volt": "v volts",
        "ampere": "a amp amps amperes",
        "watt": "w watts",
        "joule": "j joules",
        "newton": "n newtons",
        "hertz": "hz",
        "pascal": "pa pascals",
        "electronvolt": "ev electronvolts",
        "%": "percent",
        "°": "degree degrees",
    }.items()
    for written in others.split()
}

_SHORTEST_NAME = 4  # letters of an answer that is looked for within a sentence
_WORKED = 8  # words above which an answer is a text that can be reworded itself
_SENTENCE = 2  # words, at least, that stand there beside it
_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|without|or|than)\b|n['’]t\b")


def same_answer(ours: str, theirs: str) -> bool:
    """ "8 h" and "8 hours", "$2\\\\,\\\\Omega$" and "2 ohms", "the aorta" and "aorta", "three" and "3"."""
    return ours == theirs or (bool(_sense(ours)) and _sense(ours) == _sense(theirs))


def in_other_words(ours: str, theirs: tuple[str, ...]) -> bool:
    """Two solutions or programs in other words contradict nothing, nor does the answer within a sentence."""
    worked = min(len(answer.split()) for answer in (ours, *theirs)) > _WORKED
    return worked or _named_within(ours, theirs)


def _named_within(ours: str, theirs: tuple[str, ...]) -> bool:
    """ "Plants take up carbon dioxide": neither the answer nor another one. Numbers and a yes stand in any sentence."""
    if ours in ("yes", "no") or len(ours) < _SHORTEST_NAME or any(map(str.isdigit, ours)):
        return False
    named = re.compile(rf"(?<!\w){re.escape(ours)}(?!\w)")
    return any(
        len(answer.split()) >= len(ours.split()) + _SENTENCE
        and named.search(answer) is not None
        and _DENIED.search(answer) is None
        for answer in theirs
    )


@functools.lru_cache(maxsize=2**14)
def _sense(answer: str) -> tuple[str, ...]:
    """Words, numbers and signs of an answer; empty where nothing is left."""
    text = _STYLE.sub(" ", _FRACTION.sub(r" \1/\2 ", answer.casefold()))
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    words = _TOKEN.findall(text.replace("per cent", "percent"))
    if len(words) > 1 and words[0] in _ARTICLES and not words[1].startswith(("/", "^", "*", "=")):
        words = words[1:]
    sense: list[str] = []
    for word in words:
        if word == "the":
            continue
        if word in _PARTS:
            sense += _PARTS[word]
        elif word in NUMBER_WORDS:
            sense.append(str(NUMBER_WORDS[word]))
        elif word.lstrip("-")[:1].isdigit():
            sense.append(_number(word))
        else:
            measured = bool(sense) and (sense[-1][-1].isdigit() or sense[-1] == "/")
            sense.append(_UNITS.get(word, word) if measured else word)
    return tuple(sense)


def _number(figure: str) -> str:
    plain = re.sub(r",(?=\d{3}(?:\D|$))", "", figure).replace(",", ".")
    return f"{float(plain):.12g}" if plain.count(".") <= 1 else figure


# An answer behind its question in one text.


_LABEL = re.compile(
    r"[\W_]*(?:(?:the )?(?:correct |right )?(?:answer|ans|response|assistant|gpt)(?: is)?\b|a\s*:)[\W_]*"
)
# The second of several options: "B. 4", "(2) left", "or right". What stands before it is an option, no answer.
_NEXT_OPTION = re.compile(r"[\W_]*(?:\(?[b2][.):]|(?:or|vs|versus)\b)", re.ASCII)
_LABELLED = 60  # characters that may stand before an answer within a text
_MARKS = " ?.:;,-–—>*\"'“”()[]\n\t"


def of_a_kind(ours: str, theirs: Sequence[str]) -> bool:
    """Both numbers, or both words: "Cheers" contradicts no number."""
    known = any(map(str.isdigit, ours))
    return any(any(map(str.isdigit, answer)) == known for answer in theirs)


def answered_within(question: str, item: ItemTexts, text: str) -> bool:
    """Whether a text that holds the question goes on with the item's answer: "… Answer: …", as pages and dumps of
    chats write items that have no columns. A list of options that begins with the right one does not answer."""
    answer, asked, whole = item.answer, question.rstrip(" ?.:").casefold(), text.casefold()
    others = [normal(option) for option in item.options.split(" | ") if normal(option) != answer]
    end = len(answer) + _LABELLED + max(map(len, others), default=0)
    at = whole.find(asked) if answer and asked else -1
    while at >= 0:
        rest = whole[at + len(asked) : at + len(asked) + end]
        label = _LABEL.match(rest)
        for begin in {0, label.end() if label else 0}:
            words = normal(rest[begin:].lstrip(_MARKS))
            if words.startswith(answer) and _said_alone(words, answer, others):
                return True
        at = whole.find(asked, at + 1)
    return False


def _said_alone(words: str, answer: str, others: Sequence[str]) -> bool:
    """``words`` begin with the answer: does it end there ("2" in "2.5" does not), and does no other option follow?"""
    after = words[len(answer) :]
    if re.match(r"\w|[.,]\d", after) or _NEXT_OPTION.match(after):
        return False
    following = after.lstrip(_MARKS)
    return not any(
        option
        and (
            following.startswith(option) or (len(option) > len(answer) and words.startswith(option))
        )
        for option in others
    )
