"""The rates that the verdict reads, counted in the leaderboard's rows: who fires on clean models."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from heldout.detect.registry import detectors
from heldout.lab.power_board import models_by_role
from heldout.lab.power_models import CLEAN, CONTAMINATED, OTHER_SEEDS, RAW
from heldout.lab.power_share import fired
from heldout.verdict import measured
from heldout.verdict.measured import (
    BenchmarkRate,
    Fired,
    MeasuredRate,
    MeasuredRates,
    Provenance,
)

RATES = "detector-rates.json"
#: References of the same base are what only a lab has: a user's baseline is another model.
_WAYS = {RAW: measured.RAW, OTHER_SEEDS: measured.REFERENCES}


def measured_rates(data: Path, command: str, weights: int | None) -> MeasuredRates:
    """From the published rows, so that whoever has them can count again."""
    rows = pl.read_parquet(data)
    made = []
    tested = rows.filter(pl.col("p").is_not_null() & pl.col("role").is_in([CLEAN, CONTAMINATED]))
    for name in detectors():
        for way, told in _WAYS.items():
            frame = tested.filter((pl.col("detector") == name) & (pl.col("way") == way))
            if frame.is_empty():
                continue
            clean, bad = (_counted(frame, role) for role in (CLEAN, CONTAMINATED))
            places = {
                str(place): _on_one(part)
                for (place,), part in frame.group_by(["benchmark"], maintain_order=True)
            }
            off = any(one.off for one in (clean, *(place.clean for place in places.values())))
            made.append(
                MeasuredRate(
                    detector=name,
                    way=told,
                    clean=clean,
                    contaminated=bad,
                    benchmarks=places,
                    off=off,
                )
            )
    provenance = Provenance(
        command=command,
        data_sha256=hashlib.sha256(data.read_bytes()).hexdigest(),
        weights=weights,
        models=models_by_role(rows),
    )
    return MeasuredRates(provenance=provenance, rates=made)


def _on_one(frame: pl.DataFrame) -> BenchmarkRate:
    clean, bad = (_counted(frame, role) for role in (CLEAN, CONTAMINATED))
    return BenchmarkRate(clean=clean, contaminated=bad)


def _counted(frame: pl.DataFrame, role: str) -> Fired:
    """One model may be clean on two benchmarks, or count once per split: tests are not models."""
    mine = frame.filter(pl.col("role") == role)
    share = fired(mine)
    return Fired.of(share.hits, share.n, share.units)
