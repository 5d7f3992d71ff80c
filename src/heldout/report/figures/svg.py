"""The few marks our figures are made of, in the colours of the page they stand on.

Whatever is written comes from corpora and command lines, so every text goes through ``escape``; the
result is ``Markup``, which the report's templates take as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from markupsafe import Markup

INK = "var(--ink, #1c2430)"
SOFT = "var(--soft, #5b6675)"
LINE = "var(--line, #dfe3e8)"
CARD = "var(--card, #ffffff)"
ALARM = "var(--survives, #b3261e)"
# Middle tones that stand out from white and from near black alike, and differ without colour
# vision by their dashes as well.
SERIES = ("#2f80d0", "#cf6a16", "#22936a", "#a65bc0", "#8a7a10", "#c4547a")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 2")
OPENED = 44.0  # where the first name below a title stands; the next ones 17 lower each
_TITLE, _SMALLEST_TITLE = 14.0, 11.0
_LETTER = 0.58  # width of an average bold letter, in its size
_FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif'
_VARIABLE = re.compile(r"var\(--[a-z]+, (#[0-9a-f]{6})\)")
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_PALETTE = (
    ":root{--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;--card:#ffffff;--survives:#b3261e}"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#9aa5b3;--line:#313943;"
    "--card:#1b2027;--survives:#ff8a80}}"
)


def number(value: float) -> str:
    """A coordinate with two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: float = 12,
    fill: str = INK,
    weight: int = 400,
    turn: float = 0.0,
    halo: bool = False,
) -> str:
    extra = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
    # A halo of the page's colour keeps words readable where lines run behind them.
    outline = f";paint-order:stroke;stroke:{CARD};stroke-width:4px" if halo else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" font-size="{number(size)}" '
        f'font-weight="{weight}"{extra} style="fill:{fill}{outline}">{escape(words)}</text>'
    )


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    stroke: str = LINE,
    width: float = 1,
    dash: str = "",
) -> str:
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
        f'style="stroke:{stroke};stroke-width:{number(width)};stroke-dasharray:{dash or "none"}"/>'
    )


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str,
    opacity: float = 1.0,
    round: float = 0,
    tip: str = "",
) -> str:
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" '
        f'height="{number(max(height, 0))}" rx="{number(round)}" '
        f'style="fill:{fill};fill-opacity:{number(opacity)}"{_ended("rect", tip)}'
    )


def circle(
    x: float, y: float, radius: float, *, fill: str, stroke: str = "none", tip: str = ""
) -> str:
    return (
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" '
        f'style="fill:{fill};stroke:{stroke};stroke-width:1.5"{_ended("circle", tip)}'
    )


def _ended(mark: str, tip: str) -> str:
    """Text that browsers show where the pointer rests on a mark: its title."""
    return f"><title>{escape(tip)}</title></{mark}>" if tip else "/>"


def path(
    points: Iterable[tuple[float, float]],
    *,
    stroke: str = "none",
    fill: str = "none",
    width: float = 2,
    dash: str = "",
    opacity: float = 1.0,
    closed: bool = False,
) -> str:
    steps = " ".join(
        f"{'L' if index else 'M'}{number(x)} {number(y)}" for index, (x, y) in enumerate(points)
    )
    return (
        f'<path d="{steps}{" Z" if closed else ""}" style="fill:{fill};fill-opacity:'
        f"{number(opacity)};stroke:{stroke};stroke-width:{number(width)};stroke-linejoin:round;"
        f'stroke-dasharray:{dash or "none"}"/>'
    )


def legend(entries: Sequence[tuple[str, str, str]], x: float, y: float) -> list[str]:
    """Lines of (name, colour, dash), one below the other."""
    marks: list[str] = []
    for index, (name, colour, dash) in enumerate(entries):
        at = y + 17 * index
        marks.append(line(x, at - 4, x + 24, at - 4, stroke=colour, width=2.5, dash=dash))
        marks.append(text(x + 31, at, name, halo=True))
    return marks


def series(place: int) -> tuple[str, str]:
    """Colour and dash of the n-th line; they come again where there are many."""
    return SERIES[place % len(SERIES)], DASHES[place % len(DASHES)]


def heading(title: str, width: float, x: float = 12) -> str:
    """The title of a figure, never wider than it: smaller letters first, then fewer of them."""
    room = width - x - 8
    size = min(_TITLE, max(_SMALLEST_TITLE, room / (_LETTER * max(len(title), 1))))
    letters = int(room / (_LETTER * size))
    shown = title if len(title) <= letters else f"{title[: letters - 1]}…"
    return text(x, 20, shown, size=size, weight=600)


