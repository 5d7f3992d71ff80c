"""Power against dose, one small panel per detector: share of models that fire, with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.report.figures.svg import (
    ALARM,
    INK,
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
    """Doses stand at even steps: 1 against 2 is the news, not 5 against 10."""
    doses = sorted({dose for panel in panels for curve in panel.curves for dose in curve.doses})
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    rows = -(-len(panels) // columns)
    head = 34 + 17 * len(names) + 12
    marks = opening(title, names)
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
            text(start - 6, y(share) + 4, f"{share:.0%}", anchor="end", size=10, fill=SOFT)
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
