"""Counts as bars: one line per name, or one column per bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.errors import percent
from heldout.report.figures.svg import (
    ABOVE,
    ALARM,
    CARD,
    INK,
    LEGEND_LINE,
    LINE,
    OPENED,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    heading,
    line,
    rectangle,
    text,
)

_ROW, _LETTER, _WIDTH = 24.0, 6.8, 480.0
_LONGEST = 34


def bar_chart(counts: Mapping[str, int], *, title: str, most: int = 14) -> Markup:
    """Names by frequency with counts and shares; the rarest are summed up."""
    total = sum(counts.values())
    shown = list(counts.items())
    if len(shown) > most:
        rest = shown[most - 1 :]
        shown = [*shown[: most - 1], (f"{len(rest)} others", sum(count for _, count in rest))]
    left = 24 + _LETTER * max([len(_short(name)) for name, _ in shown] + [4])
    room = _WIDTH - left - 110
    largest = max([1, *(count for _, count in shown)])
    marks = [heading(title, _WIDTH)]
    for place, (name, count) in enumerate(shown):
        y = 40 + _ROW * place
        marks.append(text(left - 8, y + 13, _short(name), anchor="end"))
        width = room * count / largest
        tip = f"{name}: {count:,}"
        marks.append(rectangle(left, y, width, _ROW - 7, fill=SERIES[0], round=2, tip=tip))
        share = f"{count:,} ({percent(count / total, 0)})" if total else "0"
        marks.append(text(left + width + 8, y + 13, share, fill=SOFT))
    return figure(title, _WIDTH, 52 + _ROW * len(shown), marks)


class RateBar(NamedTuple):
    """A value between 0 and 1, with its interval where it has one; ``group`` puts neighbours under one
    heading, values of one name and several ``series`` stand in one row."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    group: str = ""
    series: str = ""


def rate_chart(
    rates: Sequence[RateBar],
    *,
    title: str,
    label: str,
    shares: bool = True,
    reference: float | None = None,
) -> Markup:
    """A dot with its interval for every value.

    Args:
        rates: What to draw, from top to bottom.
        title: Of the figure.
        label: Of the axis.
        shares: Whether values are written as percentages.
        reference: A value to mark with a dashed line, such as chance.
    """
    rows: dict[str, dict[str, list[RateBar]]] = {}
    for rate in rates:
        rows.setdefault(rate.group, {}).setdefault(rate.name, []).append(rate)
    names = list(dict.fromkeys(rate.series for rate in rates if rate.series))
    left = 24 + _LETTER * max([len(_short(rate.name)) for rate in rates] + [4])
    lines = sum(len(members) for members in rows.values())
    height = 90 + LEGEND_LINE * len(names) + _ROW * lines + 22 * sum(bool(group) for group in rows)
    top = ABOVE + LEGEND_LINE * len(names)
    right = 128.0 if len(names) == 2 else 66.0 if len(names) < 2 else 24.0
    axes = Axes(Scale(0.0, 1.0), Scale(0.0, 1.0), height=height, left=left, right=right, top=top)
    floor = height - axes.bottom

    def words(value: float) -> str:
        return percent(value) if shares else f"{value:.2f}"

    marks = [heading(title, axes.width)]
    for place, name in enumerate(names):
        y = OPENED + LEGEND_LINE * place
        marks += [_dot(18, y - 4, place, name), text(31, y, name)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(axes.x(share), axes.top, axes.x(share), floor))
        tick = percent(share, 0) if shares else f"{share:g}"
        marks.append(text(axes.x(share), floor + 17, tick, anchor="middle", fill=SOFT))
    if reference is not None:
        at = axes.x(reference)
        marks.append(line(at, axes.top, at, floor, stroke=ALARM, width=1.5, dash="4 3"))
    middle = (axes.left + axes.width - axes.right) / 2
    marks.append(text(middle, height - 12, label, anchor="middle"))
    y = axes.top
    for group, members in rows.items():
        if group:
            marks.append(text(12, y + 15, group, fill=SOFT, size=11, weight=600))
            y += 22
        for name, dots in members.items():
            marks.append(text(left - 8, y + 15, _short(name), anchor="end"))
            for rate in reversed(dots):  # the first lies on top
                place = names.index(rate.series) if rate.series else 0
                tip = ": ".join(filter(None, (name, rate.series, words(rate.value))))
                if rate.low is not None and rate.high is not None:
                    ends = axes.x(rate.low), axes.x(rate.high)
                    bar = SERIES[place % len(SERIES)]
                    marks.append(line(ends[0], y + 11, ends[1], y + 11, stroke=bar, width=5))
                    tip += f" [{words(rate.low)}, {words(rate.high)}]"
                marks.append(_dot(axes.x(rate.value), y + 11, place, tip, alone=not names))
            if len(names) <= 2:  # more numbers than that are read off the axis
                shown = " · ".join(dict.fromkeys(words(rate.value) for rate in dots))
                marks.append(text(axes.width - axes.right + 10, y + 15, shown, fill=SOFT))
            y += _ROW
    return figure(title, axes.width, height, marks)


