"""Numbers as people write them: 1,200; 12 000; 3.5 cm; 12 %; 1/2; 1 1/2; 2.1 × 10^3; seven."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_WORDS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
}
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
_NAMES = {
    "%": "percent",
    "cm": "centimeter centimetre",
    "mm": "millimeter millimetre",
    "m": "meter metre",
    "km": "kilometer kilometre",
    "year": "year",
    "°": "degree",
    "kg": "kilogram",
    "g": "gram",
}
_UNITS = {
    spelling: unit
    for unit, names in _NAMES.items()
    for n in names.split()
    for spelling in (n, f"{n}s")
}
_TEMPERATURE = re.compile(r"(?:°|degrees?)\s*([cf])(?:elsius|ahrenheit)?")


class Quantity(NamedTuple):
    value: float
    unit: str  # "" where none is named


def quantity(text: str) -> Quantity | None:
    """The number that ``text`` is, with at most a unit behind it; None for anything else."""
    text = " ".join(text.replace("−", "-").split()).strip().rstrip(".!")
    text = _SQUARED.sub(lambda match: _RAISED[match[1]], text)
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
    match = _WHOLE.fullmatch(text)
    if match is None or len((match["unit"] or "").split()) > 2:
        return None
    digits = match["digits"].translate(_SEPARATORS)
    value = float(f"{digits}e{match['power'] or 0}")
    if match["under"]:
        under = float(match["under"])
        value = value / under if under else math.inf
    if not math.isfinite(value):
        return None
    return Quantity(
        -value if match["sign"] == "-" else value, match["currency"] or _unit(match["unit"])
    )


def agree(quantity: Quantity, other: Quantity, tolerance: float) -> bool:
    """Equal within ``tolerance`` of the second; a unit that both name has to be the same."""
    if quantity.unit and other.unit and quantity.unit != other.unit:
        return False
    return abs(quantity.value - other.value) <= max(
        tolerance * abs(other.value), 1e-9 * abs(other.value)
    )


def _unit(text: str) -> str:
    unit = " ".join(text.casefold().split())
    degrees = _TEMPERATURE.fullmatch(unit)
    return f"°{degrees[1]}" if degrees is not None else _UNITS.get(unit, unit)


# Formulas as plain text: \frac{4}{5} is 4/5, 72^\circ is 72°, x^{2} and x² are x^2.
#
# Notation is rewritten, nothing is computed or rearranged: ``same_formula`` makes two ways of writing one
# formula equal, never two formulas that happen to have one value.


LONGEST = 20_000  # characters; longer text stays as it is
DEEPEST = 16  # groups within groups; deeper text stays as it is

_LATEX = re.compile(r"\\[A-Za-z()\[\],;:!%$#&_{} ]|[\^_]\{|\{,\}")
_NAME = re.compile(r"[A-Za-z]+")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED_LATEX = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_DEGREES = str.maketrans({"º": "°", "˚": "°"})
_INDEX = re.compile(r"(?<![A-Za-z_])([A-Za-z]{1,2})_(\d+)")  # x_1, CO_2; not image_1
_SPACED_THOUSANDS = re.compile(r"(?<=\d)\\,(?=\d{3}(?!\d))")


def _set_of(names: str) -> frozenset[str]:
    return frozenset(names.split())


_UNWRAPPED = _set_of(
    "text textbf textit textrm textsf texttt textnormal mathrm mathbf mathit mathsf mathtt mathbb "
    "mathcal operatorname mbox hbox boxed fbox ce unit bm boldsymbol"
)
_IGNORED = _set_of(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr middle displaystyle textstyle limits nolimits rm bf "
    "it sf tt"
)
_SPACES = _set_of("quad qquad enspace thinspace hspace space")
_FRACTIONS = _set_of("frac dfrac tfrac cfrac")
_QUANTITIES = _set_of("SI qty")  # siunitx: number, unit
_FUNCTIONS = _set_of(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min gcd lcm det "
    "mod sqrt pi"
)
_SYMBOLS = {
    "times": "×",
    "cdot": "·",
    "ast": "*",
    "div": "÷",
    "pm": "±",
    "mp": "∓",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "lt": "<",
    "gt": ">",
    "approx": "≈",
    "sim": "~",
    "equiv": "≡",
    "cong": "≅",
    "infty": "∞",
    "circ": "∘",
    "degree": "°",
    "prime": "'",
    "angle": "∠",
    "triangle": "△",
    "perp": "⊥",
    "parallel": "∥",
    "cup": "∪",
    "cap": "∩",
    "in": "∈",
    "notin": "∉",
    "subset": "⊂",
    "emptyset": "∅",
    "varnothing": "∅",
    "to": "→",
    "rightarrow": "→",
    "ldots": "...",
    "dots": "...",
    "cdots": "...",
    "lbrace": "{",
    "rbrace": "}",
    "percent": "%",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "varepsilon": "ε",
    "zeta": "ζ",
    "eta": "η",
    "theta": "θ",
    "vartheta": "θ",
    "iota": "ι",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "xi": "ξ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "upsilon": "υ",
    "phi": "φ",
    "varphi": "φ",
    "chi": "χ",
    "psi": "ψ",
    "omega": "ω",
    "Gamma": "Γ",
    "Delta": "Δ",
    "Theta": "Θ",
    "Lambda": "Λ",
    "Xi": "Ξ",
    "Pi": "Π",
    "Sigma": "Σ",
    "Phi": "Φ",
    "Psi": "Ψ",
    "Omega": "Ω",
}
_ROOTS = {"2": "√", "3": "∛", "4": "∜"}
_PARTLESS = re.compile(r"[-+]?[^-+=/×·÷±<>≤≥≠\s]+|[-+]?√?\([^()]*\)")  # above a bar
_ATOM = re.compile(
    r"√?(?:\d+(?:[.,]\d+)*|[^\W\d_])(?:\^\w)?|√?\([^()]*\)"
)  # below it, or under a root

_SIGN_OF_MATHS = re.compile(r"[\d^√∛°=+*/×·÷±<>≤≥≠≈∞π∠△⊥∥]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_BRACKETS = re.compile(r"(?<![\w)])\((√?\w+)\)(?!\^)")
_UNDER_ROOT = re.compile(r"√\((\w+)\)")
_IN_EXPONENT = re.compile(r"\^\((-?\w+)\)")
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # between two digits a space separates two numbers


class _NotLatexError(Exception):
    """Braces that do not close, or too many of them: the text is left as it is."""


def plain_math(text: str) -> str:
    """``text`` with LaTeX, superscripts and subscripts as plain text."""
    if len(text) > LONGEST:
        return text
    if _LATEX.search(text):
        try:
            text = _Reader(_SPACED_THOUSANDS.sub("", text)).read()
        except _NotLatexError:
            return text
    if text.isascii():
        return _INDEX.sub(r"\1\2", text) if "_" in text else text
    text = _RAISED_LATEX.sub(lambda raised: "^" + raised[0].translate(_SUPERSCRIPTS), text)
    return _INDEX.sub(r"\1\2", text.translate(_DEGREES).translate(_SUBSCRIPTS))


def same_formula(text: str) -> str:
    """Of a formula the form without spaces and needless brackets; other text as it is.

    A formula has a digit or a sign of mathematics, and no words but names of functions.
    """
    if not _SIGN_OF_MATHS.search(text) or set(_WORD.findall(text)) - _FUNCTIONS:
        return text
    text = _SPACE.sub("", text.replace("sqrt", "√"))
    text = _IN_EXPONENT.sub(r"^\1", _UNDER_ROOT.sub(r"√\1", text))
    return _BRACKETS.sub(r"\1", text)


class _Reader:
    """One pass over the text; every character is read once."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def read(self) -> str:
        return self._sequence("", 0)

    def _sequence(self, closing: str, depth: int) -> str:
        if depth > DEEPEST:
            raise _NotLatexError
        parts: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == closing:
                self._at += 1
                return "".join(parts)
            if character == "}":
                raise _NotLatexError
            parts.append(self._piece(depth, parts[-1][-1:] if parts else ""))
        if closing:
            raise _NotLatexError
        return "".join(parts)

    def _piece(self, depth: int, before: str) -> str:
        character = self._text[self._at]
        self._at += 1
        if character == "{":
            return self._sequence("}", depth + 1)
        if character == "\\":
            return self._command(depth, before)
        if character in "^_":
            return self._script(character, depth)
        if character == "$":
            return ""
        if character == "~":  # a space that does not break; "~5" means about 5
            return " " if depth or before.strip() else character
        return character

    def _argument(self, depth: int) -> str:
        """What a command or a script takes: a group, or the next piece."""
        if depth > DEEPEST:
            raise _NotLatexError
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        if self._at >= len(self._text) or self._text[self._at] == "}":
            raise _NotLatexError
        return self._piece(depth + 1, "").strip()

    def _script(self, mark: str, depth: int) -> str:
        inner = self._argument(depth)
        if mark == "^" and inner in ("∘", "°", "'"):
            return "°" if inner != "'" else inner
        if mark == "_" and inner.isdecimal():
            return inner
        return mark + (inner if re.fullmatch(r"-?\w+", inner) else f"({inner})")

    def _command(self, depth: int, before: str) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            sign = self._text[self._at : self._at + 1]
            self._at += 1
            return "" if sign in "()[]!" else sign if sign and sign in "%$#&_{}|" else " "
        name = match[0]
        self._at = match.end()
        if name in _UNWRAPPED:
            return self._unwrapped(depth)
        if name in _IGNORED:
            if name in ("left", "right") and self._text.startswith(".", self._at):
                self._at += 1  # a bracket that is not drawn
            return ""
        if name in _SPACES:
            return " "
        if name in _FRACTIONS:
            return _fraction(self._argument(depth), self._argument(depth), before)
        if name in _QUANTITIES:
            return f"{self._argument(depth)} {self._argument(depth)}"
        if name == "sqrt":
            return self._root(depth)
        if name in _SYMBOLS:
            return _SYMBOLS[name]
        if name in _FUNCTIONS:
            return f"{name} "
        if self._text.startswith("{", self._at):  # \overline{3} is not 3
            return f"{name}({self._argument(depth)})"
        return f"\\{name}"

    def _unwrapped(self, depth: int) -> str:
        """Words in a formula keep the spaces they bring: 3\\text{ cm}."""
        if self._text.startswith("{", self._at):
            self._at += 1
            return self._sequence("}", depth + 1)
        return self._argument(depth)

    def _root(self, depth: int) -> str:
        degree = "2"
        if self._text.startswith("[", self._at):
            self._at += 1
            degree = self._sequence("]", depth + 1).strip()
        inner = self._argument(depth)
        sign = _ROOTS.get(degree, f"√[{degree}]")
        return sign + (inner if _ATOM.fullmatch(inner) else f"({inner})")


def _fraction(above: str, below: str, before: str) -> str:
    top = above if _PARTLESS.fullmatch(above) else f"({above})"
    bottom = below if _ATOM.fullmatch(below) else f"({below})"
    fraction = f"{top}/{bottom}"
    if not before.isdecimal():
        return fraction
    # 1\frac{1}{2} is one and a half; 2\frac{x}{3} is a product.
    return f" {fraction}" if above.isdecimal() and below.isdecimal() else f"({fraction})"