def opening(title: str, names: Sequence[str], width: float) -> list[str]:
    """The top of a figure of named lines: its title, and below it the legend."""
    entries = [(name, *series(place)) for place, name in enumerate(names)]
    return [heading(title, width), *legend(entries, 12, OPENED)]


def figure(title: str, width: float, height: float, marks: Iterable[str]) -> Markup:
    """A whole figure; ``title`` is what a screen reader says."""
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'role="img" aria-label="{escape(title)}" font-family="{escape(_FONT)}" '
        f'style="width:100%;max-width:{number(width)}px;height:auto">'
        f"<title>{escape(title)}</title>{''.join(marks)}</svg>"
    )


def for_paper(drawn: str) -> str:
    """As a file for papers and slides: white paper and plain colours, which every program reads."""
    plain = _VARIABLE.sub(r"\1", drawn)
    head, _, rest = plain.partition("</title>")
    width, height = _SIZE.search(head).groups()  # type: ignore[union-attr]
    head = head.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    paper = '<rect width="100%" height="100%" style="fill:#ffffff"/>'
    return f"{head}</title>{paper}{rest}\n"


def standalone(drawn: str) -> str:
    """The same figure as a file of its own: it brings its colours and its paper."""
    head, _, rest = drawn.partition("</title>")
    paper = f'<rect width="100%" height="100%" style="fill:{CARD}"/>'
    return f"{head}</title><style>{_PALETTE}</style>{paper}{rest}\n"


# A frame with two axes, linear or logarithmic, and the numbers people expect along them.


ABOVE = 36.0  # the title of a figure
LEGEND_LINE = 17.0  # from one line of a legend to the next, where it stands above the frame


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends, 0 to 1; outside it stays at the end."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        return _decades(self.low, self.high) if self.log else _round_steps(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Axes:
    x_scale: Scale
    y_scale: Scale
    width: float = 480
    height: float = 360
    left: float = 66
    right: float = 18
    top: float = 34
    bottom: float = 52
    percent: tuple[str, ...] = field(default=())  # which of "x", "y" are shares

    def x(self, value: float) -> float:
        return self.left + self.x_scale.share(value) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        return (
            self.height
            - self.bottom
            - self.y_scale.share(value) * (self.height - self.top - self.bottom)
        )

    def points(self, xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
        return [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True)]

    def frame(self, title: str, x_label: str, y_label: str) -> list[str]:
        floor, ceiling = self.height - self.bottom, self.top
        marks = [heading(title, self.width)]
        for value, words in _labelled(self.x_scale.ticks(), "x" in self.percent):
            at = self.x(value)
            marks.append(line(at, ceiling, at, floor))
            marks.append(text(at, floor + 17, words, anchor="middle", fill=SOFT))
        for value, words in _labelled(self.y_scale.ticks(), "y" in self.percent):
            at = self.y(value)
            marks.append(line(self.left, at, self.width - self.right, at))
            marks.append(text(self.left - 8, at + 4, words, anchor="end", fill=SOFT))
        marks.append(line(self.left, floor, self.width - self.right, floor, stroke=SOFT))
        middle = (self.left + self.width - self.right) / 2
        marks.append(text(middle, self.height - 12, x_label, anchor="middle", fill=INK))
        halfway = (floor + ceiling) / 2
        marks.append(text(16, halfway, y_label, anchor="middle", fill=INK, turn=-90))
        return marks


def _round_steps(low: float, high: float, about: int = 6) -> list[float]:
    """About ``about`` values at 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 8))
    ticks = [10.0**power for power in range(last, first - 1, -every)][::-1]
    if last - first > 2:
        return ticks
    if last <= first:  # about one decade: its round values
        steps = [step * 10.0**power for power in (first - 1, first) for step in (1, 2, 3, 5, 7)]
        return [value for value in steps if low <= value <= high]
    # Few decades: a third mark in each, where the eye expects the middle.
    return sorted(
        {*ticks, *(3 * 10.0**p for p in range(first - 1, last + 1) if low <= 3 * 10.0**p <= high)}
    )


def _labelled(ticks: Sequence[float], percent: bool) -> list[tuple[float, str]]:
    """Ticks with their labels, in as few digits as keep them apart."""
    for further in range(12):
        labels = [_words(value, percent, further) for value in ticks]
        if len(set(labels)) == len(labels):
            break
    return list(zip(ticks, labels, strict=True))


def _words(value: float, percent: bool, further: int = 0) -> str:
    shown = 100 * value if percent else value
    plain = shown == 0 or 1e-4 <= abs(shown) < 1e6
    words = f"{shown:.{4 + further}g}" if plain else _power(shown, further)
    return words + (" %" if percent else "")


def _power(value: float, further: int) -> str:
    mantissa, _, exponent = f"{value:.{further}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