def _dot(x: float, y: float, place: int, tip: str, *, alone: bool = False) -> str:
    """Series differ by colour and by filling, so that no colour has to be told from another."""
    colour = INK if alone else SERIES[place % len(SERIES)]
    if place % 2:
        return circle(x, y, 5, fill=CARD, stroke=colour, tip=tip)
    return circle(x, y, 4, fill=colour, stroke=CARD, tip=tip)


def bin_chart(
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    title: str,
    label: str,
    unit: str,
    threshold: float | None = None,
) -> Markup:
    """A histogram of whole counts, with a line at the threshold."""
    axes = Axes(Scale(edges[0], edges[-1]), Scale(0.0, max([1, *counts]) * 1.12), height=300)
    marks = axes.frame(title, label, unit)
    floor = axes.y(0.0)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        width = axes.x(high) - axes.x(low) - 1
        tip = f"{low:g} to {high:g}: {count:,}"
        marks.append(
            rectangle(
                axes.x(low), axes.y(count), width, floor - axes.y(count), fill=SERIES[0], tip=tip
            )
        )
    if threshold is not None:
        at = axes.x(threshold)
        marks.append(line(at, axes.top, at, floor, stroke=ALARM, width=1.5, dash="4 3"))
        marks.append(
            text(at - 6, axes.top + 12, f"{threshold:g}", anchor="end", fill=ALARM, halo=True)
        )
    return figure(title, axes.width, axes.height, marks)


class WaterfallStep(NamedTuple):
    """``lost``: why things went no further, with counts, most frequent first."""

    name: str
    left: int
    lost: Sequence[tuple[str, int]]


def funnel_chart(steps: Sequence[WaterfallStep], *, title: str) -> Markup:
    """One bar per step, as long as what passed; beside it what was dropped, and why."""
    left = 24 + _LETTER * max([len(_short(step.name)) for step in steps] + [4])
    room, high = 300.0, 52.0
    width = left + room + 390
    largest = max([1, *(step.left for step in steps)])
    marks = [heading(title, width)]
    for place, step in enumerate(steps):
        y = 36 + high * place
        if place:
            marks.append(line(12, y - 4, width - 12, y - 4, stroke=LINE))
        marks.append(text(left - 10, y + 24, _short(step.name), anchor="end"))
        reach = room * step.left / largest
        marks.append(rectangle(left, y + 7, room, 26, fill=LINE, opacity=0.35, round=3))
        marks.append(
            rectangle(
                left, y + 7, reach, 26, fill=SERIES[0], round=3, tip=f"{step.name}: {step.left:,}"
            )
        )
        marks.append(text(left + reach + 8, y + 25, f"{step.left:,}", size=13, weight=600))
        marks += _losses(step, left + room + 76, y + 13)
    return figure(title, width, 44 + high * len(steps), marks)


def _losses(step: WaterfallStep, x: float, y: float) -> list[str]:
    total = sum(count for _, count in step.lost)
    if not total:
        return []
    first, rest = step.lost[:3], step.lost[3:]
    words = ", ".join(f"{_short(reason)} {count:,}" for reason, count in first)
    words += f", {len(rest)} more" if rest else ""
    marks = [text(x, y, f"− {total:,}", fill=ALARM, weight=600)]
    lines = _wrapped(words, 54)
    lines = lines if len(lines) <= 2 else [lines[0], f"{lines[1]} …"]
    for number, part in enumerate(lines):
        marks.append(text(x, y + 14 * (number + 1), part, fill=SOFT, size=11))
    return marks


def _wrapped(words: str, most: int) -> list[str]:
    lines = [""]
    for word in words.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
