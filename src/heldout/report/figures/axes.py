"""A frame with two axes, linear or logarithmic, and the numbers people expect along them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from heldout.report.figures.svg import INK, SOFT, line, text

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
    width: float = 640
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
        marks = [text(12, 20, title, size=14, weight=600)]
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
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 8))
    found = [10.0**power for power in range(last, first - 1, -every)][::-1]
    if last - first > 2:
        return found
    if last <= first:  # about one decade: its round values
        steps = [step * 10.0**power for power in (first - 1, first) for step in (1, 2, 3, 5, 7)]
        return [value for value in steps if low <= value <= high]
    # Few decades: a third mark in each, where the eye expects the middle.
    return sorted(
        {*found, *(3 * 10.0**p for p in range(first - 1, last + 1) if low <= 3 * 10.0**p <= high)}
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
