"""A probe: two arms of one paired design, and how its difference reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from heldout.detect.behaviour.rows import asked, in_arms, unlike_templates, unread
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables


@dataclass(frozen=True)
class Arms:
    """Rows of both arms on the items that have both; what could not be paired or read is counted."""

    rows: pl.DataFrame
    unpaired: int
    unread: dict[str, dict[str, int]]
    replies: int
    answers: pl.DataFrame  # everything that was answered, readable or not
    changed: frozenset[str] = frozenset()  # items that were answered in the second form


#: tables, settings, model, whether unreadable replies are left out
ArmsOf = Callable[[ScoreTables, DetectSettings, str, bool], Arms | str]


@dataclass(frozen=True)
class Probe:
    """``first`` less ``second``: higher means more likely seen."""

    name: str
    first: str
    second: str
    effect: str
    arms: ArmsOf
    blind_to: list[str]
    #: is no difference what a clean model shows? Where it is not, only references make a test
    zero_is_clean: bool = True
    #: is the place of the right option taken out of the effect itself?
    placed: bool = False
    #: may the second form be wrong, so that who sees more loses more by it?
    second_may_be_wrong: bool = False
    #: items known to have a second form, whether or not anybody recorded an answer to it
    known: Callable[[ScoreTables], frozenset[str]] = lambda tables: frozenset()
    #: what the second form of items is called where it is counted
    counted: str = "changed items"
    #: is it broken down by the metadata field that was asked for?
    by_category: bool = False


def two_variants(first: str, wanted: Callable[[str], bool], lacking: str) -> ArmsOf:
    """The item in one form, and in any of some others."""

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        everything = asked(tables, model, lambda name: name == first or wanted(name))
        mine = asked(tables, model, lambda name: name == first or wanted(name), leave_out=leave_out)
        return made_arms(everything, mine, pl.col("variant") == first, lacking)

    return arms


def made_arms(
    everything: pl.DataFrame, kept: pl.DataFrame, released: pl.Expr, lacking: str
) -> Arms | str:
    """``everything`` that was answered, and what is ``kept`` of it for the comparison."""
    if everything.is_empty():
        return lacking
    first, second = (everything.filter(side) for side in (released, ~released))
    if first.is_empty() or second.is_empty():
        return lacking
    unlike = unlike_templates(first, second)
    if unlike is not None:
        return unlike
    rows = in_arms(kept, released)
    unpaired = everything["benchmark_id"].n_unique() - rows["benchmark_id"].n_unique()
    changed = frozenset(second["benchmark_id"])
    return Arms(rows, unpaired, unread(everything), len(everything), everything, changed)
