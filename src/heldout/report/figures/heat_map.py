"""Benchmarks × corpora as a heat map: the number in every cell, the colour for the eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from markupsafe import Markup

from heldout.report.figures.svg import ALARM, LINE, SERIES, SOFT, figure, rectangle, text

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
    told: Callable[[float], str] | None = None,
    missing: str = "not scanned",
) -> Markup:
    """``rates`` by row and column; None is a pair nobody scanned, which is not 0.

    ``told`` says a number as a cell shows it; shares as percentages if it is not given.
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
        text(12, 20, title, size=14, weight=600),
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
            words = missing if rate is None else (told or _percent)(rate)
            tip = f"{name} × {columns[column]}: {words}"
            marks += _cell(left + _WIDE * column, y, rate, reach, _TONES[tone], words, tip)
    return figure(title, width, height, marks)


def _cell(
    x: float, y: float, rate: float | None, reach: float, colour: str, words: str, tip: str
) -> list[str]:
    place = (x + 1, y + 1, _WIDE - 2, _CELL - 2)
    middle = (x + _WIDE / 2, y + _CELL / 2 + 4)
    if rate is None:
        said = text(*middle, words, anchor="middle", fill=SOFT, size=11)
        return [rectangle(*place, round=3, fill=LINE, opacity=0.35), said]
    # The square root lets rates of a percent be told from 0 beside one of ninety.
    strength = _STRONGEST * (max(rate, 0.0) / reach) ** 0.5
    return [
        rectangle(*place, round=3, fill=LINE, opacity=0.35),
        rectangle(*place, round=3, fill=colour, opacity=strength, tip=tip),
        text(*middle, words, anchor="middle"),
    ]


def _percent(rate: float) -> str:
    shown = f"{rate:.2%}" if 0 < rate < 0.0995 else f"{rate:.1%}" if rate else "0"
    return shown.replace("%", " %")


def _short(name: str, longest: int = 26) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
