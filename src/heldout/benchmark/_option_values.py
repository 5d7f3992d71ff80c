"""Values of an options column: lists, mappings by letter, and both of them written as text.

Nothing is evaluated: text is read as JSON or as a Python literal, within limits of length and depth.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heldout.benchmark._hints import without_trailing
from heldout.benchmark._option_list import HEADING, LONGEST, OptionList, find_list
from heldout.benchmark.benchmark import canonical_value, normal

LONGEST_CELL = 1_000_000  # characters of one cell
DEEPEST = 16  # brackets within brackets

_LABEL = re.compile(
    r"\s*[(\[（【]?\s*([A-Za-z]|\d{1,2})\s*([)\]）】][:.：]?|[:.、：．]|(?<=[A-Za-z] )[-–—](?=\s))\s*(.*)",
    re.DOTALL,
)
# Arrays as pandas writes them into a table, without commas: Python would join the texts into one.
_QUOTED = re.compile(r"""(['"])((?:(?!\1).)*)\1""", re.DOTALL)
_NUMPY = re.compile(r"""\[\s*(['"])(?:(?!\1).)*\1(?:\s+(['"])(?:(?!\2).)*\2)+\s*\]""", re.DOTALL)
_TEXTS = ("content", "text", "value", "option", "answer")
_LABELS = ("letter", "label", "key", "id", "name")


class UnreadableOptionsError(ValueError):
    """``reason`` is short and the same for similar rows; ``detail`` shows the cell."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Choices:
    """Options in their order, and what the release calls them (A, B, … or 1, 2, …) where it does."""

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.texts)

    def place(self, label: str, unlabelled: int) -> int | None:
        """Where the option called ``label`` stands; ``unlabelled`` where options have no such names."""
        labels = [name.upper() for name in self.labels]
        alike = [name for name in labels if name.isdecimal() == label.isdecimal()]
        if not alike:
            return unlabelled
        return labels.index(label.upper()) if label.upper() in labels else None


def read_options(value: Any) -> Choices:
    """The options of one cell; none where it is empty. UnreadableOptionsError where it is a list
    that cannot be read. Text that is no list holds no options."""
    if isinstance(value, str):
        return _from_text(value.strip())
    if isinstance(value, Mapping):
        return _from_mapping(value)
    if isinstance(value, list | tuple):
        return _from_list(value)
    return Choices()


def unlabelled(options: Sequence[str | None]) -> Choices:
    """'A: CT', 'B: MRI' → 'CT', 'MRI'; only where every option carries its own letter or number.

    Empty options at the end are left out, also "D: "; one between others keeps its place, empty.
    """
    texts = [option or "" for option in options]
    while texts and not texts[-1].strip():
        texts.pop()
    named = len(texts)
    while named > 2 and (match := _LABEL.fullmatch(texts[named - 1])) and not match[3].strip():
        named -= 1
    if named < len(texts) and (choices := unlabelled(texts[:named])).labels:
        return choices
    matches = [_LABEL.fullmatch(text) for text in texts]
    for first in ("A", "a", "1"):
        wanted = [chr(ord(first) + k) if first != "1" else str(k + 1) for k in range(len(texts))]
        if len(texts) > 1 and all(
            match is not None and match[1] == label and _is_text(match)
            for match, label in zip(matches, wanted, strict=True)
        ):
            rest = tuple(match[3].strip() for match in matches if match is not None)
            return Choices(rest, tuple(label.upper() for label in wanted))
    return Choices(tuple(texts))


def labelled_with_gaps(choices: Choices) -> Choices | None:
    """'A. CT', 'B. MRI', 'D. US' under their letters; None where they are not written so.

    'A. baumannii', 'E. coli' are written so too: only keys can tell.
    """
    matches = [_LABEL.fullmatch(text) for text in choices.texts]
    whole = [match for match in matches if match is not None and _is_text(match)]
    letters = [match[1] for match in whole]
    alike = len({match[2] for match in whole}) == 1 and len(set(map(str.isupper, letters))) == 1
    rises = all(first < other for first, other in itertools.pairwise(letters))
    named = len(whole) == len(matches) > 1 and alike and rises and letters[0] in "Aa"
    if choices.labels or not named:
        return None
    return Choices(
        tuple(match[3].strip() for match in whole), tuple(letter.upper() for letter in letters)
    )


def _is_text(match: re.Match[str]) -> bool:
    """'1.5' is a number, and the second letter of 'B.C.' no option."""
    rest = match[3].strip()
    if match[1].isdecimal() and match[2][-1] in ".:" and rest[:1].isdecimal():
        return match[0][match.end(2) : match.end(2) + 1].isspace()
    return bool(rest) and not (match[2] == "." and re.fullmatch(r"[A-Za-z]\.", rest))


def _from_text(text: str) -> Choices:
    if not text or text.lower() in ("nan", "none", "null"):
        return Choices()
    if text[0] == text[-1] == '"' and text[1:2] in "[{":  # encoded twice
        try:
            inner = json.loads(text) if len(text) <= LONGEST_CELL else text
        except ValueError:
            inner = text
        return _from_text(inner.strip()) if inner != text else Choices()
    if text[0] not in "[{(" or re.match(r"[(\[]\s*[A-Za-z0-9]\s*[)\]]", text):
        listed = find_list(text, whole=True)
        return Choices(listed.options, listed.labels) if listed is not None else Choices()
    value = parse_literal(text)
    if isinstance(value, str) or not isinstance(value, Mapping | list | tuple):
        raise UnreadableOptionsError("unreadable options", f"expected a list, found {text!r:.80}")
    return read_options(value)


def parse_literal(text: str) -> Any:
    """JSON or a Python literal as its value."""
    if len(text) > LONGEST_CELL:
        raise UnreadableOptionsError(
            "options too long", f"{len(text):,} characters; at most {LONGEST_CELL:,} are read"
        )
    if _depth(text) > DEEPEST:
        raise UnreadableOptionsError(
            "options nested too deeply",
            f"more than {DEEPEST} brackets within brackets: {text!r:.60}",
        )
    if _NUMPY.fullmatch(text):
        return [match[2] for match in _QUOTED.finditer(text)]
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    raise UnreadableOptionsError(
        "unreadable options", f"neither JSON nor a Python literal: {text!r:.80}"
    )


def _depth(text: str) -> int:
    """The largest number of open brackets, also counting those inside strings: an upper bound."""
    depth = deepest = 0
    for character in text:
        if character in "[{(":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]})":
            depth -= 1
    return deepest


def _from_mapping(value: Mapping[Any, Any]) -> Choices:
    lowered = {str(key).lower(): part for key, part in value.items()}
    texts = lowered.get("text", lowered.get("texts"))
    if isinstance(texts, list | tuple):  # {"label": ["A", "B"], "text": ["CT", "MRI"]}
        labels = lowered.get("label", lowered.get("labels"))
        choices = _from_list(texts)
        if isinstance(labels, list | tuple) and len(labels) >= len(choices.texts):
            named = tuple(str(label) for label in labels[: len(choices.texts)])
            return Choices(choices.texts, named)
        return choices
    keys = [key for key in value if value[key] is not None] and list(value)
    names = {key: str(key).strip() for key in keys}
    if all(name.isdecimal() and name.isascii() for name in names.values()):
        keys.sort(key=lambda key: int(names[key]))
    elif all(
        re.fullmatch(r"(?:(?:option|choice)?[ _-]?|op)[A-Za-z]", name, re.I)
        for name in names.values()
    ):
        names = {key: name[-1].upper() for key, name in names.items()}
        keys.sort(key=lambda key: names[key])
    kept = unlabelled([_text(value[key]) for key in keys])
    return Choices(kept.texts, tuple(names[key] for key in keys[: len(kept.texts)]))


def _from_list(value: Sequence[Any]) -> Choices:
    if value and all(isinstance(part, Mapping) and len(part) == 1 for part in value):
        pairs = [next(iter(part.items())) for part in value]  # [{"A": "CT"}, {"B": "MRI"}]
        if all(re.fullmatch(r"[A-Za-z]|\d{1,2}", str(key).strip()) for key, _ in pairs):
            kept = unlabelled([_text(text) for _, text in pairs])
            labels = tuple(str(key).strip() for key, _ in pairs[: len(kept.texts)])
            return Choices(kept.texts, labels)
    kept = unlabelled([_text(part) for part in value])
    if not kept.labels and value and all(isinstance(part, Mapping) for part in value):
        named = [
            next((part[k] for k in _LABELS if part.get(k) is not None), None) for part in value
        ]
        if all(name is not None for name in named):
            return Choices(kept.texts, tuple(str(name) for name in named[: len(kept.texts)]))
    return kept


def _text(part: Any) -> str | None:
    """The text of one option, also of {"letter": "A", "content": "CT"}."""
    if isinstance(part, Mapping):
        for key in _TEXTS:
            if part.get(key) is not None:
                part = part[key]
                break
    if isinstance(part, Mapping | list | tuple):
        raise UnreadableOptionsError(
            "unreadable options", f"an option is a text or a number, found {part!r:.80}"
        )
    return canonical_value(part)


# Lists in a question whose options carry no letters: "Options:\nCT\nMRI", "Choose from: CT, MRI."
#
# Only a heading shows that such a list is one, and only a key that is one of its entries shows where an
# entry ends; without such a key the list stays, and ``heldout check`` reports it.


_CHOOSE = re.compile(
    r"(?:^|(?<=[\n.?!;)]))[ \t]*(?:please )?(?:choose|select|pick)(?: one)?(?: from| of| among)"
    r"(?: the following| these| this list)?(?: options| choices| answers)?[ \t]*:\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[-*•·][ \t]+")
_LABELLED = re.compile(r"[(\[]?(?:[A-Za-z]|\d{1,2})(?:[)\]][.:]?|[.:])\s")
_LAST = re.compile(r"(?:or|and) ", re.IGNORECASE)
_GOES_ON = re.compile(r"\w{3}[.!]\s+\w.*\?")  # a question behind the last entry
_MOST, _LONG = 20, 200  # entries of a list, characters of one


def take_unlettered(question: str, answer: str | None) -> tuple[str, OptionList | None]:
    """The question without a list of this kind, and the list; both as they were where there is none
    that the ``answer`` fits."""
    listed = find_unlettered(question)
    if listed is None or any(map(_LABELLED.match, listed.options)):
        return question, None  # letters that no list could be read by
    if normal(answer) not in map(normal, listed.options):
        return question, None
    if not listed.lines and _GOES_ON.search(listed.options[-1]):
        return question, None  # "Options: open, closed. What is written?"
    return listed.stem, listed


def find_unlettered(question: str) -> OptionList | None:
    """A list without letters after the last heading of a question, at its end."""
    if len(question) > LONGEST or ":" not in question:
        return None
    body = without_trailing(question, listed=True)
    heads = [match for pattern in (HEADING, _CHOOSE) for match in pattern.finditer(body)]
    if not heads:
        return None
    head = max(heads, key=lambda match: match.end())
    entries = _entries(body[head.end() :].strip())
    stem = body[: head.start()].rstrip(" \t\n;,")
    folded = [normal(entry) for entry in entries]
    sound = all(folded) and all(len(entry) <= _LONG for entry in entries)
    if not stem or not sound or not 1 < len(set(folded)) == len(folded) <= _MOST:
        return None
    labels = tuple(chr(ord("A") + place) for place in range(len(entries)))
    return OptionList(stem, tuple(entries), labels, True, "\n" in body[head.end() :].strip())


def _entries(text: str) -> list[str]:
    if text[:1] == "[" and text[-1:] == "]":
        try:
            value = parse_literal(text)
        except UnreadableOptionsError:
            value = None
        if isinstance(value, list):
            plain = all(isinstance(part, str | int | float) for part in value)
            return [str(part).strip() for part in value] if plain else []
        text = text[1:-1]
    if "\n" in text:
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return [_BULLET.sub("", line, count=1).rstrip(",;") for line in lines]
    sign = next((sign for sign in ("|", ";", ",") if sign in text), None)
    if sign is None:
        return []
    text = text.removesuffix(".") if "." not in text[:-1] else text
    parts = [part.strip() for part in text.split(sign) if part.strip()]
    return [*parts[:-1], _LAST.sub("", parts[-1], count=1) if _LAST.match(parts[-1]) else parts[-1]]
