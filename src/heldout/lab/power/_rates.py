"""Rates and areas of the leaderboard, with intervals that account for several tests of one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.lab.power.models import CLEAN, CONTAMINATED
from heldout.stats import Interval, area, binomial_interval
from heldout.verdict import independent_models

LEVEL = 0.05


@dataclass(frozen=True)
class FiringShare:
    """``hits`` of ``n`` tests on ``models`` models (as many as tests by default) of ``bases`` bases.

    Clopper–Pearson with as many observations as the models are worth: nine splits of one model, or two
    benchmarks, are one model, and models of one base are hardly more than one.
    """

    hits: int
    n: int
    models: int | None = None
    bases: int | None = None

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else float("nan")

    @property
    def units(self) -> int:
        return self.n if self.models is None else self.models

    @property
    def interval(self) -> Interval:
        return self._over(independent_models(self.units, self.bases))

    @property
    def off(self) -> bool:
        """As a false-positive rate: above the level at which it was tested, as if models were independent,
        which is the careful side here."""
        return self.n > 0 and self._over(self.units).low > LEVEL

    def _over(self, observations: float) -> Interval:
        share = self.hits / self.n if self.n else 0.0
        return binomial_interval(share * observations, observations)

    def __str__(self) -> str:
        if not self.n:
            return "–"
        who = "" if self.units == self.n else f" ({self.units} models)"
        low, high = self.interval.low, self.interval.high
        return f"{self.hits} of {self.n}{who} [{_two(low)}, {_two(high)}]"


def fired(frame: pl.DataFrame) -> FiringShare:
    """Tests that point to memory, of those that have a p."""
    tested = frame.filter(pl.col("p").is_not_null())
    hits = int((tested["direction"] == "seen").sum())
    # Arms that saw a benchmark differ in dose and kind; those that did not differ in their base alone.
    alike = not (tested["role"] == CONTAMINATED).any()
    bases = tested["base"].n_unique() if alike else None
    return FiringShare(hits, len(tested), tested["model"].n_unique(), bases)


def firing_bases(frame: pl.DataFrame) -> FiringShare:
    """Bases of which at least one model fires: arms of a base share almost all of their weights."""
    tested = frame.filter(pl.col("p").is_not_null())
    seen = tested.filter(pl.col("direction") == "seen")
    return FiringShare(seen["base"].n_unique(), tested["base"].n_unique())


def _two(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1"


FEW = 10  # models per side below which a bootstrap of an area is too narrow


DRAWS = 400


_SIDES = (CONTAMINATED, CLEAN)


@dataclass(frozen=True)
class Area:
    """Contaminated against clean models: the area, its interval, and which models were compared."""

    value: float
    interval: tuple[float, float]
    contaminated: int
    doses: tuple[int, ...]
    clean: int  # models; with splits each of them is compared more than once


def area_of(strata: Sequence[pl.DataFrame], seed: int) -> Area | None:
    auc = _pooled([_area(part) for part in strata])
    if auc is None:
        return None
    both = pl.concat(strata)
    bad, clean = (both.filter(pl.col("role") == role) for role in _SIDES)
    return Area(
        auc,
        _area_interval(auc, strata, seed),
        bad["model"].n_unique(),
        tuple(sorted(bad["dose"].unique().to_list())),
        clean["model"].n_unique(),
    )


def _area(part: pl.DataFrame) -> tuple[float, int]:
    """Area and number of pairs: only models of one benchmark (and split) are compared."""
    contaminated = (part["role"] == CONTAMINATED).to_numpy()
    pairs = int(contaminated.sum()) * int((~contaminated).sum())
    return area(part["effect"].to_numpy(), contaminated), pairs


def _pooled(areas: Sequence[tuple[float, int]]) -> float | None:
    pairs = sum(count for _, count in areas)
    return sum(value * count for value, count in areas) / pairs if pairs else None


def rate_at(strata: Sequence[pl.DataFrame], rate: float) -> FiringShare:
    """Contaminated models above a threshold that at most ``rate`` of the clean ones exceed."""
    hits = total = 0
    for part in strata:
        clean = np.sort(part.filter(pl.col("role") == CLEAN)["effect"].to_numpy())
        bad = part.filter(pl.col("role") == CONTAMINATED)["effect"].to_numpy()
        threshold = clean[len(clean) - 1 - int(rate * len(clean))]
        hits += int((bad > threshold).sum())
        total += len(bad)
    return FiringShare(hits, total)


def _area_interval(auc: float, strata: Sequence[pl.DataFrame], seed: int) -> tuple[float, float]:
    """Perfect separation of three models is drawn again in every bootstrap: few models are few trials."""
    low, high = _bootstrap(strata, seed)
    both = pl.concat(strata)
    count = min(both.filter(pl.col("role") == role)["model"].n_unique() for role in _SIDES)
    if count >= FEW:
        return low, high
    hits = auc * count
    floor = float(special.betaincinv(hits, count - hits + 1, 0.025)) if hits else 0.0
    ceiling = float(special.betainccinv(hits + 1, count - hits, 0.025)) if hits < count else 1.0
    return min(low, floor), max(high, ceiling)


def _bootstrap(strata: Sequence[pl.DataFrame], seed: int) -> tuple[float, float]:
    """Bases are drawn, then their models: arms of one base share almost all of their weights."""
    rng = np.random.default_rng(seed)
    prepared = [_by_base(part) for part in strata]
    drawn = []
    for _ in range(DRAWS):
        areas = []
        for bases in prepared:
            picked = [bases[index] for index in rng.integers(0, len(bases), len(bases))]
            sides = [
                np.concatenate([rng.choice(base[side], len(base[side])) for base in picked])
                for side in range(2)
            ]
            if len(sides[0]) and len(sides[1]):
                contaminated = np.r_[np.ones(len(sides[0]), bool), np.zeros(len(sides[1]), bool)]
                areas.append(
                    (area(np.concatenate(sides), contaminated), len(sides[0]) * len(sides[1]))
                )
        value = _pooled(areas)
        if value is not None:
            drawn.append(value)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def _by_base(part: pl.DataFrame) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return [
        (
            frame.filter(pl.col("role") == CONTAMINATED)["effect"].to_numpy(),
            frame.filter(pl.col("role") == CLEAN)["effect"].to_numpy(),
        )
        for _, frame in part.group_by(["base"], maintain_order=True)
    ]
