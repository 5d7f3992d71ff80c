"""Counts as bars: one line per name, or one column per bin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from heldout.errors import percent
from heldout.report.figures.svg import (
    ALARM,
    CARD,
    INK,
    LINE,
    SERIES,
    SOFT,
    Axes,
    Scale,
    circle,
    figure,
    line,
    opening,
    path,
    rectangle,
    series,
    text,
)

_ROW, _LETTER, _WIDTH = 24.0, 6.8, 640.0
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
    marks = [text(12, 20, title, size=14, weight=600)]
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
    """A share with its interval; ``group`` puts neighbours under one heading."""

    name: str
    value: float
    low: float
    high: float
    group: str = ""


def rate_chart(rates: Sequence[RateBar], *, title: str, label: str) -> Markup:
    """A dot with its interval for every share, between 0 and 100 %."""
    groups = list(dict.fromkeys(rate.group for rate in rates))
    left = 24 + _LETTER * max([len(_short(rate.name)) for rate in rates] + [4])
    height = 90 + _ROW * len(rates) + 22 * sum(bool(group) for group in groups)
    axes = Axes(Scale(0.0, 1.0), Scale(0.0, 1.0), height=height, left=left, right=66)
    floor = height - axes.bottom
    marks = [text(12, 20, title, size=14, weight=600)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(axes.x(share), axes.top, axes.x(share), floor))
        marks.append(
            text(
                axes.x(share),
                floor + 17,
                percent(share, 0),
                anchor="middle",
                fill=SOFT,
            )
        )
    middle = (axes.left + axes.width - axes.right) / 2
    marks.append(text(middle, height - 12, label, anchor="middle"))
    y = axes.top
    for group in groups:
        if group:
            marks.append(text(12, y + 15, group, fill=SOFT, size=11, weight=600))
            y += 22
        for rate in (rate for rate in rates if rate.group == group):
            marks.append(text(left - 8, y + 15, _short(rate.name), anchor="end"))
            ends = axes.x(rate.low), axes.x(rate.high)
            marks.append(line(ends[0], y + 11, ends[1], y + 11, stroke=SERIES[0], width=5))
            tip = f"{rate.name}: {percent(rate.value)} [{percent(rate.low)}, {percent(rate.high)}]"
            marks.append(circle(axes.x(rate.value), y + 11, 4, fill=INK, stroke=CARD, tip=tip))
            shown = percent(rate.value)
            marks.append(text(axes.width - axes.right + 10, y + 15, shown, fill=SOFT))
            y += _ROW
    return figure(title, axes.width, height, marks)


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
    marks = [text(12, 20, title, size=14, weight=600)]
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


# Recall under every transform as a radar: one axis per transform, one polygon per encoder.


_RADAR_WIDTH, _RADIUS = 640.0, 172.0
_RINGS = (0.25, 0.5, 0.75, 1.0)


def radar_chart(
    axes: Sequence[str], values: Mapping[str, Sequence[float]], *, title: str = "R@1 by transform"
) -> Markup:
    """``values`` holds, for every encoder, one share between 0 and 1 per axis."""
    entries = list(values)
    top = 44 + 17 * len(entries) + 34
    x0, y0 = _RADAR_WIDTH / 2, top + _RADIUS
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
        marks += [
            circle(x, y, 2.6, fill=colour, tip=f"{axes[axis]}: {percent(shares[axis])}")
            for axis, (x, y) in enumerate(corners)
        ]
    for ring in _RINGS:
        # Between two spokes, where no name and no corner stands.
        first, second = at(0, ring), at(1, ring) if len(axes) > 1 else at(0, ring)
        x, y = (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
        marks.append(text(x, y + 4, f"{ring:g}", anchor="middle", size=11, fill=SOFT, halo=True))
    return figure(title, _RADAR_WIDTH, height, marks)
