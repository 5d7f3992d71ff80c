"""Planted scores with references of three families, which claims that survive need."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import polars as pl

from heldout.detect import ScoreTables
from heldout.lab.power.planted_scores import BASELINE, REFERENCE

Frame = TypeVar("Frame", pl.DataFrame, pl.DataFrame | None)
THIRD = "third"
THREE_FAMILIES = {
    "baselines": (BASELINE, REFERENCE, THIRD),
    "families": ((BASELINE, "one"), (REFERENCE, "two"), (THIRD, "three")),
}


def in_three_families(tables: ScoreTables) -> ScoreTables:
    """With a third clean model, which scores nearly as the second does."""
    return replace(
        tables,
        scores=_more(tables.scores),
        order_joint=_more(tables.order_joint),
        order_neighbour=_more(tables.order_neighbour),
        entropies=_more(tables.entropies),
    )


def _more(frame: Frame) -> Frame:
    if frame is None:
        return frame
    third = frame.filter(pl.col("model") == REFERENCE).with_columns(model=pl.lit(THIRD))
    if "sum_logprob" in frame.columns:  # to the last digit it would be the same model
        third = third.with_columns(pl.col("sum_logprob") * (1 + 1e-9))
    return pl.concat([frame, third])
