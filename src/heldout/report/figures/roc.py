"""ROC curves; on a logarithmic axis where the false positives that matter are one in a million."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.report.figures.svg import (
    CARD,
    DASHES,
    INK,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    legend,
    path,
    text,
)


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
