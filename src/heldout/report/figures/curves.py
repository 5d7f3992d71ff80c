"""Curves of a training: one quantity over the updates, as measured and smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.errors import percent
from heldout.report.figures.svg import (
    ABOVE,
    CARD,
    DASHES,
    INK,
    LEGEND_LINE,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    heading,
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


# Accuracy on originals and on their twins: one line per model, so that a larger drop than the others' stands
# out.


class Slope(NamedTuple):
    """Shares right with their intervals, originals first; ``clean`` cannot have seen the benchmark."""

    name: str
    values: tuple[float, float]
    lows: tuple[float, float]
    highs: tuple[float, float]
    clean: bool = False


def slope_chart(
    slopes: Sequence[Slope],
    *,
    ends: tuple[str, str],
    title: str = "Originals and twins",
    label: str = "share right",
) -> Markup:
    low = max(0.0, min(min(slope.lows) for slope in slopes) - 0.04)
    high = min(1.0, max(max(slope.highs) for slope in slopes) + 0.04)
    labels = [_label(slope) for slope in slopes]
    beside = 22 + _LETTER * max(len(label) for label in labels)
    axes = Axes(
        Scale(-0.2, 1.0),
        Scale(low, max(high, low + 0.05)),
        width=max(480.0, 66 + beside + 150),
        height=400,
        right=beside,
        percent=("y",),
    )
    marks = [mark for mark in axes.frame(title, "", label) if "rotate" in mark or "%" in mark]
    marks.insert(0, heading(title, axes.width))
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
                f"{slope.name}, {ends[place]}: {percent(slope.values[place])} "
                f"[{percent(slope.lows[place])}, {percent(slope.highs[place])}]"
            )
            marks.append(circle(x, y, 4.2, fill=colour, tip=tip))
        y = ends_at[1][1] + 4
        while any(abs(y - other) < 15 for other in taken):  # names must not lie on each other
            y += 3
        taken.append(y)
        marks.append(text(axes.x(1) + 14, y, labels[index], fill=colour, halo=True))
    return figure(title, axes.width, axes.height, marks)


_LETTER = 6.8  # width of a letter at the size of names


def _label(slope: Slope) -> str:
    """The name and by how many points it drops: the sign that twin-drop and twin-margin have in tables and claims."""
    points = f"{100 * (slope.values[0] - slope.values[1]):.1f}".replace("-", "−")
    return f"{_short(slope.name)}{' (clean)' if slope.clean else ''}: drop {points}"


def _short(name: str, longest: int = 22) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


# ROC curves; on a logarithmic axis where the false positives that matter are one in a million.


class Curve(NamedTuple):
    name: str
    false_positive: Sequence[float]  # rising
    true_positive: Sequence[float]
    auc: float | None = None


class OperatingPoint(NamedTuple):
    name: str
    false_positive: float
    true_positive: float


def roc_chart(
    curves: Sequence[Curve],
    *,
    points: Sequence[OperatingPoint] = (),
    smallest: float | None = None,
    title: str = "Receiver operating characteristic",
) -> Markup:
    """``smallest`` makes the horizontal axis logarithmic from there on."""
    across = Scale(smallest, 1.0, log=True) if smallest else Scale(0.0, 1.0)
    axes = Axes(across, Scale(0.0, 1.0), width=560, height=430)
    marks = axes.frame(title, "false-positive rate", "true-positive rate")
    chance = [across.low + (1.0 - across.low) * (index / 60) ** 3 for index in range(61)]
    marks.append(path(axes.points(chance, chance), stroke=SOFT, width=1.5, dash="3 4"))
    entries = []
    for index, curve in enumerate(curves):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        corners = _steps(axes, curve, across.low)
        marks.append(path(corners, stroke=colour, dash=dash))
        area = f", AUC {_auc(curve.auc)}" if curve.auc is not None else ""
        entries.append((curve.name + area, colour, dash))
    for point in points:
        x, y = axes.x(point.false_positive), axes.y(point.true_positive)
        marks.append(circle(x, y, 4.5, fill=CARD, stroke=INK))
        marks.append(text(x, y + 20, point.name, anchor="middle", halo=True))
    longest = max([len(name) for name, _, _ in entries] + [0])
    # Chance hugs the right of a logarithmic axis; the left half is free there.
    x = axes.left + 8 if smallest else axes.width - axes.right - 44 - 6.4 * longest
    y = axes.height - axes.bottom - 14 - 17 * max(len(entries) - 1, 0)
    marks += legend(entries, max(axes.left + 8, x), y)
    return figure(title, axes.width, axes.height, marks)


def _steps(axes: Axes, curve: Curve, low: float) -> list[tuple[float, float]]:
    """Straight between the points in the units of the rates, whatever the axis does to them."""
    corners: list[tuple[float, float]] = []
    previous: tuple[float, float] | None = None
    for false, true in zip(curve.false_positive, curve.true_positive, strict=True):
        if previous is not None and axes.x_scale.log and false > previous[0]:
            for step in range(1, 8):
                share = (step / 8) ** 3
                between = previous[0] + share * (false - previous[0])
                height = previous[1] + share * (true - previous[1])
                if between >= low:
                    corners.append((axes.x(between), axes.y(height)))
        corners.append((axes.x(false), axes.y(true)))
        previous = (false, true)
    return corners


def _auc(value: float) -> str:
    """As many digits as tell it from 1."""
    for digits in range(3, 8):
        if value == 1.0 or round(value, digits) < 1.0:
            return f"{value:.{digits}f}"
    return f"1 − {1.0 - value:.1e}"


# Flag fraction against α on logarithmic axes, with bands; points above the diagonal are more than chance.


class Series(NamedTuple):
    """One denominator of one set: images and questions are two series, never one."""

    name: str
    alphas: Sequence[float]
    rates: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


def flag_fraction_chart(
    series: Sequence[Series], *, title: str = "Share above the similarity threshold, by α"
) -> Markup:
    """A rate of 0 has no place on a logarithmic axis: it is drawn hollow on the floor."""
    alphas = [alpha for curve in series for alpha in curve.alphas] or [0.001, 0.1]
    seen = [value for curve in series for value in curve.rates if value > 0]
    floor = min([*seen, min(alphas)]) / 1.6
    ratio = max(alphas) / min(alphas) if max(alphas) > min(alphas) else 10.0
    axes = Axes(
        Scale(min(alphas) / ratio**0.03, max(alphas) * ratio**0.03, log=True),
        Scale(floor, 1.0, log=True),
        height=380 + LEGEND_LINE * len(series),
        top=ABOVE + LEGEND_LINE * len(series),
        percent=("y",),
    )
    marks = axes.frame(title, "α: share of comparison pictures above it", "share above it")
    ends = [axes.x_scale.low, axes.x_scale.high]
    marks.append(path(axes.points(ends, ends), stroke=SOFT, width=1.5, dash="3 4"))
    _, last = axes.points(ends, ends)
    aside = text(last[0] - 6, last[1] + 56, "chance: share = α", anchor="end", fill=SOFT, halo=True)
    entries = []
    for index, plotted in enumerate(series):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        band = [
            *axes.points(plotted.alphas, plotted.highs),
            *reversed(axes.points(plotted.alphas, plotted.lows)),
        ]
        if len(plotted.alphas) == 1:
            (alpha,), (low,), (high,) = plotted.alphas, plotted.lows, plotted.highs
            marks.append(
                line(axes.x(alpha), axes.y(low), axes.x(alpha), axes.y(high), stroke=colour)
            )
        else:
            marks.append(path(band, fill=colour, opacity=0.16, closed=True))
        marks.append(path(axes.points(plotted.alphas, plotted.rates), stroke=colour, dash=dash))
        for alpha, rate, low, high in zip(
            plotted.alphas, plotted.rates, plotted.lows, plotted.highs, strict=True
        ):
            interval = f"[{percent(low, 2)}, {percent(high, 2)}]"
            tip = f"{plotted.name}: {percent(rate, 2)} {interval} above the threshold at α = {alpha:.2g}"
            fill = colour if rate > 0 else CARD
            marks.append(
                circle(axes.x(alpha), axes.y(rate), 3.2, fill=fill, stroke=colour, tip=tip)
            )
        entries.append((plotted.name, colour, dash))
    if any(rate == 0 for curve in series for rate in curve.rates):
        x, y = axes.x(ends[1]) - 6, axes.height - axes.bottom - 8
        marks.append(text(x, y, "hollow: none above", anchor="end", fill=SOFT, halo=True))
    marks.append(aside)
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(title, axes.width, axes.height, marks)
