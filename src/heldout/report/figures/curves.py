"""Curves of a training: one quantity over the updates, as measured and smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.report.figures.axes import ABOVE, LEGEND_LINE, Axes, Scale
from heldout.report.figures.svg import DASHES, SERIES, figure, legend, path


class StepCurve(NamedTuple):
    """One training's values; steps without a value are left out."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]


def step_chart(
    curves: Sequence[StepCurve], *, title: str, label: str, percent: bool = False
) -> Markup:
    """Thin: every update. Thick: the mean over about a tenth of them."""
    shown = [one for one in curves if one.steps]
    values = [value for one in shown for value in one.values] or [0.0, 1.0]
    low, high = (0.0, 1.0) if percent else (min(values), max(values))
    room = 0.06 * (high - low) or max(abs(high), 1e-6) * 0.5
    last = max((max(one.steps) for one in shown), default=1.0)
    names = len(shown) if len(shown) > 1 else 0
    axes = Axes(
        Scale(0.0, max(last, 1.0)),
        Scale(low, high) if percent else Scale(low - room, high + room),
        height=320 + LEGEND_LINE * names,
        top=ABOVE + LEGEND_LINE * names,
        percent=("y",) if percent else (),
    )
    marks = axes.frame(title, "update", label)
    for index, one in enumerate(shown):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        marks.append(path(axes.points(one.steps, one.values), stroke=_faint(colour), width=1))
        smooth = axes.points(one.steps, smoothed(one.values))
        marks.append(path(smooth, stroke=colour, width=2.4, dash=dash))
    if names:
        entries = [
            (one.name, SERIES[index % len(SERIES)], DASHES[index % len(DASHES)])
            for index, one in enumerate(shown)
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
