"""Of the pairs that could have been asked, how many have both answers recorded?

A file from which the right answers to twins were left out looks like memory, and one from which the wrong
ones were looks clean. What could have been asked is what anybody in the run answered in the second form,
and what is known to have one; items that nobody was asked about in any form are outside what was planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from heldout.detect.behaviour.probe import Arms, Probe
from heldout.detect.behaviour.rows import ORIGINAL
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.model import BOUND

Pairs = frozenset[tuple[str, str]]  # items, and the variant beside the original


@dataclass(frozen=True)
class _Everybody:
    """``pairs`` by model; ``items`` that have a second form, as far as anybody knows."""

    pairs: dict[str, Pairs]
    items: frozenset[str]


def pairs_recorded(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, models: Iterable[str]
) -> dict[str, dict[str, int]]:
    """By model the pairs that are recorded, and those possible in the variants it was asked in."""
    key = ("pairs", probe.name, probe.second, settings.bases)
    if key not in tables.memo:
        tables.memo[key] = _everybody(probe, tables, settings)
    everybody: _Everybody = tables.memo[key]
    union = frozenset[tuple[str, str]]().union(*everybody.pairs.values())
    found = {}
    for model in models:
        mine = everybody.pairs[model]
        variants = {variant for _, variant in mine}
        possible = {one for one in union if one[1] in variants}
        alone = everybody.items - {item for item, _ in possible}
        found[model] = {"recorded": len(mine), "possible": len(possible) + len(alone)}
    return found


def with_options(tables: ScoreTables) -> frozenset[str]:
    """Items whose options can be shown in another order."""
    if tables.answers is None:
        return frozenset()
    asked = tables.answers.filter(pl.col("variant") == ORIGINAL, pl.col("options").list.len() > 1)
    shown = asked.unique("benchmark_id").select("benchmark_id", "options").iter_rows()
    return frozenset(
        item
        for item, options in shown
        if not any(BOUND.search(option.strip()) for option in options)
    )


def _everybody(probe: Probe, tables: ScoreTables, settings: DetectSettings) -> _Everybody:
    answered = [(name, probe.arms(tables, settings, name, False)) for name in tables.answering]
    made = {name: arms for name, arms in answered if isinstance(arms, Arms)}
    mine = frozenset(tables.items["benchmark_id"])
    pairs = {}
    for name, arms in made.items():
        second = arms.rows.filter(~pl.col("released")).select("benchmark_id", "variant")
        pairs[name] = frozenset(row for row in second.iter_rows() if row[0] in mine)
    changed = frozenset[str]().union(*(arms.changed for arms in made.values()))
    asked = frozenset[str]().union(*(arms.answers["benchmark_id"] for arms in made.values()))
    return _Everybody(pairs, (changed | probe.known(tables)) & asked & mine)
