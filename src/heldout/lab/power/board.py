"""The leaderboard: power and false positives of every detector against known contamination, with intervals."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from heldout.detect import Detector, detectors
from heldout.errors import InputError
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS, OUTSIDER, RAW, LabGrid
from heldout.stats import Interval, area, binomial_interval
from heldout.verdict import (
    BenchmarkRate,
    FiringCount,
    MeasuredRate,
    MeasuredRates,
    Provenance,
    independent_models,
    measured,
)

# Rates and areas of the leaderboard, with intervals that account for several tests of one model.


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
                np.concatenate([_resampled(base[side], rng) for base in picked])
                for side in range(2)
            ]
            if len(sides[0]) and len(sides[1]):
                both = np.concatenate(sides)
                contaminated = np.arange(len(both)) < len(sides[0])
                areas.append((area(both, contaminated), len(sides[0]) * len(sides[1])))
        value = _pooled(areas)
        if value is not None:
            drawn.append(value)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def _resampled(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """What ``rng.choice`` draws, in a third of its time."""
    return values[rng.integers(0, len(values), len(values))] if len(values) else values


def _by_base(part: pl.DataFrame) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return [
        (
            frame.filter(pl.col("role") == CONTAMINATED)["effect"].to_numpy(),
            frame.filter(pl.col("role") == CLEAN)["effect"].to_numpy(),
        )
        for _, frame in part.group_by(["base"], maintain_order=True)
    ]


ENOUGH = 0.8  # the share of models that has to fire for a dose to count as detected
GROUPS = ("answers", "order", "cohort", "membership")  # areas within one are over like arms
_DOSE = re.compile(r"d\d+")


@dataclass(frozen=True)
class BenchmarkStanding:
    """One detector in one way on one benchmark."""

    area: Area | None
    power: FiringShare
    false_positives: FiringShare
    bases: FiringShare  # with a clean model that fires


@dataclass(frozen=True)
class Standing:
    """One detector in one way. Rates at a false-positive rate set their threshold on clean models."""

    detector: str
    way: str
    area: Area | None
    at_1: FiringShare
    at_5: FiringShare
    power: FiringShare
    false_positives: FiringShare
    outsiders: FiringShare
    by_dose: dict[str, dict[int, FiringShare]]
    tokens: int | None
    places: dict[str, BenchmarkStanding]  # by benchmark

    @property
    def auc(self) -> float | None:
        return None if self.area is None else self.area.value

    @property
    def auc_interval(self) -> tuple[float, float] | None:
        return None if self.area is None else self.area.interval

    @property
    def off_in(self) -> tuple[str, ...]:
        """Benchmarks on whose clean models it surely fires too often."""
        return tuple(name for name, place in self.places.items() if place.false_positives.off)

    @property
    def off(self) -> bool:
        """Pooled, or on one benchmark: quiet clean models on one benchmark do not outweigh the other."""
        return self.false_positives.off or bool(self.off_in)

    @property
    def group(self) -> str:
        return group_of(self.detector)

    @property
    def detectable(self) -> str:
        """By benchmark, the smallest dose from which on most models fire; none where clean ones do, too."""
        if self.false_positives.off and not self.off_in:
            return "fires on clean models"
        messages = []
        for benchmark, shares in self.by_dose.items():
            first = "off" if benchmark in self.off_in else _first(shares)
            if first is not None:
                messages.append(f"{benchmark} {first}")
        return ", ".join(messages) or "–"


def group_of(detector: str, known: Detector | None = None) -> str:
    """What it works on; a variant (``order-joint at equal cost``) belongs with what it varies."""
    registered = {} if known is not None else detectors()
    plain = known or registered.get(detector) or registered.get(detector.split(" ")[0])
    if plain is None:
        return GROUPS[0]
    return plain.kind if plain.needs == "scores" else plain.needs


def standings(rows: pl.DataFrame, seed: int = 0) -> list[Standing]:
    """By way and group, then best area first; detectors that could not be tested are not listed."""
    tested = rows.filter(
        pl.col("effect").is_not_null() & pl.col("role").is_in([CONTAMINATED, CLEAN, OUTSIDER])
    )
    board = []
    for (detector, way), frame in tested.group_by(["detector", "way"], maintain_order=True):
        board.append(_standing(str(detector), str(way), frame, seed))
    return sorted(board, key=_place_in_list)


def _place_in_list(standing: Standing) -> tuple[str, int, float]:
    group = GROUPS.index(standing.group) if standing.group in GROUPS else len(GROUPS)
    return standing.way, group, -(standing.auc if standing.auc is not None else -1.0)


def with_truth(rows: pl.DataFrame, grid: LabGrid) -> pl.DataFrame:
    """What was planted beside what was found; a base and other benchmarks' arms planted nothing."""
    names = ("stage", "mode", "order", "part", "paraphrased", "share", "dilution")
    known = []
    for model in grid.models.values():
        plan = model.planted
        record = {name: getattr(plan, name) if plan else None for name in names}
        known.append({"model": model.name, **record})
    truth = pl.DataFrame(known, infer_schema_length=None)
    return rows.join(truth, on="model", how="left", maintain_order="left")


