"""multimodal-leakage: does a model answer without the image what its base language model cannot? (MMStar)

Published as max(0, accuracy without the image - the base's), beside the gain the image brings. Here the
difference keeps its sign, is paired by item and tested. Training on pictures also teaches how to answer
such questions at all, which is no leak: reference models made from the same base show how much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from heldout.detect.behaviour.compare import compare, probe_detector
from heldout.detect.behaviour.probe import ORIGINAL, Arms, Probe, asked, made_arms
from heldout.detect.detector import CHEN, Need
from heldout.detect.finding import NotRecorded, Outcome, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError

NAME = "multimodal-leakage"
NO_IMAGE = "no-image"
LACKING = NotRecorded(
    f"needs answers without the image of the model and of its base: heldout ask --variants {NO_IMAGE}"
)
NO_BASE = NotRecorded("needs the language model it was made from: the setting bases")


def arms(tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool) -> Arms | str:
    base = settings.base_of(model)
    if base is None:
        return NO_BASE
    if base == model:
        return NotRecorded("this is the base itself")

    def both(left: bool) -> pl.DataFrame:
        sides = [
            asked(tables, side, lambda name: name == NO_IMAGE, leave_out=left)
            for side in (model, base)
        ]
        return pl.concat(sides)

    return made_arms(both(False), both(leave_out), pl.col("model") == model, LACKING)


PROBE = Probe(
    name=NAME,
    first="without the image",
    second="base without the image",
    effect="accuracy without the image, minus the base model's",
    arms=arms,
    known=lambda tables: frozenset(tables.items["benchmark_id"]),
    counted="items without their picture",
    blind_to=[
        "memory that needs the image to be called up",
        "what the base itself has seen",
        "training that teaches how to answer such questions, which looks like a leak",
    ],
)


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for _, base in settings.bases:
        if base not in tables.answering:
            raise InputError(
                f"bases {base}: no answers of it in this run; it has "
                f"{', '.join(tables.answering) or 'none'}"
            )
    bases = {base for _, base in settings.bases}
    for model in tables.tested:
        if model in bases:
            continue
        if settings.base_of(model) is None:
            yield not_testable(NAME, tables.benchmark, model, NO_BASE)
            continue
        yield compare(PROBE, tables, settings, model, more=_published(tables, model, settings))


def _published(tables: ScoreTables, model: str, settings: DetectSettings) -> dict[str, Any]:
    """Multimodal gain and leakage as MMStar defines them, on the items asked in every form."""
    sides = [
        asked(tables, asked_model, lambda name, kind=kind: name == kind)  # type: ignore[misc]
        for asked_model, kind in (
            (model, ORIGINAL),
            (model, NO_IMAGE),
            (str(settings.base_of(model)), NO_IMAGE),
        )
    ]
    if any(side.is_empty() for side in sides):
        return {"base": settings.base_of(model)}
    shared = set.intersection(*(set(side["benchmark_id"]) for side in sides))
    seeing, blind, base = (
        float(side.filter(pl.col("benchmark_id").is_in(list(shared)))["right"].mean() or 0.0)  # type: ignore[arg-type]
        for side in sides
    )
    return {
        "base": settings.base_of(model),
        "multimodal_gain": seeing - blind,
        "multimodal_leakage": max(0.0, blind - base),
        "items_in_every_form": len(shared),
    }


DETECTOR = probe_detector(
    PROBE,
    "is it right without the image where its base model is not?",
    variants=(NO_IMAGE,),
    asks=NO_IMAGE,
    requires={Need.BASE},
    find=find,
    citations=(CHEN,),
)
