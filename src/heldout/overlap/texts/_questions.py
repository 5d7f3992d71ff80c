"""What a question asks: its words, numbers, things and their places, and whether another asks the same."""

from __future__ import annotations

import functools
import re

from rapidfuzz.distance import LCSseq

from heldout.overlap.texts.edits import LITTLE, NEGATIONS
from heldout.overlap.texts.normalise import loose


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


def _pairs(line: str) -> dict[str, str]:
    words = [pair.split() for pair in line.split(", ")]
    return {word: other for left, right in words for word, other in ((left, right), (right, left))}


_SPELLED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = {word: place for place, word in enumerate(_SPELLED.split())}
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * (2 + place) for place, word in enumerate(_ROUND.split())}
#: numbers that are one word, and what they are
NUMBER_WORDS = {**_UNITS, **_TENS}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[^\W\d_]+|[^\s-]")
_SHARED = 0.5  # of the numbers of either text: below it they are two texts
_ASKING = _words(
    "how many much where who when why whose tell me you does doe has ha have had would will i or as if one so than"
)
# They say that something is there, or what is to be done with it, not what it is.
_SHOWING = _words(
    "show appear contain depict display displayed visible present count number call name describe identify state look "
    "lie exist"
)
_KINDS = (
    ("how many", re.compile(r"\b(?:how many|count|number of)\b")),
    ("how much", re.compile(r"\bhow much\b")),
    ("where", re.compile(r"\b(?:where|location|locate)\b")),
    ("when", re.compile(r"\bwhen\b")),
    ("who", re.compile(r"\b(?:who|whose|whom)\b")),
    ("why", re.compile(r"\bwhy\b")),
    ("what", re.compile(r"\b(?:what|which|how|name|tell|describe|identify|state|give|list)\b")),
)
_COLOURS = _words(
    "red orange yellow green blue purple violet pink brown black white grey gray cyan magenta"
)
_SPELLING = {"gray": "grey"}
# Said of a thing, one contradicts the other; said between two things, they may have traded places.
_SIDES = _pairs(
    "left right, upper lower, top bottom, anterior posterior, superior inferior, medial lateral"
)
_SIDES |= _pairs("increased decreased, male female")
_CONVERSE = _SIDES | _pairs(
    "longer shorter, bigger smaller, heavier lighter, more fewer, before after"
)
_CONVERSE |= _pairs("above below, larger smaller, taller shorter, higher lower, older younger")
# Between two things that cannot trade places: "the cross left of the ring".
_RELATION = re.compile(
    r"\b(?:\w+ than|relative to|(?:left|right|front|top) of|(?:medial|lateral|anterior|posterior|superior|inferior) to|"
    r"above|below|behind|under|over|before|after)\b"
)
# What a place is told from, in any order: "seen from the ring, where does the star lie?". It ends where the
# question goes on.
_REFERENCE = re.compile(
    r"\b(?:relative to|(?:seen|viewed|starting) from|with (?:respect|regard|reference) to|in relation to|"
    r"compared (?:to|with)) (?P<reference>.+?)"
    r"(?= (?:where|what|which|how|is|are|was|were|does|do|did|can|in|on|within) |$)"
)
_ONE_SENTENCE = 25  # words up to which the order of things is read
_TEMPLATE = 0.55  # of the words of the longer text, in the same order, that make a template
_FRAME = 0.5  # the same of a frame, into which another word was put
_ADDED = 2  # words of its own from which on a text names one more thing
_OF_ITS_OWN = 0.15  # of its telling words that a text has alone if it is about something else
_TELLING = 2  # words that two questions share at the least if they share all


@functools.lru_cache(maxsize=2**14)
def telling_words(text: str) -> frozenset[str]:
    return frozenset(_telling(text))


def _telling(text: str) -> list[str]:
    """In the order of the text."""
    skipped = LITTLE | _ASKING
    words = (word for word in loose(text).split() if len(word) > 1 and word not in skipped)
    return [stem(word) for word in words]


def stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def same_content(text: str, other: str) -> bool:
    """Does one ask the same of the same things, in little words of its own?

    "Does the picture show a green hexagon?" for "Is there a green hexagon in the picture?", "Is the ring smaller
    than the cross?" for "Is the cross larger than the ring?".
    """
    ours, theirs = _content(text), _content(other)
    if _negated(text) != _negated(other) or _kind(text) != _kind(other):
        return False
    if max(len(ours), len(theirs)) > _ONE_SENTENCE:
        return False
    placed, others = _placed(text), _placed(other)
    if placed and others:
        return placed == others
    if sorted(ours) != sorted(theirs):
        return _converse(ours, theirs)
    ordered = ours == theirs or not _RELATION.search(loose(text))
    return ordered and len(set(ours)) >= _TELLING


def other_subject(text: str, other: str) -> bool:
    """Is it about something else for certain: another colour, the opposite side, things that traded places?"""
    ours, theirs = loose(text).split(), loose(other).split()
    if max(len(ours), len(theirs)) > _ONE_SENTENCE or _converse(_content(text), _content(other)):
        return False
    colours, painted = (
        {_SPELLING.get(w, w) for w in words if w in _COLOURS} for words in (ours, theirs)
    )
    if colours - painted and painted - colours:
        return True
    if _swapped(text, other) or _traded(text, other):
        return True
    if _RELATION.search(loose(text)) or _RELATION.search(loose(other)):
        return False
    opposite = {_SIDES[word] for word in set(ours) - set(theirs) if word in _SIDES}
    return bool(opposite & (set(theirs) - set(ours)))


def same_details(text: str, other: str) -> bool:
    """Do both name the same colours, and the same relation between two things, or none?"""
    words, others = loose(text), loose(other)
    colours, painted = (
        {_SPELLING.get(word, word) for word in each.split() if word in _COLOURS}
        for each in (words, others)
    )
    relations = [
        match and match[0] for match in (_RELATION.search(words), _RELATION.search(others))
    ]
    return colours == painted and relations[0] == relations[1]


def varied(text: str, other: str) -> bool:
    """One template about other things: most words in the same order, and words of its own on either side.

    "How long must the dough rise in a warm place before it is baked?" for "How long must the dough rest in the
    refrigerator before it is rolled out?". A synonym in its place looks the same, so that an answer has to tell.
    """
    ours, theirs = prose(text), prose(other)
    words = loose(ours).split(), loose(theirs).split()
    if LCSseq.similarity(*words) < _TEMPLATE * max(1, *map(len, words)):
        return False
    known, others = telling_words(ours), telling_words(theirs)
    return all(
        len(left - right) >= _OF_ITS_OWN * len(left)
        for left, right in ((known, others), (others, known))
    )


def same_frame(text: str, other: str) -> bool:
    """One frame with another word in it, or one more thing to which the first is related.

    "Is the man wearing glasses?" for "Is the man wearing a hat?", "Is the star left of the grey ring?" for "Is there
    a star?". Different questions about one picture are often made so; rewordings are, too, with a synonym in place
    of the word, but then they are nearer to each other.
    """
    words, others = loose(text).split(), loose(other).split()
    content, other_content = set(_content(text)), set(_content(other))
    ours, theirs = content - other_content, other_content - content
    if (
        ours
        and theirs
        and LCSseq.similarity(words, others) >= _FRAME * max(len(words), len(others))
    ):
        return True
    related = [bool(_RELATION.search(loose(each))) for each in (text, other)]
    return related[0] != related[1] and len(ours if related[0] else theirs) >= _ADDED


def _content(text: str) -> list[str]:
    return [word for word in _telling(text) if word not in _SHOWING]


def _placed(text: str) -> tuple[list[str], list[str]] | None:
    """What is placed, and what its place is told from; None where nothing is."""
    words = loose(text)
    match = _REFERENCE.search(words)
    if match is None:
        return None
    rest = f"{words[: match.start()]} {words[match.end() :]}"
    thing, reference = sorted(_content(rest)), sorted(_content(match["reference"]))
    return (thing, reference) if thing and reference else None


def _negated(text: str) -> bool:
    return bool(NEGATIONS.intersection(loose(text).split()))


def _kind(text: str) -> str:
    words = loose(text)
    return next((kind for kind, pattern in _KINDS if pattern.search(words)), "whether")