def with_earlier(rows: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Rows of benchmarks that this grid lacks, from an earlier result, below these; and their names."""
    try:
        older = pl.read_parquet(path).filter(
            ~pl.col("benchmark").is_in(rows["benchmark"].unique().to_list())
        )
        whole = pl.concat([rows, older.select(rows.columns).cast(rows.schema)])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: expected a detector-power.parquet of heldout lab power; {type(error).__name__}: {error}"
        ) from error
    return whole, tuple(older["benchmark"].unique(maintain_order=True))


def models_by_role(rows: pl.DataFrame) -> dict[str, dict[str, int]]:
    """How many models of each role every benchmark has."""
    whole = rows.filter(pl.col("split") == "")
    if whole.is_empty():  # membership detectors alone
        whole = rows
    return {
        benchmark: {
            role: whole.filter((pl.col("benchmark") == benchmark) & (pl.col("role") == role))[
                "model"
            ].n_unique()
            for role in (CONTAMINATED, CLEAN, OUTSIDER)
        }
        for benchmark in whole["benchmark"].unique(maintain_order=True)
    }


def dose_arms(frame: pl.DataFrame) -> pl.DataFrame:
    """The arms that differ in dose alone."""
    plain = frame["arm"].map_elements(lambda arm: bool(_DOSE.fullmatch(arm)), pl.Boolean)
    return frame.filter(plain & (frame["role"] == CONTAMINATED))


def _standing(detector: str, way: str, frame: pl.DataFrame, seed: int) -> Standing:
    bad, clean = (frame.filter(pl.col("role") == role) for role in (CONTAMINATED, CLEAN))
    both = pl.concat([bad, clean])
    strata = [part for _, part in both.group_by(["benchmark", "split"], maintain_order=True)]
    strata = [part for part in strata if part["role"].n_unique() == 2]
    doses = dose_arms(frame)
    whole = area_of(strata, seed)
    tokens = frame["tokens"].drop_nulls()
    return Standing(
        detector,
        way,
        whole,
        rate_at(strata, 0.01),
        rate_at(strata, 0.05),
        fired(bad),
        fired(clean),
        fired(frame.filter(pl.col("role") == OUTSIDER)),
        {
            str(name): _by_dose(part)
            for (name,), part in doses.group_by(["benchmark"], maintain_order=True)
        },
        int(tokens.median()) if len(tokens) else None,  # type: ignore[arg-type]
        {
            str(name): _place(part, strata, whole, seed)
            for (name,), part in frame.group_by(["benchmark"], maintain_order=True)
        },
    )


def _place(
    part: pl.DataFrame, strata: Sequence[pl.DataFrame], whole: Area | None, seed: int
) -> BenchmarkStanding:
    name = part["benchmark"][0]
    own = [frame for frame in strata if frame["benchmark"][0] == name]
    clean = part.filter(pl.col("role") == CLEAN)
    return BenchmarkStanding(
        whole if len(own) == len(strata) else area_of(own, seed),
        fired(part.filter(pl.col("role") == CONTAMINATED)),
        fired(clean),
        firing_bases(clean),
    )


def _by_dose(frame: pl.DataFrame) -> dict[int, FiringShare]:
    doses = sorted(frame["dose"].unique().to_list())
    return {dose: fired(frame.filter(pl.col("dose") == dose)) for dose in doses}


def _first(shares: dict[int, FiringShare]) -> str | None:
    """The dose as words; None where nothing was tested."""
    if not any(share.n for share in shares.values()):
        return None
    for dose in shares:
        later = [share for other, share in shares.items() if other >= dose]
        if all(share.n and share.value >= ENOUGH for share in later):
            return str(dose)
    return f"> {max(shares)}"


# The rates that the verdict reads, counted in the leaderboard's rows: how often each detector fires on clean
# models.


RATES = "detector-rates.json"
#: References of the same base are what only a lab has: a user's baseline is another model.
_WAYS = {RAW: measured.RAW, OTHER_SEEDS: measured.REFERENCES}


#: beside the grid's rows: those of bases that were trained to count false positives alone
CLEAN_DATA = "clean-bases.parquet"


def measured_rates(data: Path, command: str, weights: int | None) -> MeasuredRates:
    """From the published rows, so that readers can count again. Clean models of further seeds count, too, where
    their rows stand beside these."""
    rows, digest = pl.read_parquet(data), hashlib.sha256(data.read_bytes())
    more = data.with_name(CLEAN_DATA)
    if more.is_file():
        digest.update(more.read_bytes())
        further = pl.read_parquet(more).filter(pl.col("role") == CLEAN)
        shared = [name for name in rows.columns if name in further.columns]
        rows = pl.concat([rows.select(shared), further.select(shared)])
    rates = []
    tested = rows.filter(pl.col("p").is_not_null() & pl.col("role").is_in([CLEAN, CONTAMINATED]))
    for name in detectors():
        for way, message in _WAYS.items():
            frame = tested.filter((pl.col("detector") == name) & (pl.col("way") == way))
            if frame.is_empty():
                continue
            clean, bad = (_counted(frame, role) for role in (CLEAN, CONTAMINATED))
            places = {
                str(place): _on_one(part)
                for (place,), part in frame.group_by(["benchmark"], maintain_order=True)
            }
            off = any(rate.off for rate in (clean, *(place.clean for place in places.values())))
            rates.append(
                MeasuredRate(
                    detector=name,
                    way=message,
                    clean=clean,
                    contaminated=bad,
                    benchmarks=places,
                    off=off,
                )
            )
    provenance = Provenance(
        command=command,
        data_sha256=digest.hexdigest(),
        weights=weights,
        models=models_by_role(rows),
    )
    return MeasuredRates(provenance=provenance, rates=rates)


def _on_one(frame: pl.DataFrame) -> BenchmarkRate:
    clean, bad = (_counted(frame, role) for role in (CLEAN, CONTAMINATED))
    return BenchmarkRate(clean=clean, contaminated=bad)


def _counted(frame: pl.DataFrame, role: str) -> FiringCount:
    """One model may be clean on two benchmarks, or count once per split: tests are not models."""
    tests = frame.filter(pl.col("role") == role)
    share = fired(tests)
    return FiringCount.of(share.hits, share.n, share.units, share.bases)
