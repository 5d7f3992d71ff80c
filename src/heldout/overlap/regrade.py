"""Degrees that a user sets: what the encoder of a search calls hard and soft, in place of the table's.

A degree is a bound on a recorded similarity, so setting it costs no search and no registration.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from heldout.errors import InputError
from heldout.overlap.settings import Bounds
from heldout.store import SCHEMAS, Run


def searched_with(run: Run) -> list[str]:
    """Identities of the encoders whose neighbours a run holds. InputError where there are none."""
    stages = run.manifest()["stages"].values()
    encoders = sorted({stage["encoder"] for stage in stages if stage.get("encoder")})
    if not encoders:
        raise InputError(
            f"{run.path}: degrees grade what an encoder found near, and this run was searched with none. "
            f"Run heldout overlap with an encoder into it"
        )
    return encoders


def regraded(matches: pl.DataFrame, bounds: Bounds, encoders: Collection[str]) -> pl.DataFrame:
    """``matches`` with the degree of every row that one of ``encoders`` found; other rows stay."""
    similarity = pl.col("similarity")
    degree = (
        pl.when(similarity >= bounds.hard)
        .then(pl.lit("hard"))
        .when(similarity >= bounds.soft)
        .then(pl.lit("soft"))
        .otherwise(pl.lit("none"))
    )
    own = pl.col("method").is_in(list(encoders))
    return matches.with_columns(
        pl.when(own).then(degree).otherwise(pl.col("degree")).alias("degree")
    )


def regrade(run: Run, bounds: Bounds | None) -> None:
    """Give the run's own table these degrees, and say so in its manifest; None: those of the table."""
    entries = {} if bounds is None else {**bounds._asdict(), "encoders": searched_with(run)}
    if run.manifest().get("degrees", {}) != entries:
        run.update("degrees", entries, replace=True)
    if bounds is None:
        return
    matches = regraded(run.frame("matches"), bounds, searched_with(run))
    run.write_table("matches", matches.to_arrow().cast(SCHEMAS["matches"]))