def _swapped(text: str, other: str) -> bool:
    """The same things on either side of the same relation, the other way round."""
    sides: list[dict[str, bool]] = []  # per text, is a word before the relation?
    relations: list[str] = []
    for words in (loose(text), loose(other)):
        match = _RELATION.search(words)
        if match is None:
            return False
        before = set(_content(words[: match.start()]))
        after = set(_content(words[match.end() :]))
        relations.append(match[0])
        sides.append({word: word in before for word in before ^ after})
    shared = sides[0].keys() & sides[1].keys()
    flipped = {sides[0][word] for word in shared if sides[0][word] != sides[1][word]}
    kept = any(sides[0][word] == sides[1][word] for word in shared)
    return relations[0] == relations[1] and len(flipped) == 2 and not kept


def _traded(text: str, other: str) -> bool:
    """What belongs to the thing in one belongs to what its place is told from in the other."""
    ours, theirs = _placed(text), _placed(other)
    if not ours or not theirs:
        return False
    thing, reference = set(ours[0]) - set(ours[1]), set(ours[1]) - set(ours[0])
    things, references = set(theirs[0]) - set(theirs[1]), set(theirs[1]) - set(theirs[0])
    return bool(thing & references or reference & things)


def _converse(ours: list[str], theirs: list[str]) -> bool:
    """The opposite relation between things that traded places."""
    if len(ours) != len(theirs):
        return False
    for place, word in enumerate(ours):
        opposite = _CONVERSE.get(word)
        if opposite in theirs and word not in theirs:
            at = theirs.index(opposite)
            before, after = ours[:place], ours[place + 1 :]
            return bool(before) and before == theirs[at + 1 :] and after == theirs[:at]
    return False


_QUESTION_MARKS = re.compile("[?\u037e\u061f\uff1f]")
_ASKED_FOR = (
    "name|list|count|describe|identify|state|give|find|compute|calculate|determine|explain|tell|choose|select|point|"
    "locate|classify|work out|write|return|say|show|add up|estimate|solve|evaluate|predict|prove|convert"
)
_REQUEST = re.compile(
    r"(?:^|[.!:;\n]\s*)(?:please\s+)?(?:what|which|whose|who|where|when|why|how|is|are|was|were|does|do|did|can|could|"
    rf"has|have|{_ASKED_FOR})\b",
    re.IGNORECASE,
)
# Within prose "What we found is …" and "Have a look" ask nothing.
_SENTENCE_ASKED = re.compile(rf"(?:^|[:;]\s+)(?:please\s+)?(?:{_ASKED_FOR})\b", re.IGNORECASE)


def states(text: str) -> bool:
    """A statement: no sentence of it asks for anything. A caption is no question in other words."""
    return not (_QUESTION_MARKS.search(text) or _REQUEST.search(text) or is_program(text))


def asks(sentence: str) -> bool:
    """A question or a request, as one sentence of a page."""
    return bool(_QUESTION_MARKS.search(sentence) or _SENTENCE_ASKED.search(sentence))


_STATEMENT = re.compile(
    r"\bdef \w+\(|\bfunction \w*\s*\(|\bclass \w+\s*[:({]|#include\b|\blambda\b|=>|\bfor \w+(?:, \w+)* in [^.?!:]+:|"
    r"\bwhile [^.?!:]+:|\b(?:public|static|void|const|let|var|int) \w+ *[=(;]"
)
_SIGNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\breturn\b",
        r"\w[\])]? [-+*/]?= \S",
        r"[=!<>]=",
        r"\w\(\w*",
        r"\w\[",
        r";",
        r"\bif\b.*:",
        r"\bdef \w+\(.*?\)[^:\n]*:\s*[rf]?(?:\"\"\"|''')",
        r">>> \S",
    )
)


@functools.lru_cache(maxsize=2**14)
def is_program(text: str) -> bool:
    """Source code, whether or not its lines are kept: one statement, and two other signs of it."""
    return bool(_STATEMENT.search(text)) and sum(bool(sign.search(text)) for sign in _SIGNS) >= 2


