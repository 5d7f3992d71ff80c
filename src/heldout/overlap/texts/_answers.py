"""Whether two answers are the same, however their numbers, units and formulas are written."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heldout.benchmark import normal
from heldout.overlap.texts._fields import ItemTexts
from heldout.overlap.texts._questions import NUMBER_WORDS, SCALES, stem

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

#: what can be converted: kind, and how many of the smallest there are
_MEASURES: Mapping[str, tuple[str, float]] = {
    "second": ("time", 1.0),
    "minute": ("time", 60.0),
    "hour": ("time", 3600.0),
    "day": ("time", 86400.0),
    "year": ("years", 1.0),
    "millimetre": ("length", 1.0),
    "centimetre": ("length", 10.0),
    "metre": ("length", 1e3),
    "kilometre": ("length", 1e6),
    "milligram": ("mass", 1.0),
    "gram": ("mass", 1e3),
    "kilogram": ("mass", 1e6),
    "millilitre": ("volume", 1.0),
    "litre": ("volume", 1e3),
}
_CURRENCIES = ("€", "£", "¥")
_SIGNS_OF_UNITS = ("%", "°", "/", "^", "c", "f", "k", *_CURRENCIES)
_FORMULA = frozenset("+*^\\(){}<>≤≥|")
_LONGEST_UNIT = 5  # words
_STATEMENT = 4  # words from which on an answer is a sentence that says a number
_SHORTEST = 2  # letters of an answer that another one may say more about
_TEXT = 300  # characters, above which an answer is compared as a whole
_WORKED = 8  # words above which an answer is a text that can be reworded itself
# A figure that is a part of a name, or says which: "T2", "3rd", "2D", "p24", "type 2", "C-3".
_NAMED = re.compile(
    rf"[^\W\d_][-\u2013]?\d|\d(?:st|nd|rd|th|[abcdekptxyz])\b|\b(?:\d+|{'|'.join(NUMBER_WORDS)})-(?!(?:{'|'.join(NUMBER_WORDS)})\b)[a-z]|"
    r"\b(?:type|grade|stage|class|phase|level|figure|fig|table|page|step|group|number|no|part|chapter|section)\.? \d"
)
_YES_OR_NO = re.compile(r"(?:yes|no)\b(?!\W*\d)")
_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|without|or|than)\b|n['’]t\b")
_STATES = re.compile(
    r"=|\b(?:is|are|was|were|be|will|would|has|have|had|takes?|makes?|costs?|gives?|gets?|equals?|needs?|earns?|remains?|"
    r"makes|left|total|altogether|so|thus|therefore|there)\b"
)
_SEVERAL = re.compile(r"\b(?:and|or)\b")
_FIGURES = re.compile(rf"\d|\b(?:{'|'.join((*NUMBER_WORDS, *_PARTS))})")
_BOUND = re.compile(r"\b(?:at least|at most|up to|under|over|below|above|almost|nearly)\b")


class Amount(NamedTuple):
    """What an answer comes to, and what that is measured in or counts: "15 minutes", "t = 15", "It takes 15."."""

    value: float
    unit: tuple[str, ...] = ()
    stated: bool = False  # within a sentence


@functools.lru_cache(maxsize=2**14)
def compare_answers(ours: str, theirs: str) -> str:
    """``same``, ``different``, or ``unknown``: one says more than the other, "Van Gogh" and "Vincent van Gogh"."""
    if same_answer(ours, theirs):
        return "same"
    more = any(_says_more(*both) or _has_number(*both) for both in ((ours, theirs), (theirs, ours)))
    return "unknown" if more else "different"


def same_answer(ours: str, theirs: str) -> bool:
    """ "8 h" and "8 hours", "$2\\,\\Omega$" and "2 ohms", "the aorta" and "aorta", "3" and "three chambers"."""
    if ours == theirs:
        return True
    if max(len(ours), len(theirs)) <= _TEXT and _sense(ours) and _sense(ours) == _sense(theirs):
        return True
    here, there = amount_of(ours), amount_of(theirs)
    if here is not None and there is not None:
        return _same_amount(here, there)
    return bool(_YES_OR_NO.fullmatch(ours) or _YES_OR_NO.fullmatch(theirs)) and (
        gist(ours) == gist(theirs)  # "No tumour is seen" is a no
    )


def worked(answers: Sequence[str]) -> bool:
    """Two solutions or programs in other words contradict nothing."""
    return min(len(answer.split()) for answer in answers) > _WORKED


@functools.lru_cache(maxsize=2**14)
def gist(answer: str) -> str:
    """What answers are counted by that may be the same: a number without its unit, a yes or no, or all words."""
    if amount := amount_of(answer):
        return f"{amount.value:.12g}"
    if yes_or_no := _YES_OR_NO.match(answer):
        return yes_or_no[0]
    return answer if len(answer) > _TEXT else " ".join(_sense(answer)) or answer


@functools.lru_cache(maxsize=2**14)
def amount_of(answer: str) -> Amount | None:
    """None where an answer is no number, or names several and does not end a calculation with one."""
    if not _FIGURES.search(answer):
        return None
    answer = answer[-_TEXT:]  # the end of a solution says what it comes to
    words = list(_sense(answer))
    calculated = "=" in words
    if calculated and len(words) <= _WORKED and _SEVERAL.search(answer):
        return None  # "x = 3 or x = 5"
    if calculated:
        words = words[len(words) - words[::-1].index("=") :]
    if words[:1] and words[0] in _CURRENCIES:
        words = [*words[1:], words[0]]
    if _NAMED.search(answer):
        return None
    if quantity := _quantity(words):
        return quantity
    numbers = [word for word in words if _is_number(word)]
    sentence = len(words) >= _STATEMENT and not _FORMULA.intersection(words)
    if not numbers or not sentence or _DENIED.search(answer) or _BOUND.search(answer):
        return None
    concludes = calculated or len(words) > _WORKED
    if _STATES.search(answer) and (len(set(numbers)) == 1 or concludes):
        return Amount(float(numbers[-1]), stated=True)
    return None


def _quantity(words: Sequence[str]) -> Amount | None:
    """A number, or a fraction, and the few words of its unit or of what is counted."""
    if not words or not _is_number(words[0]):
        return None
    value, end = float(words[0]), 1
    while end < len(words) and _is_number(words[end]) and value % 10 == 0 < float(words[end]) < 10:
        value, end = value + float(words[end]), end + 1  # twenty five
    if words[end : end + 1] == ["/"] and len(words) > end + 1 and _is_number(words[end + 1]):
        if not float(words[end + 1]):
            return None
        value, end = value / float(words[end + 1]), end + 2
    while end < len(words) and words[end] in SCALES:
        value, end = value * SCALES[words[end]], end + 1
    unit = tuple("/" if word == "per" else stem(word) for word in words[end:])
    fits = all(
        word in _MEASURES
        or word in _SIGNS_OF_UNITS
        or (len(word) > 2 and word.isalpha())
        or (word.isdigit() and unit[place - 1] == "^")
        for place, word in enumerate(unit)
    )
    return Amount(value, unit) if fits and len(unit) <= _LONGEST_UNIT else None


def _same_amount(ours: Amount, theirs: Amount) -> bool:
    """A number without a unit is one with it; millimetres are compared with centimetres."""
    equal = math.isclose(ours.value, theirs.value, rel_tol=1e-9)
    if ours.stated or theirs.stated:  # the answer to a question is short on one side at least
        return (
            equal
            and not (ours.stated and theirs.stated)
            and max(map(len, (ours.unit, theirs.unit))) < 2
        )
    if not (ours.unit and theirs.unit):
        share = {ours.unit, theirs.unit} == {("%",), ()}
        percent = share and any(
            math.isclose(part * 100, percentage, rel_tol=1e-9)
            for part, percentage in ((ours.value, theirs.value), (theirs.value, ours.value))
        )
        return equal or percent
    if ours.unit == theirs.unit or {ours.unit[:1], theirs.unit[:1]} == {("°",)}:
        return equal
    if len(ours.unit) != 1 or len(theirs.unit) != 1:
        return False
    kind, size = _MEASURES.get(ours.unit[0], ("", 1.0))
    other_kind, other_size = _MEASURES.get(theirs.unit[0], ("", 1.0))
    converted = math.isclose(ours.value * size, theirs.value * other_size, rel_tol=1e-9)
    return bool(kind) and kind == other_kind and converted


def _says_more(short: str, full: str) -> bool:
    """Are all words of one within the other, which denies none of them? Numbers stand in any sentence."""
    if len(full) > _TEXT:
        return False
    ours, theirs = _sense(short), _sense(full)
    few = sum(map(len, ours)) < _SHORTEST or any(map(str.isdigit, short)) or _YES_OR_NO.match(short)
    if few or len(ours) >= len(theirs) or (_DENIED.search(full) and not _DENIED.search(short)):
        return False
    return all(map(str.isalpha, ours)) and set(ours) <= set(theirs)


def _has_number(short: str, full: str) -> bool:
    """Is one the only number of the other, which may say something else with it?"""
    amount = amount_of(short)
    if amount is None or amount.stated or len(amount.unit) > 1 or len(full) > _TEXT:
        return False
    named = _NAMED.search(full) or _DENIED.search(full) or _BOUND.search(full)
    numbers = {float(word) for word in _sense(full) if _is_number(word)}
    return not named and len(_sense(full)) >= _STATEMENT and numbers == {amount.value}


def _is_number(word: str) -> bool:
    return word.lstrip("-")[:1].isdigit() and word.count(".") < 2


@functools.lru_cache(maxsize=2**14)
def _sense(answer: str) -> tuple[str, ...]:
    """Words, numbers and signs of an answer; empty where nothing is left."""
    text = answer.casefold().replace("per cent", "percent")
    if text.isascii() and text.replace(" ", "").isalpha():
        words = text.split()
    else:
        text = _STYLE.sub(" ", _FRACTION.sub(r" \1/\2 ", text))
        for pattern, sign in _SIGNS:
            text = pattern.sub(sign, text)
        words = _TOKEN.findall(text)
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
    whole = " ".join(whole.split())
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
