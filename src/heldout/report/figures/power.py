"""Power against dose, one small panel per detector: share of models that fire, with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from heldout.errors import percent
from heldout.report.figures.svg import (
    ABOVE,
    ALARM,
    DASHES,
    INK,
    LEGEND_LINE,
    LINE,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    legend,
    line,
    opening,
    path,
    rectangle,
    series,
    text,
)

WIDTH, HEIGHT = 250.0, 190.0
LEFT, TOP, BOTTOM = 40.0, 34.0, 34.0


class DoseCurve(NamedTuple):
    """Shares by dose, dose 0 being the clean models."""

    name: str
    doses: Sequence[int]
    shares: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


class DosePanel(NamedTuple):
    title: str
    curves: Sequence[DoseCurve]


def power_chart(
    panels: Sequence[DosePanel],
    *,
    level: float = 0.05,
    columns: int = 3,
    title: str = "Share of models that fire, by dose",
) -> Markup:
    """Doses stand at even steps, because the step from 1 to 2 matters more than that from 5 to 10."""
    doses = sorted({dose for panel in panels for curve in panel.curves for dose in curve.doses})
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    rows = -(-len(panels) // columns)
    head = 34 + 17 * len(names) + 12
    marks = opening(title, names, columns * WIDTH + 16)
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        marks += _panel(panel, names, doses, level, column * WIDTH, head + row * HEIGHT)
    return figure(title, columns * WIDTH + 16, head + rows * HEIGHT, marks)


def _panel(
    panel: DosePanel,
    names: Sequence[str],
    doses: Sequence[int],
    level: float,
    left: float,
    top: float,
) -> list[str]:
    start, end = left + LEFT, left + WIDTH - 10
    floor, ceiling = top + HEIGHT - BOTTOM, top + TOP

    def x(dose: int) -> float:
        return start + 8 + doses.index(dose) * (end - start - 16) / max(len(doses) - 1, 1)

    def y(share: float) -> float:
        return floor - share * (floor - ceiling)

    marks = [text(start, ceiling - 12, panel.title, size=12, weight=600)]
    for share in (0.0, 0.5, 1.0):
        marks.append(line(start, y(share), end, y(share), stroke=LINE))
        marks.append(
            text(start - 6, y(share) + 4, percent(share, 0), anchor="end", size=10, fill=SOFT)
        )
    marks.append(line(start, y(level), end, y(level), stroke=ALARM, dash="4 3"))
    for dose in doses:
        words = "clean" if dose == 0 else str(dose)
        marks.append(text(x(dose), floor + 14, words, anchor="middle", size=10, fill=INK))
    for curve in panel.curves:
        colour, dash = series(names.index(curve.name))
        band = [
            *((x(dose), y(high)) for dose, high in zip(curve.doses, curve.highs, strict=True)),
            *reversed(
                [(x(dose), y(low)) for dose, low in zip(curve.doses, curve.lows, strict=True)]
            ),
        ]
        marks.append(path(band, fill=colour, opacity=0.12, closed=True))
        points = [
            (x(dose), y(share)) for dose, share in zip(curve.doses, curve.shares, strict=True)
        ]
        marks.append(path(points, stroke=colour, dash=dash))
        marks += [circle(*point, 2.6, fill=colour) for point in points]
    return marks


# The cohort-median confound in two pictures: clean models in the tail, and when they get there.


def tail_chart(
    names: Sequence[str],
    delta: ArrayLike,
    *,
    tail: float,
    flag: float,
    title: str = "Share of items above Δ, no model having seen any item",
) -> Markup:
    """For every model the share of items whose Δ exceeds x, on logarithmic axes."""
    rows = np.asarray(delta, dtype=np.float64)
    n = rows.shape[1]
    right = max(float(rows.max()) * 1.3, tail * 3)
    left = min(1.0, tail / 3)
    above = LEGEND_LINE * len(names)  # inside the frame a legend hides the tails of some cohort
    axes = Axes(
        Scale(left, right, log=True),
        Scale(0.5 / n, 1.0, log=True),
        height=360 + above,
        top=ABOVE + above,
        percent=("y",),
    )
    marks = axes.frame(title, "Δ: score above the median of the cohort", "share of items above")
    floor, ceiling = axes.height - axes.bottom, axes.top
    marks.append(
        rectangle(
            axes.x(tail),
            ceiling,
            axes.x(right) - axes.x(tail),
            axes.y(flag) - ceiling,
            fill=ALARM,
            opacity=0.1,
        )
    )
    marks.append(line(axes.x(tail), ceiling, axes.x(tail), floor, stroke=ALARM, dash="4 3"))
    marks.append(
        line(
            axes.left, axes.y(flag), axes.width - axes.right, axes.y(flag), stroke=ALARM, dash="4 3"
        )
    )
    words = f"flagged: more than {percent(flag, 0)} above {tail:g}"
    marks.append(
        text(axes.width - axes.right - 6, ceiling + 16, words, anchor="end", fill=ALARM, halo=True)
    )
    entries = []
    grid = np.geomspace(left, right, 160)
    for index, (name, row) in enumerate(zip(names, rows, strict=True)):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        shares = (row[None, :] > grid[:, None]).mean(axis=1)
        shown = shares > 0
        if shown.any():
            points = axes.points(grid[shown].tolist(), shares[shown].tolist())
            marks.append(path(points, stroke=colour, dash=dash))
        share = percent(float((row > tail).mean()))
        entries.append((f"{name}: {share}", colour, dash))
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(title, axes.width, axes.height, marks)


def composition_chart(
    outliers: Sequence[int],
    flags: Sequence[float],
    rates: Sequence[float],
    *,
    title: str = "A clean probe's risk of a flag, by the company it keeps",
) -> Markup:
    """False-positive probability and mean tail rate against low-gain models in the cohort."""
    last = max(*outliers, 3)  # fewer, and the axis would be marked in halves of a model
    top = ABOVE + 3 * LEGEND_LINE  # the legend stands above the frame: lines fill all of it
    axes = Axes(Scale(-0.3, last + 0.3), Scale(0.0, 1.08), height=380, top=top, percent=("y",))
    marks = axes.frame(title, "low-gain models in the cohort", "share")
    xs = [float(count) for count in outliers]
    series = (
        ("flag probability of the clean probe", flags),
        ("mean share of its items in the tail", rates),
    )
    entries = []
    for index, (name, values) in enumerate(series):
        colour, dash = (ALARM, SERIES[0])[index], DASHES[index]
        marks.append(path(axes.points(xs, list(values)), stroke=colour, dash=dash))
        for (x, y), value in zip(axes.points(xs, list(values)), values, strict=True):
            marks.append(circle(x, y, 4, fill=colour))
            label = percent(value, 0)
            marks.append(text(x, y - 9, label, anchor="middle", size=11, fill=colour, halo=True))
        entries.append((name, colour, dash))
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(title, axes.width, axes.height, marks)
