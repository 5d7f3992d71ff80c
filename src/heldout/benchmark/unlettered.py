"""Lists in a question whose options carry no letters: "Options:\\nCT\\nMRI", "Choose from: CT, MRI."

Only a heading shows that such a list is one, and only a key that is one of its entries shows where an
entry ends; without such a key the list stays, and ``heldout check`` reports it.
"""

from __future__ import annotations

import re

from heldout.benchmark.example import normal
from heldout.benchmark.hints import without_trailing
from heldout.benchmark.option_list import HEADING, LONGEST, OptionList
from heldout.benchmark.option_values import UnreadableOptionsError, parse_literal

_CHOOSE = re.compile(
    r"(?:^|(?<=[\n.?!;)]))[ \t]*(?:please )?(?:choose|select|pick)(?: one)?(?: from| of| among)"
    r"(?: the following| these| this list)?(?: options| choices| answers)?[ \t]*:\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[-*•·][ \t]+")
_LABELLED = re.compile(r"[(\[]?(?:[A-Za-z]|\d{1,2})(?:[)\]][.:]?|[.:])\s")
_LAST = re.compile(r"(?:or|and) ", re.IGNORECASE)
_MOST, _LONG = 20, 200  # entries of a list, characters of one


def take_unlettered(question: str, answer: str | None) -> tuple[str, OptionList | None]:
    """The question without a list of this kind, and the list; both as they were where there is none
    that the ``answer`` fits."""
    listed = find_unlettered(question)
    if listed is None or any(map(_LABELLED.match, listed.options)):
        return question, None  # letters that no list could be read by
    if normal(answer) not in map(normal, listed.options):
        return question, None
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
