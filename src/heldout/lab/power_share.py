"""How many tests fire, and how sure that rate is when several tests are of one model."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from heldout.stats import Interval, binomial_interval

LEVEL = 0.05


@dataclass(frozen=True)
class Share:
    """``hits`` of ``n`` tests on ``models`` models (as many as tests where nothing is said).

    Clopper–Pearson with as many observations as there are models: nine splits of one model, or two
    benchmarks, are one model.
    """

    hits: int
    n: int
    models: int | None = None

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else float("nan")

    @property
    def units(self) -> int:
        return self.n if self.models is None else self.models

    @property
    def interval(self) -> Interval:
        share = self.hits / self.n if self.n else 0.0
        return binomial_interval(share * self.units, self.units)

    @property
    def off(self) -> bool:
        """As a false-positive rate: surely above the level at which it was tested."""
        return self.n > 0 and self.interval.low > LEVEL

    def __str__(self) -> str:
        if not self.n:
            return "–"
        who = "" if self.units == self.n else f" ({self.units} models)"
        low, high = self.interval.low, self.interval.high
        return f"{self.hits} of {self.n}{who} [{_two(low)}, {_two(high)}]"


def fired(frame: pl.DataFrame) -> Share:
    """Tests that point to memory, of those that have a p."""
    tested = frame.filter(pl.col("p").is_not_null())
    hits = int((tested["direction"] == "seen").sum())
    return Share(hits, len(tested), tested["model"].n_unique())


def firing_bases(frame: pl.DataFrame) -> Share:
    """Bases of which at least one model fires: arms of a base share almost all of their weights."""
    tested = frame.filter(pl.col("p").is_not_null())
    seen = tested.filter(pl.col("direction") == "seen")
    return Share(seen["base"].n_unique(), tested["base"].n_unique())


def _two(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1"
