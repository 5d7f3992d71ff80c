"""The report's sections on a calibration: two figures, the sweep, the controls, the hubs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from markupsafe import Markup

from heldout.evidence import Relation
from heldout.overlap import Calibration, MatrixRun, leakage_matrix, quantiles_of
from heldout.report._models import Figure
from heldout.report.figures import Series, flag_fraction_chart, heat_map, similarity_histogram
from heldout.store import Run

HUBS = 12
RELATIONS: tuple[str, ...] = tuple(
    relation for relation in Relation if relation != Relation.OTHER_VIEW
)


def nearness_sections(
    calibrated: Sequence[Calibration], names: Mapping[str, str], benchmark: str
) -> list[dict[str, Any]]:
    """One section per corpus and encoder; ``names`` are image names by picture."""
    return [
        {
            "corpus": calibration.corpus,
            "encoder": calibration.encoder,
            "alpha": calibration.tau.alpha if calibration.tau else calibration.asked,
            "problem": calibration.problem,
            "notes": calibration.notes,
            "figures": _figures(calibration, benchmark),
            "calibration": calibration,
            "spreads": _spreads(calibration, benchmark),
            "controls": [
                control for control in calibration.controls if control.at_alpha is not None
            ],
            "hubs": _hubs(calibration, names),
            "unresolved": calibration.sweep.unresolved,
        }
        for calibration in calibrated
    ]


def _spreads(calibration: Calibration, benchmark: str) -> list[dict[str, Any]]:
    """Nearest similarities of benchmark, null and every control, side by side, and the pictures above τ."""
    point = next(
        (
            p
            for p in calibration.sweep.points
            if calibration.tau and p.threshold.alpha == calibration.tau.alpha
        ),
        None,
    )
    null = calibration.null.similarities if calibration.null is not None else np.zeros(0)
    rows = [
        (
            benchmark,
            "benchmark",
            len(calibration.benchmark),
            calibration.benchmark.quantiles,
            point and point.images,
        ),
        (
            calibration.null.source if calibration.null else "",
            "comparison",
            len(null),
            quantiles_of(null),
            None,
        ),
        *(
            (
                each.name,
                f"{each.domain} control",
                len(each.nearest),
                each.nearest.quantiles,
                each.at_alpha.images if each.at_alpha else None,
            )
            for each in calibration.controls
        ),
    ]
    return [
        {"name": name, "role": role, "images": count, "quantiles": quantiles, "above": rate}
        for name, role, count, quantiles, rate in rows
        if quantiles is not None
    ]


def _figures(calibration: Calibration, benchmark: str) -> list[Markup]:
    if calibration.null is None or calibration.tau is None:
        return []
    itself = calibration.null.source.startswith("corpus against itself")
    histogram = similarity_histogram(
        calibration.benchmark.similarities,
        calibration.null.similarities,
        threshold=calibration.tau.value,
        interval=(calibration.tau.interval.low, calibration.tau.interval.high),
        alpha=calibration.tau.alpha,
        name=benchmark,
        null_name="comparison: corpus against itself" if itself else "comparison: reference set",
    )
    points = calibration.sweep.points
    if len(points) < 2:  # a curve of one point shows nothing that the claim does not say
        return [histogram]
    alphas = [point.threshold.alpha for point in points]
    rates = [(f"{benchmark}, images", [point.images for point in points])]
    questions = [point.questions for point in points if point.questions is not None]
    if len(questions) == len(points):
        rates.append((f"{benchmark}, questions", questions))
    rates += [
        (f"{control.name} ({control.domain} control)", [point.images for point in control.points])
        for control in calibration.controls
        if control.points
    ]
    series = [
        Series(
            name,
            alphas,
            [rate.value for rate in curve],
            [rate.interval.low for rate in curve],
            [rate.interval.high for rate in curve],
        )
        for name, curve in rates
    ]
    return [histogram, flag_fraction_chart(series)]


def _hubs(calibration: Calibration, names: Mapping[str, str]) -> list[dict[str, Any]]:
    if calibration.hubs is None:
        return []
    flagged = calibration.flagged()
    return [
        {
            "hub": hub,
            "flagged": sum(image in flagged for image in hub.images),
            "names": [names.get(image, image[:12]) for image in hub.images[:4]],
        }
        for hub in calibration.hubs.hubs[:HUBS]
    ]


def agreement(calibrated: Sequence[Calibration]) -> list[dict[str, Any]]:
    """Which pictures two encoders flag alike, per corpus: each at its own τ, at one α each."""
    records = []
    for left, right in itertools.combinations(calibrated, 2):
        if left.corpus != right.corpus or left.tau is None or right.tau is None:
            continue
        common = set(left.benchmark.pictures) & set(right.benchmark.pictures)
        first, other = left.flagged() & common, right.flagged() & common
        records.append(
            {
                "corpus": left.corpus,
                "encoders": (left.encoder.split(" |")[0], right.encoder.split(" |")[0]),
                "both": len(first & other),
                "left": len(first - other),
                "right": len(other - first),
                "neither": len(common - first - other),
                "n": len(common),
            }
        )
    return records


def relation_counts(
    items: pl.DataFrame, matches: pl.DataFrame, corpus: str
) -> list[dict[str, Any]]:
    """Every picture once, under the strongest relation that registration found to any of its neighbours."""
    shown = items.select(pl.col("image_digests").alias("digest")).explode("digest")["digest"]
    pictures = {null for null in shown.drop_nulls().to_list() if null}
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    here = matches.filter(pl.col("corpus") == corpus).select(picture, "relation").unique()
    best: dict[str, int] = {}
    for image, relation in here.iter_rows():
        if relation in RELATIONS:
            place = RELATIONS.index(relation)
            best[image] = min(place, best.get(image, place))
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


# Heat maps of one run: what is a copy, and what is near by similarity alone, in each corpus.


_SHOWN: tuple[tuple[str, Literal["hard", "soft"], str], ...] = (
    ("copy", "hard", "Copies, share of images"),
    ("hard", "soft", "Hard neighbours, share of images"),
    ("soft", "soft", "Soft neighbours, share of images"),
)


def degree_figures(run: Run, items: pl.DataFrame, matches: pl.DataFrame) -> list[Figure]:
    """Empty with a single corpus, or without an encoder: the claims have the same numbers."""
    manifest = run.manifest()
    stages = list(manifest["stages"].values())
    encoders = sorted({stage["encoder"] for stage in stages if stage["encoder"]})
    if len(stages) < 2 or not encoders:
        return []
    name = manifest["inputs"]["benchmark"]["name"]
    corpora = [stage["corpus"] for stage in stages]
    matrix = leakage_matrix([MatrixRun(name, items, matches, corpora, "; ".join(encoders))])
    images = matrix.filter(pl.col("unit") == "images")
    figures = []
    for kind, tone, title in _SHOWN:
        rates = dict(images.filter(pl.col("kind") == kind).select("corpus", "rate").iter_rows())
        cells = [[rates.get(corpus)] for corpus in corpora]
        drawn = heat_map(corpora, [name], cells, tone=tone, title=title)
        figures.append(Figure(f"degrees-{kind}", drawn, ""))
    return figures
