"""Nearest-neighbour similarities of a benchmark against those of different pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from heldout.errors import percent
from heldout.report.figures.svg import (
    ABOVE,
    ALARM,
    INK,
    LEGEND_LINE,
    LINE,
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
    rectangle,
    text,
)

_BINS = 48
_SEEN = 0.995  # the far tail says nothing and would squeeze what does


def similarity_histogram(
    benchmark: ArrayLike,
    null: ArrayLike,
    *,
    threshold: float,
    interval: tuple[float, float] | None = None,
    alpha: float | None = None,
    name: str = "benchmark",
    null_name: str = "comparison: other pictures",
) -> Markup:
    """Similarities to the nearest neighbour; the threshold is the number that the claim states."""
    # Copies have similarity 1 up to rounding, on either side of it.
    near, far = (
        np.minimum(np.asarray(values, dtype=np.float64), 1.0) for values in (benchmark, null)
    )
    lowest = [np.quantile(values, 1.0 - _SEEN) for values in (near, far) if len(values)]
    left = float(min([*lowest, 1.0 - 1.25 * (1.0 - threshold), 1.0 - 1e-6]))
    edges = np.linspace(left, 1.0, _BINS + 1)
    shares = [_shares(values, edges) for values in (near, far)]
    top = float(max(shares[0].max(), shares[1].max(), 1e-9)) * 1.12
    # The legend stands above the frame: anywhere inside it hides what some collection shows there.
    axes = Axes(
        Scale(left, 1.0), Scale(0.0, top), height=400, top=ABOVE + 2 * LEGEND_LINE, percent=("y",)
    )
    floor = axes.y(0.0)
    title = f"Similarity to the nearest corpus image: {name}"
    marks = axes.frame(title, "cosine similarity to the nearest neighbour", "share of images")
    if interval is not None:
        left_end, right_end = axes.x(interval[0]), axes.x(interval[1])
        width = right_end - left_end
        marks.append(
            rectangle(left_end, axes.top, width, floor - axes.top, fill=ALARM, opacity=0.15)
        )
    for index, share in enumerate(shares[1]):
        x1, x2 = axes.x(edges[index]), axes.x(edges[index + 1])
        height = floor - axes.y(share)
        if height > 0.05:
            marks.append(
                rectangle(
                    x1 + 0.5,
                    floor - height,
                    x2 - x1 - 1,
                    height,
                    fill=SOFT,
                    opacity=0.38,
                    tip=f"{edges[index]:.3f} – {edges[index + 1]:.3f}: {percent(share)} of the comparison, "
                    f"{percent(shares[0][index])} of {name}",
                )
            )
    for outline in _outlines(axes, edges, shares[0]):
        marks.append(path(outline, stroke=SERIES[0], fill=SERIES[0], opacity=0.22))
    at = axes.x(threshold)
    marks.append(line(at, axes.top, at, floor, stroke=ALARM, width=2))
    flagged = f"{int((near > threshold).sum()):,} of {len(near):,} above"
    label = f"threshold {threshold:.4f}" + (f" (α = {alpha:.2g})" if alpha is not None else "")
    side = "start" if at < axes.width * 0.6 else "end"
    at += 7 if side == "start" else -7
    marks.append(text(at, axes.top + 14, label, fill=ALARM, anchor=side, weight=600, halo=True))
    marks.append(text(at, axes.top + 30, flagged, fill=ALARM, anchor=side, halo=True))
    below = int((near < left).sum()), int((far < left).sum())
    entries = [
        (f"{name}, {len(near):,} images" + _below(below[0]), SERIES[0], ""),
        (f"{null_name}, {len(far):,}" + _below(below[1]), SOFT, ""),
    ]
    marks += legend(entries, axes.left, ABOVE + 8)
    return figure(f"{title}; {label}, {flagged}", axes.width, axes.height, marks)


def _outlines(
    axes: Axes, edges: NDArray[np.float64], shares: NDArray[np.float64]
) -> list[list[tuple[float, float]]]:
    """One outline per run of bins that hold anything; empty ones are left to the axis."""
    runs: list[list[tuple[float, float]]] = []
    previous = 0.0
    for index, share in enumerate(shares):
        left, right = axes.x(edges[index]), axes.x(edges[index + 1])
        if share > 0:
            if previous == 0:
                runs.append([(left, axes.y(0.0))])
            runs[-1] += [(left, axes.y(share)), (right, axes.y(share))]
        elif previous > 0:
            runs[-1].append((left, axes.y(0.0)))
        previous = share
    if previous > 0:
        runs[-1].append((axes.x(edges[-1]), axes.y(0.0)))
    return runs


def _shares(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts, _ = np.histogram(values, bins=edges)
    return np.asarray(counts / max(len(values), 1), dtype=np.float64)


def _below(count: int) -> str:
    return f" ({count:,} below)" if count else ""


# What exchangeable orders would have given, and what the released one gave: one strip per model.


_STRIP, _STRIP_BINS = 58.0, 61


class Strip(NamedTuple):
    """``null`` holds the statistic under shuffled orders; ``p`` is two-sided, as tested."""

    name: str
    observed: float
    null: NDArray[np.float64]
    p: float


def null_strips(strips: Sequence[Strip], *, title: str, label: str) -> Markup:
    """Every null in grey, the released order as a dot: a dot outside the grey is unlikely by chance."""
    reach = 1.12 * max(
        max(abs(strip.observed), float(np.abs(strip.null).max(initial=0.0))) for strip in strips
    )
    reach = reach or 1.0
    left = 30 + 6.6 * max(len(_short_name(strip.name)) for strip in strips)
    axes = Axes(
        Scale(-reach, reach),
        Scale(0.0, 1.0),
        height=86 + _STRIP * len(strips),
        left=max(left, 90),
        right=84,
    )
    marks = [heading(title, axes.width)]
    floor = axes.height - axes.bottom
    for value in axes.x_scale.ticks():
        marks.append(line(axes.x(value), axes.top, axes.x(value), floor))
        marks.append(text(axes.x(value), floor + 17, f"{value:g}", anchor="middle", fill=SOFT))
    middle = (axes.left + axes.width - axes.right) / 2
    marks.append(text(middle, axes.height - 12, label, anchor="middle", fill=INK))
    edges = np.linspace(-reach, reach, _STRIP_BINS + 1)
    for place, strip in enumerate(strips):
        base = axes.top + _STRIP * (place + 1)
        counts, _ = np.histogram(strip.null, bins=edges)
        tallest = max(int(counts.max(initial=0)), 1)
        for index, count in enumerate(counts):
            if count:
                x1, x2 = axes.x(edges[index]), axes.x(edges[index + 1])
                high = (_STRIP - 16) * count / tallest
                marks.append(rectangle(x1, base - high, x2 - x1, high, fill=SOFT, opacity=0.4))
        marks.append(line(axes.left, base, axes.width - axes.right, base))
        colour = ALARM if strip.p <= 0.05 else SERIES[0]
        x = axes.x(strip.observed)
        marks.append(line(x, base - _STRIP + 14, x, base, stroke=colour, width=2))
        tip = f"{strip.name}: {strip.observed:.3g}, two-sided p = {strip.p:.2g} before correction"
        marks.append(circle(x, base - _STRIP + 14, 5, fill=colour, tip=tip))
        marks.append(text(axes.left - 10, base - 12, _short_name(strip.name), anchor="end"))
        marks.append(
            text(
                axes.width - axes.right + 8, base - 12, f"p = {strip.p:.2g}", fill=colour, size=11.5
            )
        )
    return figure(title, axes.width, axes.height, marks)


def _short_name(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


# Benchmarks × corpora as a heat map: the number in every cell, and its size as colour.


_TONES = {"hard": ALARM, "soft": SERIES[0]}
_STRONGEST = 0.55  # stronger, and the numbers on it could no longer be read
_CELL, _WIDE, _LETTER = 34.0, 84.0, 6.6


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    rates: Sequence[Sequence[float | None]],
    *,
    tone: Literal["hard", "soft"] = "hard",
    title: str = "Leakage",
    row_label: str = "corpus",
    column_label: str = "benchmark",
    written: Callable[[float], str] | None = None,
    missing: str = "not scanned",
) -> Markup:
    """``rates`` by row and column; None is a pair that was not searched, which is not 0.

    ``written`` makes a cell's text from its number; default: a percentage.
    """
    left = 24 + _LETTER * max([len(_short(name)) for name in rows] + [4])
    # Names over columns stand upright where they fit and lean where they do not.
    lean = any(_LETTER * len(_short(name)) > _WIDE - 8 for name in columns)
    tall = 0.62 * _LETTER * max([len(_short(name)) for name in columns] + [4]) if lean else 12.0
    top = 62 + tall
    reach = max([0.01, *(rate for row in rates for rate in row if rate is not None)])
    overhang = 0.8 * _LETTER * len(_short(columns[-1])) - _WIDE / 2 if lean and columns else 0.0
    width = max(left + _WIDE * len(columns) + 14 + max(0.0, overhang), 8.2 * len(title) + 20)
    height = top + _CELL * len(rows) + 12
    marks = [
        heading(title, width),
        text(12, 38, f"rows: {row_label}, columns: {column_label}", fill=SOFT),
    ]
    for index, name in enumerate(columns):
        x = left + _WIDE * (index + 0.5)
        if lean:
            marks.append(text(x - 8, top - 8, _short(name), turn=-38))
        else:
            marks.append(text(x, top - 8, _short(name), anchor="middle"))
    for index, (name, row) in enumerate(zip(rows, rates, strict=True)):
        y = top + _CELL * index
        marks.append(text(left - 10, y + _CELL / 2 + 4, _short(name), anchor="end"))
        for column, rate in enumerate(row):
            words = missing if rate is None else (written or _percent)(rate)
            tip = f"{name} × {columns[column]}: {words}"
            marks += _cell(left + _WIDE * column, y, rate, reach, _TONES[tone], words, tip)
    return figure(title, width, height, marks)


def _cell(
    x: float, y: float, rate: float | None, reach: float, colour: str, words: str, tip: str
) -> list[str]:
    place = (x + 1, y + 1, _WIDE - 2, _CELL - 2)
    middle = (x + _WIDE / 2, y + _CELL / 2 + 4)
    if rate is None:
        label = text(*middle, words, anchor="middle", fill=SOFT, size=11)
        return [rectangle(*place, round=3, fill=LINE, opacity=0.35), label]
    # On a square-root scale rates of one percent differ from 0 beside one of ninety.
    strength = _STRONGEST * (max(rate, 0.0) / reach) ** 0.5
    return [
        rectangle(*place, round=3, fill=LINE, opacity=0.35),
        rectangle(*place, round=3, fill=colour, opacity=strength, tip=tip),
        text(*middle, words, anchor="middle"),
    ]


def _percent(rate: float) -> str:
    return percent(rate, 2) if 0 < rate < 0.0995 else percent(rate) if rate else "0"


def _short(name: str, longest: int = 26) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
