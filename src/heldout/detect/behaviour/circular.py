"""circular: an item counts only if it is right in every rotation of its options (CircularEval).

Vanilla and circular accuracy stand side by side. Circular accuracy is never the higher one, for anybody,
so the gap alone says nothing: it is tested against reference models, and shown without a p where there
are none.
"""

from __future__ import annotations

import polars as pl

from heldout.detect.behaviour.compare import probe_detector
from heldout.detect.behaviour.probe import (
    ORIGINAL,
    Arms,
    Probe,
    asked,
    made_arms,
    readable,
    with_options,
)
from heldout.detect.detector import LIU
from heldout.detect.finding import NotRecorded
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables

NAME = "circular"
ROTATION = "rotation-"
LACKING = NotRecorded(
    "needs answers to all rotations of the options: heldout ask --variants original,rotation-all"
)
BLIND_TO = [
    "memory of the answer's words, which moves with its option",
    "how models differ in what they make of a moved option without any memory",
]


def is_rotation(variant: str) -> bool:
    """Whether a variant is a rotation; the original is the rotation by 0."""
    return variant.startswith(ROTATION) and variant != f"{ROTATION}0"


def arms(tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool) -> Arms | str:
    def wanted(name: str) -> bool:
        return name == ORIGINAL or is_rotation(name)

    everything = asked(tables, model, wanted)
    if everything.is_empty() or everything["variant"].n_unique() < 2:
        return LACKING
    mine = readable(everything) if leave_out else everything
    whole = mine.group_by("benchmark_id", "draw", maintain_order=True).agg(
        pl.col("right").min(),
        pl.col("variant").n_unique().alias("asked"),
        pl.col("options").list.len().max().alias("options"),
        pl.lit("open").alias("place"),
        pl.lit("circular").alias("variant"),
    )
    # Right in some of the rotations is not right in all of them.
    whole = whole.filter((pl.col("asked") == pl.col("options")) & (pl.col("options") > 1))
    if whole.is_empty():
        return "no item was asked in all rotations of its options"
    vanilla = mine.filter(pl.col("variant") == ORIGINAL).with_columns(pl.lit("open").alias("place"))
    columns = ["benchmark_id", "variant", "draw", "right", "place"]
    kept = pl.concat([vanilla.select(columns), whole.select(columns)])
    return made_arms(everything, kept, pl.col("variant") == ORIGINAL, LACKING)


PROBE = Probe(
    name=NAME,
    first="vanilla",
    second="circular",
    effect="accuracy as released minus accuracy in every order",
    arms=arms,
    known=with_options,
    counted="items in all rotations of their options",
    blind_to=BLIND_TO,
    zero_is_clean=False,
)


DETECTOR = probe_detector(
    PROBE,
    "does accuracy drop if every rotation of the options has to be right?",
    variants=(ORIGINAL, "rotation-[!0]*"),
    citations=(LIU,),
)
