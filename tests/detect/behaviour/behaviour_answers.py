"""Small answer tables, written out by hand, and what a detector finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from heldout.detect import DetectSettings, Finding, Outcome, ScoreTables, run_detectors
from heldout.detect.tables import no_scores
from heldout.store import SCHEMAS

CODES = {"1": "right", "0": "wrong", "?": "unparsed", "x": "refused"}


def answers_of(
    outcomes: Mapping[tuple[str, str], str],
    *,
    images: Sequence[int] | None = None,
    options: int = 4,
    gold: str = "A",
) -> ScoreTables:
    """``outcomes`` by (model, variant): one of 1 0 ? x per item, a blank where it was not asked."""
    length = max(len(text) for text in outcomes.values())
    shared = images if images is not None else range(length)
    rows = [
        {
            "benchmark_id": f"q{place:03d}",
            "model": model,
            "variant": variant,
            "draw": 0,
            "options": [f"option {number}" for number in range(options)],
            "gold": gold,
            "outcome": CODES[code],
            "template": "letters/1",
        }
        for (model, variant), text in outcomes.items()
        for place, code in enumerate(text)
        if code != " "
    ]
    items = [
        {
            "benchmark_id": f"q{place:03d}",
            "position": place,
            "cluster": f"image{image}",
            "metadata": f'{{"kind": "{"even" if place % 2 == 0 else "odd"}"}}',
        }
        for place, image in zip(range(length), shared, strict=True)
    ]
    frames = []
    for name, made in (("items", items), ("answers", rows)):
        empty = pl.from_arrow(SCHEMAS[name].empty_table())
        assert isinstance(empty, pl.DataFrame)
        frames.append(pl.DataFrame(made, schema={key: empty.schema[key] for key in made[0]}))
    return ScoreTables("toy", frames[0], no_scores(), answers=frames[1])


def outcome_of(
    name: str, tables: ScoreTables, settings: DetectSettings, model: str = "m"
) -> Outcome:
    """What the detector ``name`` says of one model."""
    outcomes, _ = run_detectors(tables, [name], settings)
    return next(outcome for outcome in outcomes if outcome.cell.model == model)


def finding_of(
    name: str, tables: ScoreTables, settings: DetectSettings, model: str = "m"
) -> Finding:
    finding = outcome_of(name, tables, settings, model)
    assert isinstance(finding, Finding), finding
    return finding
