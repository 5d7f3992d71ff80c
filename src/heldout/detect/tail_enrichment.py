"""tail-enrichment: how many items one model finds far easier than the median of its cohort.

A cohort is not a control: Δ inherits the calibration of its neighbours (`heldout lab confound` shows a
clean model flagged in every draw). The p-value therefore compares the tail with that of baselines that
cannot have seen the benchmark, item by item; without one there is a rate and no p.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from heldout.detect.cohort import SMALLEST, cohort_delta, cohort_scores
from heldout.detect.detector import Detector, Need
from heldout.detect.outcome import Outcome, direction_of, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import Permuted, cluster_rate_interval, flip_test

NAME = "tail-enrichment"
HALF = 50.0  # the second, lower threshold that is always reported
BLIND_TO = [
    "a model that is better calibrated, or more confident, than its cohort looks like one that has "
    "seen the items",
    "memory that the other models of the cohort share",
]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    cohort = cohort_scores(tables, settings)
    if isinstance(cohort, str) or len(tables.models) < SMALLEST:
        reason = cohort if isinstance(cohort, str) else f"a cohort needs {SMALLEST} models"
        for model in tables.models:
            yield not_testable(NAME, tables.benchmark, model, reason)
        return
    _, clusters, scores, which = cohort
    delta = cohort_delta(scores)
    tails = delta > settings.tail
    if not tails.any():
        reason = (
            f"no item of any model lies Δ > {settings.tail:g} above its cohort by {which}: nothing could "
            f"have shown (the largest is {float(delta.max()):.3g}; --tail sets the threshold)"
        )
        for model in tables.models:
            yield not_testable(NAME, tables.benchmark, model, reason)
        return
    rows = [tables.models.index(name) for name in settings.baselines if name in tables.models]
    for row, model in enumerate(tables.models):
        others = [index for index in rows if index != row]
        rate = float(tails[row].mean())
        interval = cluster_rate_interval(tails[row].astype(float), clusters)
        test = _against(tails, row, others, clusters, settings) if others else None
        flagged = rate > settings.flag
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="questions",
            statistic=("largest Δ", float(delta[row].max())),
            effect=(f"share of items with Δ > {settings.tail:g}", rate, interval),
            error=(interval.high - interval.low) / 3.92,
            p=test.p if test else None,
            n=len(clusters),
            clusters=len(set(clusters)),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            direction=(
                direction_of(test.p, test.statistic) if test else "seen" if flagged else "none"
            ),
            details={
                "score": which,
                "cohort": tables.models,
                "baselines": list(settings.baselines),
                "flagged": flagged,
                **quantiles(delta[row]),
                "p_tied": test.p_tied if test else None,
            },
        )


def quantiles(delta: Floats) -> dict[str, float]:
    """The published summary of one cell's Δ."""
    return {
        "delta_median": float(np.median(delta)),
        "delta_q95": float(np.quantile(delta, 0.95)),
        "delta_q99": float(np.quantile(delta, 0.99)),
        "delta_q999": float(np.quantile(delta, 0.999)),
        "delta_max": float(delta.max()),
        "pr_delta_gt_50": float((delta > HALF).mean()),
        "pr_delta_gt_100": float((delta > 100.0).mean()),
        "frac_positive": float((delta > 0).mean()),
    }


def _against(
    tails: NDArray[np.bool_],
    row: int,
    baselines: list[int],
    clusters: list[str],
    settings: DetectSettings,
) -> Permuted:
    """Model and baseline change places cluster by cluster, if neither has seen anything."""
    difference = tails[row].astype(np.float64) - tails[baselines].mean(axis=0)
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(clusters))
    sums = np.bincount(codes, weights=difference)
    return flip_test(sums, permutations=settings.permutations, seed=settings.seed)


DETECTOR = Detector(
    NAME,
    "cohort",
    "items far above the cohort's median",
    find,
    requires=frozenset({Need.COHORT}),
    controls=("tail of the baseline", "cohort"),
)
