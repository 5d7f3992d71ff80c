"""option-order: are items answered better with their options in the released order? (MM-Detect)

CR is the rate of right answers as released, PCR with the options shuffled (rotated, where nobody
shuffled them), instance leakage the share that is right before and wrong after. A model that likes one
place is right more often where the release puts the answer there, so the tested effect has the place of
the right option taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from heldout.detect.behaviour.circular import is_rotation
from heldout.detect.behaviour.compare import compare, probe_detector, rate
from heldout.detect.behaviour.probe import ORIGINAL, Arms, Probe, two_variants, with_options
from heldout.detect.citations import SONG
from heldout.detect.finding import NotRecorded, Outcome
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables

NAME = "option-order"
SHUFFLE = "shuffle-"
LACKING = NotRecorded(
    "needs answers with the options in another order: heldout ask --variants original,shuffle-3"
)
BLIND_TO = [
    "memory of the answer's words, which moves with its option",
    "options that are only meaningful in order, such as 'all of the above'",
]


def arms(tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool) -> Arms | str:
    moved = _is_shuffle if _shuffled(tables, model) else is_rotation
    both = two_variants(ORIGINAL, moved, LACKING)
    return both(tables, settings, model, leave_out)


PROBE = Probe(
    name=NAME,
    first="as released",
    second="reordered",
    effect="accuracy gained by the released order, place taken out",
    arms=arms,
    known=with_options,
    counted="items with their options reordered",
    blind_to=BLIND_TO,
    placed=True,
)


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.answering:
        yield compare(PROBE, tables, settings, model, more=_published(tables, settings, model))


def _published(tables: ScoreTables, settings: DetectSettings, model: str) -> dict[str, Any]:
    """MM-Detect's figures, and how often each place is right: what they do not take out."""
    compared = arms(tables, settings, model, False)
    if isinstance(compared, str):
        return {}
    rows = compared.rows
    before = rows.filter(pl.col("released")).select("benchmark_id", pl.col("right").alias("before"))
    after = rows.filter(~pl.col("released")).join(before, on="benchmark_id")
    items = after.group_by("benchmark_id").agg(
        pl.col("before").mean(),
        pl.col("right").mean().alias("after"),
        (pl.col("before") * (1 - pl.col("right"))).mean().alias("lost"),
        ((1 - pl.col("before")) * pl.col("right")).mean().alias("won"),
    )
    known = tables.items.select("benchmark_id", "cluster", "position")
    items = known.join(items, on="benchmark_id").sort("position")
    if items.is_empty():
        return {}
    clusters = items["cluster"].to_list()
    by_place = rows.group_by("place").agg(pl.col("right").mean(), pl.len()).sort("place")
    return {
        "CR": rate(items["before"], clusters),
        "PCR": rate(items["after"], clusters),
        "instance_leakage": rate(items["lost"], clusters),
        # Noise moves as many the other way: leakage means little unless it is clearly more.
        "instance_gain": rate(items["won"], clusters),
        "right_by_place": {place: right for place, right, _ in by_place.iter_rows()},
    }


def _is_shuffle(variant: str) -> bool:
    return variant.startswith(SHUFFLE)


def _shuffled(tables: ScoreTables, model: str) -> bool:
    if tables.answers is None:
        return False
    mine = tables.answers.filter(pl.col("model") == model)["variant"].unique()
    return any(_is_shuffle(name) for name in mine)


DETECTOR = probe_detector(
    PROBE,
    "right as released, wrong reordered (CR, PCR)",
    variants=(ORIGINAL, "shuffle-*|rotation-[!0]*"),
    asks="shuffle-1..3",
    find=find,
    citations=(SONG,),
)
