"""Numbers as people write them: 1,200; 12 000; 3.5 cm; 12 %; 1/2; 1 1/2; 2.1 × 10^3; seven."""

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
    r"(?P<sign>[-+]?)\s*(?P<currency>[$€£]?)\s*(?P<digits>\d{1,3}(?:[, ']\d{3})+(?:\.\d+)?"
    r"|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[x×*]\s*10\s*\^?)\s*(?P<power>[-+]?\d{1,3}))?"
    r"(?:\s*/\s*(?P<under>\d+))?"
)
_SEPARATORS = str.maketrans("", "", ", '")
_WHOLE = re.compile(
    rf"(?:about |approximately |around |roughly |~)?{_NUMBER}\s*(?P<unit>%|percent|[a-zµ°²³/ ]{{0,24}})",
    re.I,
)
_MIXED = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<whole>\d{1,9})\s+(?P<rest>\d{1,9}\s*/\s*\d{1,9}\b.*)", re.S
)
_SQUARED = re.compile(r"(?<=[^\W\d])\^([23])")  # plain_math writes cm² as cm^2
_RAISED = {"2": "²", "3": "³"}
_NAMES = {"%": "percent", "cm": "centimeter centimetre", "mm": "millimeter millimetre",
          "m": "meter metre", "km": "kilometer kilometre", "year": "year", "°": "degree", "kg": "kilogram",
          "g": "gram"}  # fmt: skip
_UNITS = {
    one: unit for unit, names in _NAMES.items() for n in names.split() for one in (n, f"{n}s")
}
_TEMPERATURE = re.compile(r"(?:°|degrees?)\s*([cf])(?:elsius|ahrenheit)?")


class Quantity(NamedTuple):
    value: float
    unit: str  # "" where none is named


def quantity(text: str) -> Quantity | None:
    """The number that ``text`` is, with at most a unit behind it; None for anything else."""
    text = " ".join(text.replace("−", "-").split()).strip().rstrip(".!")
    text = _SQUARED.sub(lambda found: _RAISED[found[1]], text)
    mixed = _MIXED.fullmatch(text)
    if mixed is not None:
        part = quantity(mixed["rest"])
        if part is None or part.value >= 1:
            return None  # "3 4/2" is no mixed number
        value = int(mixed["whole"]) + part.value
        return Quantity(-value if mixed["sign"] == "-" else value, part.unit)
    word, _, unit = text.lower().partition(" ")
    if word in _WORDS and len(unit.split()) <= 2:
        return Quantity(float(_WORDS[word]), _unit(unit))
    found = _WHOLE.fullmatch(text)
    if found is None or len((found["unit"] or "").split()) > 2:
        return None
    digits = found["digits"].translate(_SEPARATORS)
    value = float(f"{digits}e{found['power'] or 0}")
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
    unit = " ".join(text.casefold().split())
    degrees = _TEMPERATURE.fullmatch(unit)
    return f"°{degrees[1]}" if degrees is not None else _UNITS.get(unit, unit)
