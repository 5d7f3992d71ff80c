"""Curves of a training: one quantity over the updates, as measured and smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.report.figures.svg import (
    ABOVE,
    DASHES,
    LEGEND_LINE,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    legend,
    line,
    path,
    text,
)


class StepCurve(NamedTuple):
    """One training's values; steps without a value are left out."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]


def step_chart(
    curves: Sequence[StepCurve], *, title: str, label: str, percent: bool = False
) -> Markup:
    """Thin: every update. Thick: the mean over about a tenth of them."""
    shown = [curve for curve in curves if curve.steps]
    values = [value for step_curve in shown for value in step_curve.values] or [0.0, 1.0]
    low, high = (0.0, 1.0) if percent else (min(values), max(values))
    room = 0.06 * (high - low) or max(abs(high), 1e-6) * 0.5
    last = max((max(step_curve.steps) for step_curve in shown), default=1.0)
    names = len(shown) if len(shown) > 1 else 0
    axes = Axes(
        Scale(0.0, max(last, 1.0)),
        Scale(low, high) if percent else Scale(low - room, high + room),
        height=320 + LEGEND_LINE * names,
        top=ABOVE + LEGEND_LINE * names,
        percent=("y",) if percent else (),
    )
    marks = axes.frame(title, "update", label)
    for index, step_curve in enumerate(shown):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        marks.append(
            path(axes.points(step_curve.steps, step_curve.values), stroke=_faint(colour), width=1)
        )
        smooth = axes.points(step_curve.steps, smoothed(step_curve.values))
        marks.append(path(smooth, stroke=colour, width=2.4, dash=dash))
    if names:
        entries = [
            (step_curve.name, SERIES[index % len(SERIES)], DASHES[index % len(DASHES)])
            for index, step_curve in enumerate(shown)
        ]
        marks += legend(entries, axes.left, ABOVE + 8)
    return figure(title, axes.width, axes.height, marks)


def smoothed(values: Sequence[float]) -> list[float]:
    """Centred means over a tenth of the values, over fewer at the ends."""
    reach = max(1, math.ceil(len(values) / 20))
    return [
        sum(part) / len(part)
        for place in range(len(values))
        if (part := values[max(0, place - reach) : place + reach + 1])
    ]


def _faint(colour: str) -> str:
    return f"{colour}55"


# Accuracy on originals and on their twins: one line per model; who falls more than the others?


class Slope(NamedTuple):
    """Shares right with their intervals, originals first; ``clean`` cannot have seen the benchmark."""

    name: str
    values: tuple[float, float]
    lows: tuple[float, float]
    highs: tuple[float, float]
    clean: bool = False


def slope_chart(
    slopes: Sequence[Slope], *, ends: tuple[str, str], title: str = "Originals and twins"
) -> Markup:
    low = max(0.0, min(min(slope.lows) for slope in slopes) - 0.04)
    high = min(1.0, max(max(slope.highs) for slope in slopes) + 0.04)
    axes = Axes(Scale(-0.35, 1.9), Scale(low, max(high, low + 0.05)), height=400, percent=("y",))
    marks = [
        mark for mark in axes.frame(title, "", "share right") if "rotate" in mark or "%" in mark
    ]
    marks.insert(0, text(12, 20, title, size=14, weight=600))
    floor = axes.height - axes.bottom
    for value in axes.y_scale.ticks():
        marks.insert(1, line(axes.left, axes.y(value), axes.x(1.0), axes.y(value)))
    for place, name in enumerate(ends):
        marks.append(line(axes.x(place), axes.top, axes.x(place), floor))
        marks.append(text(axes.x(place), floor + 20, name, anchor="middle"))
    taken: list[float] = []
    for index, slope in sorted(enumerate(slopes), key=lambda entry: -entry[1].values[1]):
        colour = SOFT if slope.clean else SERIES[index % len(SERIES)]
        dash = "3 4" if slope.clean else DASHES[index % len(DASHES)]
        shift = 5.0 * (index - (len(slopes) - 1) / 2)  # whiskers side by side
        ends_at = [(axes.x(place), axes.y(slope.values[place])) for place in (0, 1)]
        marks.append(path(ends_at, stroke=colour, dash=dash, width=2.4))
        for place, (x, y) in enumerate(ends_at):
            whisker = [(x + shift, axes.y(end[place])) for end in (slope.lows, slope.highs)]
            marks.append(path(whisker, stroke=colour, width=1.3))
            tip = (
                f"{slope.name}, {ends[place]}: {slope.values[place]:.1%} "
                f"[{slope.lows[place]:.1%}, {slope.highs[place]:.1%}]"
            )
            marks.append(circle(x, y, 4.2, fill=colour, tip=tip))
        y = ends_at[1][1] + 4
        while any(abs(y - other) < 15 for other in taken):  # names must not lie on each other
            y += 3
        taken.append(y)
        change = 100 * (slope.values[1] - slope.values[0])
        words = f"{_short(slope.name)}{' (clean)' if slope.clean else ''} {change:+.1f}"
        marks.append(text(axes.x(1) + 14, y, words, fill=colour, halo=True))
    return figure(title, axes.width, axes.height, marks)


def _short(name: str, longest: int = 22) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
