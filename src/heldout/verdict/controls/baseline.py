"""External baselines: is the effect larger than in a model that cannot have seen the benchmark?

Never "the baseline has p > .05": a baseline that just misses is not clean. The difference itself is
tested, on the same items, shards or clusters, with the test the finding came from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from heldout.detect import (
    MEMBERSHIP,
    Finding,
    Floats,
    ScoreTables,
    Settings,
    around,
    order_joint,
    order_neighbour,
    order_trend,
    strata,
    tail_enrichment,
    top_k_overlap,
    unseen_items,
)
from heldout.stats import (
    Interval,
    aligned_ranks,
    cluster_contrast,
    cluster_mean,
    flip_test,
    group_test,
    trend_test,
)


class Difference(NamedTuple):
    """Effect in the model less effect in the baseline; ``p`` two-sided."""

    model: str
    baseline: str
    value: float
    interval: Interval
    p: float
    what: str


def against_baseline(
    tables: ScoreTables, finding: Finding, baseline: str, settings: Settings
) -> Difference | str:
    """The difference in differences for one finding, or the reason why there is none."""
    model = finding.cell.model or ""
    if baseline == model:
        return "this is the baseline itself"
    unlike = tables.comparable(model, baseline)
    if unlike is not None:
        return unlike
    if finding.detector == order_trend.NAME:
        return _trend(tables, model, baseline, settings)
    if finding.detector == order_joint.NAME:
        return _joint(tables, model, baseline, settings)
    if finding.detector == order_neighbour.NAME:
        return _neighbour(tables, model, baseline, settings)
    if finding.detector in {item_detector.name for item_detector in MEMBERSHIP}:
        return _membership(tables, finding.detector, model, baseline, settings)
    if finding.detector == tail_enrichment.NAME:
        return "its p-value is already the comparison with the baselines"
    if finding.detector == top_k_overlap.NAME:
        return "compared pair by pair: see the pairs that hold the baseline"
    return f"{finding.detector} has no comparison with a baseline"


def _trend(tables: ScoreTables, model: str, baseline: str, settings: Settings) -> Difference | str:
    mine, theirs = tables.common([model, baseline])
    labels = strata(mine.frame, settings.strata)
    gap = aligned_ranks(mine.means, labels) - aligned_ranks(theirs.means, labels)
    trend = trend_test(gap, mine.clusters, permutations=settings.permutations, seed=settings.seed)
    if trend is None:
        return "too few clusters in common"
    interval = around(trend.rho, trend.error, "permutation standard error")
    what = "rank correlation with earliness of the rank difference"
    return Difference(model, baseline, trend.rho, interval, trend.test.p, what)


def _joint(tables: ScoreTables, model: str, baseline: str, settings: Settings) -> Difference | str:
    recorded = tables.order_joint
    if recorded is None:
        return "no table order_joint"
    gains = []
    for name in (model, baseline):
        shards = order_joint.joint_shards(recorded, name)
        gains.append(order_joint.shard_gains(shards) if shards else np.empty(0))
    if len(gains[0]) != len(gains[1]) or len(gains[0]) < 5:
        return "the baseline was not scored on the same shards (at least 5 are needed)"
    names = [str(index) for index in range(len(gains[0]))]
    return _paired(gains[0] - gains[1], names, model, baseline, settings, "nats per shard")


def _neighbour(
    tables: ScoreTables, model: str, baseline: str, settings: Settings
) -> Difference | str:
    if tables.order_neighbour is None:
        return "no table order_neighbour"
    mine, theirs = (
        order_neighbour.neighbour_gains(tables, name).select("benchmark_id", "cluster", "gain")
        for name in (model, baseline)
    )
    both = mine.join(theirs, on="benchmark_id", suffix="_baseline")
    if both["cluster"].n_unique() < order_neighbour.FEW:
        return "the baseline was not scored on the same items"
    gap = (both["gain"] - both["gain_baseline"]).to_numpy()
    clusters: list[str] = both["cluster"].to_list()
    return _paired(gap, clusters, model, baseline, settings, "nats per item")


def _paired(
    gap: Floats, clusters: list[str], model: str, baseline: str, settings: Settings, unit: str
) -> Difference:
    mean, _, interval = cluster_mean(gap, clusters)
    sums = pl.DataFrame({"cluster": clusters, "gap": gap}).group_by("cluster", maintain_order=True)
    test = flip_test(
        sums.agg(pl.col("gap").sum())["gap"].to_numpy(),
        permutations=settings.permutations,
        seed=settings.seed,
    )
    return Difference(model, baseline, mean, interval, test.p, f"gain above the baseline's, {unit}")


def _membership(
    tables: ScoreTables, detector: str, model: str, baseline: str, settings: Settings
) -> Difference | str:
    """Both models' scores in units of their own spread: a gain is no memory."""
    if settings.unseen is None:
        return "no items are known to be unseen"
    score = next(
        item_detector.score for item_detector in MEMBERSHIP if item_detector.name == detector
    )
    cells = tables.common([model, baseline])
    values = [score(tables, cell, settings) for cell in cells]
    known = [_standard(value) for value in values if not isinstance(value, str)]
    if len(known) < 2:
        return next(value for value in values if isinstance(value, str))
    gap, suspects = known[0] - known[1], ~unseen_items(cells[0], settings)
    contrast = cluster_contrast(gap, suspects, cells[0].clusters, seed=settings.seed)
    tested = group_test(
        gap,
        suspects,
        cells[0].clusters,
        strata(cells[0].frame, settings.strata),
        permutations=settings.permutations,
        seed=settings.seed,
    )
    if contrast is None or tested is None:
        return "too few clusters in common"
    what = "suspect less unseen items, model less baseline, in standard deviations"
    return Difference(model, baseline, contrast.value, contrast.interval, tested.test.p, what)


def _standard(values: Floats) -> Floats:
    spread = float(values.std())
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0), dtype=np.float64)
