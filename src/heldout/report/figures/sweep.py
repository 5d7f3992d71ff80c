"""Flag fraction against α on logarithmic axes, with bands; where it leaves the diagonal is the news."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.report.figures.svg import (
    ABOVE,
    CARD,
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


class Series(NamedTuple):
    """One denominator of one set: images and questions are two series, never one."""

    name: str
    alphas: Sequence[float]
    rates: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


def flag_fraction_chart(
    series: Sequence[Series], *, title: str = "Flag fraction against α"
) -> Markup:
    """A rate of 0 has no place on a logarithmic axis: it is drawn hollow on the floor."""
    alphas = [alpha for one in series for alpha in one.alphas] or [0.001, 0.1]
    seen = [value for one in series for value in one.rates if value > 0]
    floor = min([*seen, min(alphas)]) / 1.6
    wide = max(alphas) / min(alphas) if max(alphas) > min(alphas) else 10.0
    axes = Axes(
        Scale(min(alphas) / wide**0.03, max(alphas) * wide**0.03, log=True),
        Scale(floor, 1.0, log=True),
        height=380 + LEGEND_LINE * len(series),
        top=ABOVE + LEGEND_LINE * len(series),
        percent=("y",),
    )
    marks = axes.frame(title, "α: share of different pictures that τ(α) flags", "share flagged")
    ends = [axes.x_scale.low, axes.x_scale.high]
    marks.append(path(axes.points(ends, ends), stroke=SOFT, width=1.5, dash="3 4"))
    _, last = axes.points(ends, ends)
    aside = text(last[0] - 6, last[1] + 56, "rate = α: chance", anchor="end", fill=SOFT, halo=True)
    entries = []
    for index, one in enumerate(series):
        colour, dash = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
        band = [
            *axes.points(one.alphas, one.highs),
            *reversed(axes.points(one.alphas, one.lows)),
        ]
        if len(one.alphas) == 1:
            (alpha,), (low,), (high,) = one.alphas, one.lows, one.highs
            marks.append(
                line(axes.x(alpha), axes.y(low), axes.x(alpha), axes.y(high), stroke=colour)
            )
        else:
            marks.append(path(band, fill=colour, opacity=0.16, closed=True))
        marks.append(path(axes.points(one.alphas, one.rates), stroke=colour, dash=dash))
        for alpha, rate, low, high in zip(one.alphas, one.rates, one.lows, one.highs, strict=True):
            tip = f"{one.name}: {rate:.2%} [{low:.2%}, {high:.2%}] flagged at α = {alpha:.2g}"
            fill = colour if rate > 0 else CARD
            marks.append(
                circle(axes.x(alpha), axes.y(rate), 3.2, fill=fill, stroke=colour, tip=tip)
            )
        entries.append((one.name, colour, dash))
    if any(rate == 0 for one in series for rate in one.rates):
        x, y = axes.x(ends[1]) - 6, axes.height - axes.bottom - 8
        marks.append(text(x, y, "hollow: none flagged", anchor="end", fill=SOFT, halo=True))
    marks.append(aside)
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(title, axes.width, axes.height, marks)
