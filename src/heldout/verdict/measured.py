"""How often each detector fires on models whose contamination is known: what the lab measured.

`heldout lab power` writes the file; the one beside this module is what it made of the published grid.
Rates of small models can cap a claim; they never make one stronger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from heldout.detect import ALPHA, Strict
from heldout.errors import InputError
from heldout.stats import Interval, binomial_interval

Way = Literal["raw", "with references"]
RAW: Way = "raw"
REFERENCES: Way = "with references"
SHIPPED = "measured_rates.json"
#: what people read in place of the names of the lab's benchmarks
LAB_KINDS = {"scenes": "drawn scenes", "films": "drawn radiographs", "slake": "SLAKE"}
# How alike two models of one base are: the median intra-class correlation of effects of clean models, compared with
# clean models of other seeds, over the detectors and benchmarks of the published rows (bench/lab_bases.py).
INTRACLASS = 0.8


def independent_models(models: int, bases: int | None) -> float:
    """How many independent models so many of so few bases are worth; all of them if bases are not known."""
    if not models or bases is None:
        return float(models)
    return models / (1.0 + (models / bases - 1.0) * INTRACLASS)


class FiringCount(Strict):
    """``fired`` of ``n`` tests on ``models`` different models of ``bases`` bases (None in older files).

    Clopper–Pearson with as many observations as the models are worth: several tests of one are one model, and
    models of one base are hardly more than one.
    """

    fired: int = Field(ge=0)
    n: int = Field(ge=0)
    models: int = Field(ge=0)
    bases: int | None = Field(default=None, ge=0)
    low: float
    high: float

    @classmethod
    def of(cls, fired: int, n: int, models: int, bases: int | None = None) -> FiringCount:
        interval = _interval(fired, n, independent_models(models, bases))
        return cls(
            fired=fired, n=n, models=models, bases=bases, low=interval.low, high=interval.high
        )

    @model_validator(mode="after")
    def _counted(self) -> FiringCount:
        few = self.bases is not None and not self.bases <= self.models
        if not self.fired <= self.n or not self.models <= self.n or few:
            raise ValueError(f"{self.fired} of {self.n} tests on {self.models} models cannot be")
        interval = _interval(self.fired, self.n, independent_models(self.models, self.bases))
        if abs(interval.low - self.low) > 1e-6 or abs(interval.high - self.high) > 1e-6:
            raise ValueError(
                f"{self.fired} of {self.n} tests on {self.models} models has the interval "
                f"[{interval.low:.3g}, {interval.high:.3g}], not [{self.low:.3g}, {self.high:.3g}]"
            )
        return self

    @property
    def off(self) -> bool:
        """As a rate of clean models: above the level, as if every model were independent. That is the careful
        side here: a detector that may fire on clean models carries no claim."""
        return self.n > 0 and _interval(self.fired, self.n, self.models).low > ALPHA

    def __str__(self) -> str:
        """How many fired, with the interval of the rate."""
        return f"{self.fired} [{_two(self.low)}, {_two(self.high)}]"


class BenchmarkRate(Strict):
    clean: FiringCount
    contaminated: FiringCount


class MeasuredRate(Strict):
    """One detector in one way.

    ``off``: it surely fires on clean models more often than its level, over all benchmarks or on one of
    them. A rate that is off on one benchmark may be off on the user's.
    """

    detector: str
    way: Way
    clean: FiringCount
    contaminated: FiringCount
    benchmarks: dict[str, BenchmarkRate] = Field(default_factory=dict)
    off: bool

    @model_validator(mode="after")
    def _consistent(self) -> MeasuredRate:
        places = self.benchmarks.values()
        for message, whole, parts in (
            ("clean", self.clean, [place.clean for place in places]),
            ("contaminated", self.contaminated, [place.contaminated for place in places]),
        ):
            counted = sum(part.fired for part in parts), sum(part.n for part in parts)
            if parts and counted != (whole.fired, whole.n):
                raise ValueError(
                    f"{message}: its benchmarks have {counted[0]} of {counted[1]}, all of them together "
                    f"{whole.fired} of {whole.n}"
                )
        if self.off != (self.clean.off or bool(self.off_in)):
            raise ValueError(f"off: {self.off} does not follow from {self.clean} of {self.clean.n}")
        return self

    @property
    def off_in(self) -> dict[str, FiringCount]:
        """The benchmarks on whose clean models it surely fires too often."""
        return {
            name: benchmark.clean
            for name, benchmark in self.benchmarks.items()
            if benchmark.clean.off
        }

    @property
    def sees(self) -> bool:
        """Whether it surely fires on contaminated models more often than its level, and not on clean ones."""
        return not self.off and self.contaminated.n > 0 and self.contaminated.low > ALPHA


class Provenance(Strict):
    """Where rates come from: the command, the rows they were counted in, and the models."""

    command: str
    data_sha256: str
    weights: int | None = None  # of the largest model; None if not recorded
    models: dict[str, dict[str, int]] = Field(default_factory=dict)  # by benchmark and role


class MeasuredRates(Strict):
    model_config = ConfigDict(extra="forbid", frozen=True)

    # 1 had no benchmarks, and intervals over tests; 2 no bases, and intervals over models
    schema_version: Literal[2, 3] = 3
    provenance: Provenance
    rates: list[MeasuredRate]

    def of(self, detector: str, way: Way) -> MeasuredRate | None:
        """None if it was not measured in this way."""
        for rate in self.rates:
            if (rate.detector, rate.way) == (detector, way) and rate.clean.n:
                return rate
        return None

    @property
    def digest(self) -> str:
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def of_detectors(self, detectors: Sequence[str]) -> dict[str, Any]:
        """As a run keeps it: these detectors' rates and where they come from."""
        mine = [rate.model_dump(mode="json") for rate in self.rates if rate.detector in detectors]
        known = {record["detector"] for record in mine}
        return {
            "provenance": self.provenance.model_dump(mode="json"),
            "rates": mine,
            "not_measured": [name for name in dict.fromkeys(detectors) if name not in known],
        }


@cache
def shipped_rates() -> MeasuredRates:
    text = files("heldout.verdict").joinpath(SHIPPED).read_text(encoding="utf-8")
    return MeasuredRates.model_validate_json(text)


def read_rates(path: Path) -> MeasuredRates:
    """Rates of the user's own `heldout lab power`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: these rates cannot be read: {error}") from error
    try:
        return MeasuredRates.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{path}: {where}: {first['msg']}; expected the detector-rates.json that heldout lab power "
            f"writes"
        ) from error


def _interval(fired: int, n: int, models: float) -> Interval:
    return binomial_interval(fired / n * models if n else 0.0, models)


def _two(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1"
