"""option-order: are items answered better with their options in the released order? (MM-Detect)

CR is the rate of right answers as released, PCR with the options shuffled (rotated, if they were not shuffled),
instance leakage the share that is right before and wrong after. A model that prefers one place
is right more often where the release puts the answer there, so the tested effect is adjusted for the place of
the right option. Numbers that ascend or "none of the above" in last place help every reader:
items whose options have a natural order are kept apart, and what they show is reported beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import polars as pl

from heldout.detect.behaviour.circular import is_rotation
from heldout.detect.behaviour.compare import (
    compare,
    measure,
    probe_detector,
    rate,
    test_record,
)
from heldout.detect.behaviour.natural_order import naturally_ordered
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
ALL_NATURAL = "the options of every item are in a natural order, which helps any reader: nothing is left to test"
BLIND_TO = [
    "memory of the answer's words, which moves with its option",
    "items whose options have a natural order (numbers, degrees, 'none of the above'): kept apart",
]


@cache
def _probe(apart: Literal["without", "alone", "all"] = "without") -> Probe:
    """Items with options in a natural order are left out, or taken alone, or treated like others."""

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        moved = _is_shuffle if _shuffled(tables, model) else is_rotation
        both = two_variants(ORIGINAL, moved, LACKING)
        natural = naturally_ordered(tables)
        if apart == "all" or tables.answers is None or (apart == "without" and not natural):
            return both(tables, settings, model, leave_out)
        chosen = pl.col("benchmark_id").is_in(list(natural))
        kept = tables.answers.filter(chosen if apart == "alone" else ~chosen)
        arms = both(replace(tables, answers=kept), settings, model, leave_out)
        if isinstance(arms, str) and isinstance(both(tables, settings, model, leave_out), Arms):
            return ALL_NATURAL
        return arms

    return Probe(
        name=NAME,
        first="as released",
        second="reordered",
        effect="accuracy gained by the released order, adjusted for answer position",
        arms=arms,
        known=lambda tables: with_options(tables) - naturally_ordered(tables),
        counted="items with their options reordered",
        blind_to=BLIND_TO,
        placed=True,
    )


PROBE = _probe()


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.answering:
        more = {
            **_published(tables, settings, model),
            "natural_order": _natural(tables, settings, model),
        }
        yield compare(PROBE, tables, settings, model, more=more)


def _natural(tables: ScoreTables, settings: DetectSettings, model: str) -> dict[str, Any]:
    """How many items were kept apart, and what they alone and all items together show."""
    natural = naturally_ordered(tables)
    if not natural:
        return {"items": 0}
    parts: dict[str, Any] = {"items": len(natural)}
    for name, probe in (("alone", _probe("alone")), ("with_all_items", _probe("all"))):
        measured = measure(probe, tables, settings, model)
        parts[name] = measured if isinstance(measured, str) else test_record(measured.main)
    return parts


def _published(tables: ScoreTables, settings: DetectSettings, model: str) -> dict[str, Any]:
    """MM-Detect's figures, and how often each place is right, which they do not adjust for."""
    compared = _probe("all").read(tables, settings, model)
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
