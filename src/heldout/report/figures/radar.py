"""Recall under every transform as a radar: one axis per transform, one polygon per encoder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from heldout.report.figures.svg import (
    LINE,
    SOFT,
    circle,
    figure,
    line,
    opening,
    path,
    series,
    text,
)

_WIDTH, _RADIUS = 640.0, 172.0
_RINGS = (0.25, 0.5, 0.75, 1.0)


def radar_chart(
    axes: Sequence[str], values: Mapping[str, Sequence[float]], *, title: str = "R@1 by transform"
) -> Markup:
    """``values`` holds, for every encoder, one share between 0 and 1 per axis."""
    entries = list(values)
    top = 44 + 17 * len(entries) + 34
    x0, y0 = _WIDTH / 2, top + _RADIUS
    height = y0 + _RADIUS + 40

    def at(index: int, share: float) -> tuple[float, float]:
        angle = 2 * math.pi * index / max(len(axes), 1) - math.pi / 2
        return x0 + _RADIUS * share * math.cos(angle), y0 + _RADIUS * share * math.sin(angle)

    marks = opening(title, entries)
    for ring in _RINGS:
        around = [at(index, ring) for index in range(len(axes))]
        marks.append(path(around, stroke=LINE, width=1, closed=True))
    for index, name in enumerate(axes):
        marks.append(line(x0, y0, *at(index, 1.0)))
        x, y = at(index, 1.07)
        side = "middle" if abs(x - x0) < 12 else "start" if x > x0 else "end"
        drop = 4 + 5 * (y - y0) / _RADIUS  # names above the circle sit higher, below it lower
        marks.append(text(x, y + drop, name, anchor=side))
    for index, (_, shares) in enumerate(values.items()):
        colour, dash = series(index)
        if len(shares) != len(axes):
            raise ValueError(f"{len(axes)} axes need {len(axes)} values, got {len(shares)}")
        corners = [at(axis, min(max(share, 0.0), 1.0)) for axis, share in enumerate(shares)]
        marks.append(
            path(corners, stroke=colour, fill=colour, opacity=0.08, dash=dash, closed=True)
        )
        marks += [circle(x, y, 2.6, fill=colour) for x, y in corners]
    for ring in _RINGS:
        # Between two spokes, where no name and no corner stands.
        first, second = at(0, ring), at(1, ring) if len(axes) > 1 else at(0, ring)
        x, y = (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
        marks.append(text(x, y + 4, f"{ring:g}", anchor="middle", size=11, fill=SOFT, halo=True))
    return figure(title, _WIDTH, height, marks)
