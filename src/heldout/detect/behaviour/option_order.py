"""option-order: are items answered better with their options in the released order? (MM-Detect)

CR is the rate of right answers as released, PCR with the options shuffled (rotated, if they were not shuffled),
instance leakage the share that is right before and wrong after. A model that prefers one place
is right more often where the release puts the answer there, so the tested effect is adjusted for the place of
the right option. Numbers that ascend or "none of the above" in last place help every reader:
items whose options have a natural order are kept apart, and what they show is reported beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise
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
from heldout.detect.behaviour.probe import ORIGINAL, Arms, Probe, two_variants, with_options
from heldout.detect.detector import SONG
from heldout.detect.finding import NotRecorded, Outcome
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.model import BOUND

# Options in a natural order: numbers, dates, degrees, yes before no.
#
# The answer is easier to find in "2, 4, 6, 8" than in "6, 2, 8, 4", without having seen the item. So
# probes that move options keep such items apart.


_NUMBER = re.compile(r"[-+\u2212]?\d+(?:[.,]\d+)*")
#: names of options, whose numbers have no order
_LABEL = re.compile(r"^(?:option|choice|answer|item|image|picture|figure|panel) ?\d+$")
#: an option that is put last wherever it stands
_LAST = re.compile(
    r"^(?:none|neither|all|both|other|others|unknown|unsure|not sure|uncertain|i don't know|"
    r"(?:cannot|can't|can not) (?:be )?(?:tell|told|say|determined|determine|answered|answer)|"
    r"not (?:enough|sufficient) information|insufficient information|not (?:visible|applicable|shown))\b",
    re.IGNORECASE,
)
_POLES = frozenset(
    {"yes", "no", "true", "false", "maybe", "present", "absent", "correct", "incorrect"}
)
_SCALES = tuple(
    text.split()
    for text in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "first second third fourth fifth sixth seventh eighth ninth tenth",
        "i ii iii iv v vi vii viii ix x",
        "january february march april may june july august september october november december",
        "monday tuesday wednesday thursday friday saturday sunday",
        "tiny small medium large huge",
        "none minimal mild moderate severe critical",
        "very-low low medium high very-high",
        "low intermediate high",
        "never rarely sometimes often always",
        "early mid late",
        "top middle bottom",
        "upper middle lower",
        "left middle right",
        "left center right",
        "left centre right",
        "morning noon afternoon evening night",
        "spring summer autumn winter",
        "cold cool warm hot",
        "young middle-aged old",
    )
)


def in_natural_order(options: Sequence[str]) -> bool:
    """Whether these options, as released, stand in an order that their meaning gives them."""
    texts = [" ".join(option.split()).strip(" .").lower() for option in options]
    if len(texts) < 2:
        return False
    if any(BOUND.search(option.strip()) for option in options) or any(
        _LAST.match(text) for text in texts[-1:]
    ):
        return True
    if sum(text in _POLES for text in texts) >= 2:
        return True
    if all(_LABEL.match(text) for text in texts):
        return False
    numbers = [_numbers(text) for text in texts]
    if all(numbers) and _monotone([row[0] for row in numbers]):
        return True
    words = [set(re.findall(r"[a-z][a-z-]*", text)) for text in texts]
    for scale in _SCALES:
        places = [[place for place, word in enumerate(scale) if word in row] for row in words]
        if all(places) and _monotone([float(row[0]) for row in places]):
            return True
    return False


# Many items have the same options: yes and no, the same four places.
_in_natural_order = lru_cache(maxsize=4096)(in_natural_order)


def naturally_ordered(tables: ScoreTables) -> frozenset[str]:
    """Items whose options stood in a natural order as released."""
    key = "items with options in a natural order"
    if key not in tables.memo:
        shown = [] if tables.answers is None else _released(tables.answers)
        tables.memo[key] = frozenset(
            item for item, options in shown if options and _in_natural_order(tuple(options))
        )
    ordered_items: frozenset[str] = tables.memo[key]
    return ordered_items


def _released(answers: pl.DataFrame) -> list[tuple[str, list[str]]]:
    rows = answers.filter(pl.col("variant") == ORIGINAL).unique("benchmark_id")
    return list(rows.select("benchmark_id", "options").iter_rows())


def _numbers(text: str) -> list[float]:
    numbers = []
    for number in _NUMBER.findall(text):
        plain = number.replace("\u2212", "-")
        # 1,500 is a number of four digits, 1,5 one of two.
        plain = re.sub(r",(?=\d{3}(?:\D|$))", "", plain).replace(",", ".")
        whole, point, rest = plain.partition(".")
        numbers.append(float(whole + point + rest.replace(".", "")))
    return numbers


def _monotone(values: Sequence[float]) -> bool:
    rises = [second > first for first, second in pairwise(values)]
    falls = [second < first for first, second in pairwise(values)]
    return all(rises) or all(falls)


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
        effect="gain in accuracy from the released order of options, adjusted for answer position",
        arms=arms,
        known=lambda tables: with_options(tables) - naturally_ordered(tables),
        counted="items with their options reordered",
        blind_to=BLIND_TO,
        placed=True,
    )


PROBE = _probe()


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
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
    "does accuracy drop when the options are reordered?",
    variants=(ORIGINAL, "shuffle-*|rotation-[!0]*"),
    asks="shuffle-1..3",
    find=find,
    citations=(SONG,),
)
