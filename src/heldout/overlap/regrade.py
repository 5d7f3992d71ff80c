"""Degrees that a user sets: what the encoder of a search calls hard and soft, in place of the table's.

A degree is a bound on a recorded similarity, so setting it costs no search and no registration.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import polars as pl

from heldout.errors import InputError
from heldout.store import SCHEMAS, Run

PUBLISHED = "published"


class Bounds(NamedTuple):
    """Similarities from which on a picture is *hard* or *soft*."""

    hard: float
    soft: float

    def __str__(self) -> str:
        return f"hard={self.hard:g},soft={self.soft:g}"


#: of the published study: cosines of CLIP ViT-B/32 on photographs
SEED_BOUNDS = Bounds(0.98, 0.95)


def parse_bounds(text: str) -> Bounds:
    """``hard=.98,soft=.95``, or ``published`` for just these."""
    if text == PUBLISHED:
        return SEED_BOUNDS
    bounds: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (one.strip() for one in part.partition("="))
        try:
            bounds[name] = float(value)
        except ValueError:
            bounds = {}
            break
    if set(bounds) != {"hard", "soft"} or not -1 <= bounds["soft"] < bounds["hard"] <= 1:
        raise InputError(
            f"degrees '{text}': expected two similarities, the hard one larger, as in "
            f"hard=.98,soft=.95, or '{PUBLISHED}' for these"
        )
    return Bounds(bounds["hard"], bounds["soft"])


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
