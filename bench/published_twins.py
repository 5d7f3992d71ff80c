"""The published twin-drop table as arithmetic: which per-item outcomes its rates allow, and what follows.

A row gives two rates of the same items. How many items are right in both is not published, and McNemar's p
depends on it: between the table in which the two arms agree most and the one in which they agree least
lies every table that the row allows.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from heldout.detect import ScoreTables, no_scores
from heldout.stats import McNemar, PairedTable, mcnemar
from heldout.store import empty_table

KEPT = 495  # items of MMStar whose twins passed the filter
_MINUS = "\N{MINUS SIGN}"
_ROW = re.compile(
    rf"^(?P<model>\S.*\)) (?P<original>\d+\.\d\d) (?P<twin>\d+\.\d\d) (?P<delta>[+{_MINUS}-]\d+\.\d\d)"
)


class PublishedRow(NamedTuple):
    model: str
    original: float  # per cent
    twin: float
    delta: float

    def counts(self, n: int = KEPT) -> tuple[int, int] | None:
        """Items right in either arm; None if no whole number of ``n`` items rounds to the rates."""
        found = [round(rate * n / 100) for rate in (self.original, self.twin)]
        rates = (self.original, self.twin)
        fits = all(
            abs(round(100 * count / n, 2) - rate) < 0.006
            for count, rate in zip(found, rates, strict=True)
        )
        return (found[0], found[1]) if fits else None


class Extremes(NamedTuple):
    """The two ends of what a row allows, and McNemar's test at each."""

    agreeing: PairedTable
    opposed: PairedTable
    p_agreeing: McNemar
    p_opposed: McNemar


def published_rows(text: str) -> list[PublishedRow]:
    rows = []
    for line in text.splitlines():
        match = _ROW.match(line.strip())
        if match:
            delta = match["delta"].replace(_MINUS, "-")
            rows.append(
                PublishedRow(
                    match["model"], float(match["original"]), float(match["twin"]), float(delta)
                )
            )
    return rows


def extremes(original: int, twin: int, n: int = KEPT) -> Extremes:
    tables = [
        PairedTable(both, original - both, twin - both, n - original - twin + both)
        for both in (min(original, twin), max(0, original + twin - n))
    ]
    p = [mcnemar(table.first, table.second) for table in tables]
    return Extremes(tables[0], tables[1], p[0], p[1])


def allowed_answers(rows: list[PublishedRow], *, agreeing: bool, n: int = KEPT) -> ScoreTables:
    """Answers that have the published rates; ``agreeing`` says which end of what they allow."""
    ids = [f"item{place:03d}" for place in range(n)]
    frames = []
    for row in rows:
        counts = row.counts(n)
        assert counts is not None, row
        first = np.arange(n) < counts[0]
        second = np.arange(n) < counts[1] if agreeing else np.arange(n) >= n - counts[1]
        for variant, right in (("original", first), ("twin", second)):
            frames.append(
                pl.DataFrame(
                    {
                        "benchmark_id": ids,
                        "model": [row.model] * n,
                        "variant": [variant] * n,
                        "draw": np.zeros(n, dtype=np.int32),
                        "gold": ["A"] * n,
                        "outcome": np.where(right, "right", "wrong"),
                        "template": ["published"] * n,
                    }
                )
            )
    answers = pl.concat(frames).with_columns(
        pl.lit([], dtype=pl.List(pl.String)).alias("options")  # letters are not published either
    )
    empty = pl.DataFrame(empty_table("items"))
    known = pl.DataFrame(
        {"benchmark_id": ids, "position": np.arange(n), "cluster": ids, "metadata": ["{}"] * n}
    )
    return ScoreTables(
        "MMStar, kept items",
        pl.concat([empty, known], how="diagonal"),
        no_scores(),
        answers=answers,
    )


def least_z(difference: float, n: int = KEPT) -> float:
    """At least so many standard errors lies a difference in differences from 0, whatever the table.

    An item's difference in differences lies between -2 and 2, so its variance is at most 4 less the
    squared mean.
    """
    return float(abs(difference) / np.sqrt((4.0 - difference**2) / n))
