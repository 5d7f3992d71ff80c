"""What the report shows of a calibration: two figures, the sweep, the controls, the hubs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from heldout.evidence import Relation
from heldout.overlap import Calibration, quantiles_of
from heldout.report.figures import Series, distance_histogram, flag_fraction_chart

HUBS = 12
RELATIONS: tuple[str, ...] = tuple(one for one in Relation if one != Relation.OTHER_VIEW)


def nearness_sections(
    calibrated: Sequence[Calibration], names: Mapping[str, str], benchmark: str
) -> list[dict[str, Any]]:
    """One section per corpus and encoder; ``names`` are image names by picture."""
    return [
        {
            "corpus": one.corpus,
            "encoder": one.encoder,
            "alpha": one.tau.alpha if one.tau else one.asked,
            "problem": one.problem,
            "notes": one.notes,
            "figures": _figures(one, benchmark),
            "calibration": one,
            "spreads": _spreads(one, benchmark),
            "controls": [control for control in one.controls if control.at_alpha is not None],
            "hubs": _hubs(one, names),
            "unresolved": one.sweep.unresolved,
        }
        for one in calibrated
    ]


def _spreads(one: Calibration, benchmark: str) -> list[dict[str, Any]]:
    """Nearest similarities of benchmark, null and every control, side by side, and who exceeds τ."""
    point = next(
        (p for p in one.sweep.points if one.tau and p.threshold.alpha == one.tau.alpha), None
    )
    null = one.null.similarities if one.null is not None else np.zeros(0)
    rows = [
        (
            benchmark,
            "benchmark",
            len(one.benchmark),
            one.benchmark.quantiles,
            point and point.images,
        ),
        (one.null.source if one.null else "", "null", len(null), quantiles_of(null), None),
        *(
            (
                each.name,
                f"{each.domain} control",
                len(each.nearest),
                each.nearest.quantiles,
                each.at_alpha.images if each.at_alpha else None,
            )
            for each in one.controls
        ),
    ]
    return [
        {"name": name, "role": role, "images": count, "quantiles": found, "above": rate}
        for name, role, count, found, rate in rows
        if found is not None
    ]


def _figures(one: Calibration, benchmark: str) -> list[Markup]:
    if one.null is None or one.tau is None:
        return []
    itself = one.null.source.startswith("corpus against itself")
    histogram = distance_histogram(
        one.benchmark.similarities,
        one.null.similarities,
        threshold=one.tau.value,
        interval=(one.tau.interval.low, one.tau.interval.high),
        alpha=one.tau.alpha,
        name=benchmark,
        null_name="null: corpus against itself" if itself else "null: reference set",
    )
    points = one.sweep.points
    alphas = [point.threshold.alpha for point in points]
    rates = [(f"{benchmark}, images", [point.images for point in points])]
    questions = [point.questions for point in points if point.questions is not None]
    if len(questions) == len(points):
        rates.append((f"{benchmark}, questions", questions))
    rates += [
        (f"{control.name} ({control.domain} control)", [point.images for point in control.points])
        for control in one.controls
        if control.points
    ]
    series = [
        Series(
            name,
            alphas,
            [rate.value for rate in found],
            [rate.interval.low for rate in found],
            [rate.interval.high for rate in found],
        )
        for name, found in rates
    ]
    return [histogram, flag_fraction_chart(series)]


def _hubs(one: Calibration, names: Mapping[str, str]) -> list[dict[str, Any]]:
    if one.hubs is None:
        return []
    flagged = one.flagged()
    return [
        {
            "hub": hub,
            "flagged": sum(image in flagged for image in hub.images),
            "names": [names.get(image, image[:12]) for image in hub.images[:4]],
        }
        for hub in one.hubs.hubs[:HUBS]
    ]


def agreement(calibrated: Sequence[Calibration]) -> list[dict[str, Any]]:
    """Which pictures two encoders flag alike, per corpus: each at its own τ, at one α each."""
    found = []
    for left, right in itertools.combinations(calibrated, 2):
        if left.corpus != right.corpus or left.tau is None or right.tau is None:
            continue
        common = set(left.benchmark.pictures) & set(right.benchmark.pictures)
        one, other = left.flagged() & common, right.flagged() & common
        found.append(
            {
                "corpus": left.corpus,
                "encoders": (left.encoder.split(" |")[0], right.encoder.split(" |")[0]),
                "both": len(one & other),
                "left": len(one - other),
                "right": len(other - one),
                "neither": len(common - one - other),
                "n": len(common),
            }
        )
    return found


def relation_counts(
    items: pl.DataFrame, matches: pl.DataFrame, corpus: str
) -> list[dict[str, Any]]:
    """Every picture once, under the strongest word registration had for any of its neighbours."""
    shown = items.select(pl.col("image_digests").alias("digest")).explode("digest")["digest"]
    pictures = {one for one in shown.drop_nulls().to_list() if one}
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    here = matches.filter(pl.col("corpus") == corpus).select(picture, "relation").unique()
    best: dict[str, int] = {}
    for one, relation in here.iter_rows():
        if relation in RELATIONS:
            place = RELATIONS.index(relation)
            best[one] = min(place, best.get(one, place))
    counts = [sum(place == index for place in best.values()) for index in range(len(RELATIONS))]
    rows = [
        {"relation": name, "count": count, "share": count / len(pictures) if pictures else 0.0}
        for name, count in zip(RELATIONS, counts, strict=True)
    ]
    none = len(pictures) - len(best)
    rows.append(
        {
            "relation": "no candidate",
            "count": none,
            "share": none / len(pictures) if pictures else 0.0,
        }
    )
    return rows
