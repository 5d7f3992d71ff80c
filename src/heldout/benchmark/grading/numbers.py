"""Numbers as people write them: 1,200; 3.5 cm; 12 %; 1/2; 2.1 × 10^3; seven."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip
_NUMBER = (
    r"(?P<sign>[-+]?)\s*(?P<currency>[$€£]?)\s*(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[x×*]\s*10\s*\^?)\s*(?P<power>[-+]?\d{1,3}))?"
    r"(?:\s*/\s*(?P<under>\d+))?"
)
_WHOLE = re.compile(
    rf"(?:about |approximately |around |roughly |~)?{_NUMBER}\s*(?P<unit>%|percent|[a-zµ°²³/ ]{{0,24}})",
    re.I,
)
_UNITS = {"percent": "%", "centimeters": "cm", "centimetres": "cm", "millimeters": "mm",
          "millimetres": "mm", "meters": "m", "metres": "m", "years": "year", "degrees": "°",
          "kilograms": "kg", "grams": "g"}  # fmt: skip


class Quantity(NamedTuple):
    value: float
    unit: str  # "" where none is named


def quantity(text: str) -> Quantity | None:
    """The number that ``text`` is, with at most a unit behind it; None for anything else."""
    text = " ".join(text.replace("−", "-").split()).strip().rstrip(".!")
    word, _, unit = text.lower().partition(" ")
    if word in _WORDS and len(unit.split()) <= 2:
        return Quantity(float(_WORDS[word]), _unit(unit))
    found = _WHOLE.fullmatch(text)
    if found is None or len((found["unit"] or "").split()) > 2:
        return None
    value = float(f"{found['digits'].replace(',', '')}e{found['power'] or 0}")
    if found["under"]:
        under = float(found["under"])
        value = value / under if under else math.inf
    if not math.isfinite(value):
        return None
    return Quantity(
        -value if found["sign"] == "-" else value, found["currency"] or _unit(found["unit"])
    )


def agree(one: Quantity, other: Quantity, tolerance: float) -> bool:
    """Equal within ``tolerance`` of the second; a unit that both name has to be the same."""
    if one.unit and other.unit and one.unit != other.unit:
        return False
    return abs(one.value - other.value) <= max(
        tolerance * abs(other.value), 1e-9 * abs(other.value)
    )


def _unit(text: str) -> str:
    unit = " ".join(text.lower().split())
    return _UNITS.get(unit, unit)
