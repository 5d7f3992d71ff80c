"""Structure of the release: is a trend along the order still there within what the order is grouped by?

Benchmarks are released in runs: radiographs first, MRI later. A model that is better at one of them
shows a trend without having seen anything, and a baseline that is not as good at it does not. Every
metadata field that is grouped along the order is tried as a stratum; a trend that is gone within one of
them is that field's.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from heldout.detect import DetectSettings, Scored, ScoreTables, covariate, metadata_fields, strata
from heldout.stats import order_grouping, trend_test

MOST_LEVELS = 12  # finer fields leave too few items in a stratum to see anything within
GROUPED = 0.01


class Within(NamedTuple):
    """The released order's trend within the strata of one metadata field."""

    field: str
    levels: int
    rho: float
    p: float


def trend_within_fields(tables: ScoreTables, model: str, settings: DetectSettings) -> list[Within]:
    scored = tables.scored(model)
    withins = []
    for field, levels in grouped_fields(scored, settings).items():
        labels = strata(scored.frame, tuple(dict.fromkeys((*settings.strata, field))))
        trend = trend_test(
            scored.means,
            scored.clusters,
            labels,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if trend is not None:
            withins.append(Within(field, levels, trend.rho, trend.test.p))
    return withins


def grouped_fields(scored: Scored, settings: DetectSettings) -> dict[str, int]:
    """Metadata fields with a few values that neighbouring clusters share more often than by chance."""
    frame = scored.frame
    grouped = {}
    for name in metadata_fields(frame):
        if name in settings.strata:
            continue
        values = covariate(frame, name)
        levels = len(set(values))
        if not 2 <= levels <= MOST_LEVELS:
            continue
        per_cluster: dict[str, Counter[str]] = {}
        for cluster, value in zip(scored.clusters, values, strict=True):
            per_cluster.setdefault(cluster, Counter())[value] += 1
        # A cluster's most common value; equal counts by name, so that row order decides nothing.
        labels = [
            min(c.items(), key=lambda pair: (-pair[1], pair[0]))[0] for c in per_cluster.values()
        ]
        if order_grouping(labels, seed=settings.seed).p <= GROUPED:
            grouped[name] = levels
    return grouped
