"""What exchangeable orders would have given, and what the released one gave: one strip per model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from heldout.report.figures.svg import (
    ALARM,
    INK,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    line,
    rectangle,
    text,
)

_STRIP, _BINS = 58.0, 61


class Strip(NamedTuple):
    """``null`` holds the statistic under shuffled orders; ``p`` is two-sided, as tested."""

    name: str
    observed: float
    null: NDArray[np.float64]
    p: float


def null_strips(strips: Sequence[Strip], *, title: str, label: str) -> Markup:
    """Every null in grey, the released order as a dot: outside the grey is what chance does not do."""
    reach = 1.12 * max(
        max(abs(strip.observed), float(np.abs(strip.null).max(initial=0.0))) for strip in strips
    )
    reach = reach or 1.0
    left = 30 + 6.6 * max(len(_short(strip.name)) for strip in strips)
    axes = Axes(
        Scale(-reach, reach),
        Scale(0.0, 1.0),
        height=86 + _STRIP * len(strips),
        left=max(left, 90),
        right=84,
    )
    marks = [text(12, 20, title, size=14, weight=600)]
    floor = axes.height - axes.bottom
    for value in axes.x_scale.ticks():
        marks.append(line(axes.x(value), axes.top, axes.x(value), floor))
        marks.append(text(axes.x(value), floor + 17, f"{value:g}", anchor="middle", fill=SOFT))
    middle = (axes.left + axes.width - axes.right) / 2
    marks.append(text(middle, axes.height - 12, label, anchor="middle", fill=INK))
    edges = np.linspace(-reach, reach, _BINS + 1)
    for place, strip in enumerate(strips):
        base = axes.top + _STRIP * (place + 1)
        counts, _ = np.histogram(strip.null, bins=edges)
        tallest = max(int(counts.max(initial=0)), 1)
        for index, count in enumerate(counts):
            if count:
                x1, x2 = axes.x(edges[index]), axes.x(edges[index + 1])
                high = (_STRIP - 16) * count / tallest
                marks.append(rectangle(x1, base - high, x2 - x1, high, fill=SOFT, opacity=0.4))
        marks.append(line(axes.left, base, axes.width - axes.right, base))
        colour = ALARM if strip.p <= 0.05 else SERIES[0]
        x = axes.x(strip.observed)
        marks.append(line(x, base - _STRIP + 14, x, base, stroke=colour, width=2))
        tip = f"{strip.name}: {strip.observed:.3g}, two-sided p = {strip.p:.2g} before correction"
        marks.append(circle(x, base - _STRIP + 14, 5, fill=colour, tip=tip))
        marks.append(text(axes.left - 10, base - 12, _short(strip.name), anchor="end"))
        marks.append(
            text(
                axes.width - axes.right + 8, base - 12, f"p = {strip.p:.2g}", fill=colour, size=11.5
            )
        )
    return figure(title, axes.width, axes.height, marks)


def _short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