_DOCSTRING = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'|/\*+(.*?)\*+/', re.DOTALL)
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_NAMED = re.compile(r"\b(?:def|function|class) (\w+)")
_EXAMPLES = re.compile(r">>>.*", re.DOTALL)
_FEWEST_PROSE = 4  # words of a docstring that say what a program is for


@functools.lru_cache(maxsize=2**14)
def prose(text: str) -> str:
    """What a program says in words: its name and its docstring, without the examples. Other texts, and programs
    without a docstring, as they are. Statements are much the same in all programs, and hide what they are for."""
    if not is_program(text):
        return text
    parts = [part for match in _DOCSTRING.finditer(text) for part in match.groups() if part]
    words = " ".join(_EXAMPLES.sub("", part).strip() for part in parts)
    if len(words.split()) < _FEWEST_PROSE:
        return text
    named = _NAMED.search(text)
    return f"{named[1].replace('_', ' ')}. {words}" if named else words


def statements(text: str) -> str:
    """A program without its docstrings, and without what its strings say."""
    return _QUOTED.sub('"', _DOCSTRING.sub(" ", text))


def same_amounts(text: str, other: str) -> bool:
    """Do both name much the same numbers, as figures or words? A rewording keeps them.

    The numbers of a program are those of its examples and its counting, and change with its code.
    """
    ours, theirs = amounts(text), amounts(other)
    if not ours or not theirs or (is_program(text) and is_program(other)):
        return True
    return len(ours & theirs) >= _SHARED * min(len(ours), len(theirs))


_NAME = re.compile(r"(?<=[a-z,;:)] )[A-Z][a-z]{2,}\b")  # within a sentence
_ENDING = 2  # letters of a name that may be others: "Brazil", "Brazilian"


def names_the_same(text: str, other: str) -> bool:
    """Does the other text have all numbers of the first, and one of the names within it? Where no answer says that
    it asks the same, it has to. Of programs neither says anything.

    "Which river runs through Cairo?" is not "Which river flows through the city of Baghdad in Iraq?".
    """
    if is_program(text) and is_program(other):
        return True
    names = {name.lower() for name in _NAME.findall(text)}
    beginnings = tuple(name[: max(3, len(name) - _ENDING)] for name in names)
    shared = not names or any(word.startswith(beginnings) for word in loose(other).split())
    return shared and amounts(text) <= amounts(other)


@functools.lru_cache(maxsize=2**14)
def amounts(text: str) -> frozenset[str]:
    """Numbers of a text, however they are written: "1,250", "twelve hundred and fifty", "two dozen" (24).

    "One" by itself mostly counts nothing, and dates and versions ("1.2.3") are no numbers.
    """
    values: list[float] = []
    total = part = (
        0.0  # of the number that is being read: what is finished of it, and what a scale multiplies
    )
    words: list[str] = []

    def finish() -> None:
        nonlocal total, part
        if words and words != ["one"]:
            values.append(total + part)
        total = part = 0.0
        words.clear()

    for token in _TOKEN.findall(text.lower()):
        last = words[-1] if words else ""
        if token in SCALES:
            if SCALES[token] < SCALES["thousand"]:
                part = (part or 1.0) * SCALES[token]
            else:
                total, part = total + (part or 1.0) * SCALES[token], 0.0
        elif token in _UNITS or token in _TENS:
            if (
                last
                and last not in SCALES
                and not (last in _TENS and 0 < _UNITS.get(token, 0) < 10)
            ):
                finish()
            part += _UNITS.get(token, _TENS.get(token, 0))
        elif (figure := _figure(token)) is not None:
            finish()
            part = figure
        elif token == "and" and last in SCALES:
            continue
        else:
            finish()
            continue
        words.append(token)
    finish()
    return frozenset(f"{value:.12g}" for value in values)


def _figure(token: str) -> float | None:
    """A comma before three digits parts thousands, any other is a decimal one."""
    if not token[0].isdecimal():  # a superscript is a digit, and no number
        return None
    plain = re.sub(r",(?=\d{3}(?:\D|$))", "", token).replace(",", ".")
    return float(plain) if plain.count(".") <= 1 else None
