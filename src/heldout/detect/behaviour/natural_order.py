"""Options in a natural order: numbers, dates, degrees, yes before no.

The answer is easier to find in "2, 4, 6, 8" than in "6, 2, 8, 4", without having seen the item. So
probes that move options keep such items apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from heldout.detect.tables import ScoreTables
from heldout.model import BOUND

ORIGINAL = "original"
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


def naturally_ordered(tables: ScoreTables) -> frozenset[str]:
    """Items whose options stood in a natural order as released."""
    key = "items with options in a natural order"
    if key not in tables.memo:
        shown = [] if tables.answers is None else _released(tables.answers)
        tables.memo[key] = frozenset(
            item for item, options in shown if options and in_natural_order(options)
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
