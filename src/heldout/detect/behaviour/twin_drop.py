"""twin-drop: a twin has another answer to the same question; a model that remembers the old answer is wrong on
it.

The published reading is the sign of Acc(twin) - Acc(original). Twins are usually easier, so a clean model
gains, and one that has seen a little may still gain: with reference models that cannot have seen the
benchmark the test is of the difference to theirs. Every variant named ``twin`` or ``twin-…`` is a set of
twins of its own; natural ones (NaturalBench) are like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import polars as pl

from heldout.detect.behaviour.compare import compare, probe_detector
from heldout.detect.behaviour.probe import ORIGINAL, Arms, ArmsOf, Probe, two_variants
from heldout.detect.detector import PARK
from heldout.detect.finding import Finding, NotRecorded, Outcome
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables

NAME = "twin-drop"
TWIN = "twin"
LACKING = NotRecorded(
    "needs answers to the originals and to their twins: heldout ask --variants original,twin=…"
)
BLIND_TO = [
    "memory of the picture or the question without the answer",
    "contamination so mild that clean models of the same kind differ as much between themselves",
    "twins that are wrong or cannot be answered: they look like a drop",
]


@cache
def probe_for(twin: str = TWIN) -> Probe:
    return Probe(
        name=NAME,
        first=ORIGINAL,
        second=twin,
        effect=f"drop from {ORIGINAL} to {twin}",
        arms=_arms(twin),
        blind_to=BLIND_TO,
        known=lambda tables: tables.twin_items.get(twin, frozenset()),
        counted="twins",
        second_may_be_wrong=True,
        by_category=True,
    )


def _arms(twin: str) -> ArmsOf:
    every = two_variants(ORIGINAL, lambda name: name == twin, LACKING)

    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        """Without twins in which nothing but the key changed."""
        unchanged = tables.unchanged.get(twin)
        if not unchanged or tables.answers is None:
            return every(tables, settings, model, leave_out)
        spoilt = (pl.col("variant") == twin) & pl.col("benchmark_id").is_in(list(unchanged))
        kept = replace(tables, answers=tables.answers.filter(~spoilt))
        arms = every(kept, settings, model, leave_out)
        complete = every(tables, settings, model, leave_out)
        return "no twin is left" if isinstance(arms, str) and isinstance(complete, Arms) else arms

    return arms


def unchanged_note(tables: ScoreTables, twin: str) -> str:
    """The sentence that says how many twins show the original; "" for none."""
    count = len(tables.unchanged.get(twin, ()))
    if not count:
        return ""
    return (
        f"{count:,} of {count + len(tables.twin_items.get(twin, ())):,} twins show the same picture as "
        "their original with the same question and options: only the key changed, and they were left out"
    )


def twins_of(tables: ScoreTables, model: str) -> list[str]:
    """Every set of twins this model was asked about or scored on; the plain name where there is none."""
    names: set[str] = set()
    for table in (tables.answers, tables.twin_scores):
        if table is not None:
            names |= set(table.filter(pl.col("model") == model)["variant"].unique())
    return sorted(name for name in names if name == TWIN or name.startswith(f"{TWIN}-")) or [TWIN]


def of_twins(finding: Finding, tables: ScoreTables, twin: str) -> Finding:
    """The finding named after its set of twins, with what is known about them."""
    details = {
        **finding.details,
        "twins": dict(tables.twins.get(twin, {})),
        "twins_unchanged": {
            "count": len(tables.unchanged.get(twin, ())),
            "others": len(tables.twin_items.get(twin, ())),
            "sentence": unchanged_note(tables, twin),
        },
    }
    name = finding.id if twin == TWIN else f"{finding.id}/{twin}"
    return finding.model_copy(update={"id": name, "details": details})


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        for twin in twins_of(tables, model):
            outcome = compare(probe_for(twin), tables, settings, model)
            text = unchanged_note(tables, twin)
            if isinstance(outcome, Finding):
                outcome = of_twins(outcome, tables, twin)
            elif text and outcome.reason != LACKING:
                outcome = outcome.model_copy(update={"reason": f"{outcome.reason}: {text}"})
            yield outcome


DETECTOR = probe_detector(
    probe_for(),
    "same question, another picture and answer: does accuracy drop?",
    variants=(ORIGINAL, f"{TWIN}|{TWIN}-*"),
    find=find,
    citations=(PARK,),
)
