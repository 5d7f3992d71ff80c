"""order-neighbour: is an item likelier after its released predecessor than after another of its block?

Cheaper than order-joint: two or a few short forwards per item. Where the predecessor shares the item's
image, so must the alternatives (scoring draws them from the same block), or the test would find images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from heldout.detect.detector import (
    GAIN,
    Detector,
    Difference,
    Need,
    model_rows,
    paired_difference,
    text_tokens,
)
from heldout.detect.finding import Outcome, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables
from heldout.errors import InputError
from heldout.model import AFTER_RELEASED
from heldout.stats import cluster_mean, flip_test

NAME = "order-neighbour"
RELEASED = AFTER_RELEASED
FEW = 6  # clusters: fewer have no sign pattern rare enough
BLIND_TO = ["memory without order (items seen shuffled)", "memory across blocks"]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    recorded = tables.order_neighbour
    for model in tables.models:
        gains = None if recorded is None else neighbour_gains(tables, model)
        if gains is None or gains.is_empty():
            reason = "no table order_neighbour for this model: score it with neighbouring contexts"
            yield not_testable(NAME, tables.benchmark, model, reason)
            continue
        names, values = gains["cluster"].to_list(), gains["gain"].to_numpy()
        sums = gains.group_by("cluster", maintain_order=True).agg(pl.col("gain").sum())["gain"]
        if len(sums) < FEW:
            reason = (
                f"{len(sums)} clusters have a predecessor to compare; at least {FEW} are needed"
            )
            yield not_testable(NAME, tables.benchmark, model, reason)
            continue
        test = flip_test(sums.to_numpy(), permutations=settings.permutations, seed=settings.seed)
        mean, error, interval = cluster_mean(values, names)
        yield model_finding(
            NAME,
            tables.benchmark,
            model,
            unit="questions",
            statistic=("summed gain in nats", test.statistic),
            effect=("gain after the released predecessor, nats per item", mean, interval),
            error=error,
            p=test.p,
            n=len(values),
            clusters=len(sums),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="order_neighbour",
            details={
                "p_greater": test.p_greater,
                "p_tied": test.p_tied,
                "permutations": test.evaluated,
                "least_p": test.least,
                "alternatives_per_item": float(np.mean(gains["alternatives"].to_numpy())),
            },
        )


def neighbour_gains(tables: ScoreTables, model: str) -> pl.DataFrame:
    """Per item log p(released predecessor) less the mean over its alternatives, in released order."""
    recorded = tables.order_neighbour
    assert recorded is not None
    mine = recorded.filter(pl.col("model") == model)
    if mine.select("benchmark_id", "condition").n_unique() < len(mine):
        raise InputError(
            f"order_neighbour has an item and condition of {model} twice: score it again"
        )
    if not mine["logprob"].is_finite().all():
        raise InputError(
            f"order_neighbour holds NaN or infinite values for {model}: score it again"
        )
    released = pl.col("condition") == RELEASED
    sides = mine.group_by("benchmark_id").agg(
        pl.col("logprob").filter(released).first().alias("after_released"),
        pl.col("logprob").filter(~released).mean().alias("after_others"),
        (~released).sum().alias("alternatives"),
    )
    return (
        tables.items.select("benchmark_id", "position", "cluster")
        .join(sides, on="benchmark_id")
        .with_columns((pl.col("after_released") - pl.col("after_others")).alias("gain"))
        .filter(pl.col("gain").is_not_null())
        .sort("position")
    )


def against(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """Both models' gains, item by item."""
    return _difference(tables, model, baseline, settings, "gain")


def skill(
    tables: ScoreTables, model: str, baseline: str, settings: DetectSettings
) -> Difference | str:
    """How much likelier items are to it after others: who reads better also makes more of a neighbour."""
    what = "items after others likelier than to the baseline"
    return _difference(tables, model, baseline, settings, "after_others", what)


def _difference(
    tables: ScoreTables,
    model: str,
    baseline: str,
    settings: DetectSettings,
    column: str,
    what: str = GAIN,
) -> Difference | str:
    """By item the model's value less the baseline's."""
    if tables.order_neighbour is None:
        return "no table order_neighbour"
    mine, theirs = (
        neighbour_gains(tables, name).select("benchmark_id", "cluster", value=column)
        for name in (model, baseline)
    )
    both = mine.join(theirs, on="benchmark_id", suffix="_baseline")
    if both["cluster"].n_unique() < FEW:
        return "the baseline was not scored on the same items"
    gap = (both["value"] - both["value_baseline"]).to_numpy()
    clusters: list[str] = both["cluster"].to_list()
    return paired_difference(gap, clusters, model, baseline, settings, "nats per item", what)


def cost(tables: ScoreTables, model: str, recorded: Mapping[str, Any] | None) -> int | None:
    """Without a count an item is taken to be as long as its question without the picture."""
    rows = model_rows(tables.order_neighbour, model)
    if rows is None:
        return None
    if recorded is not None:
        return int(recorded["order_neighbour"])
    return round(2 * text_tokens(tables, model) / len(tables.items) * len(rows))


DETECTOR = Detector(
    NAME,
    "order",
    "is an item likelier after its released predecessor than after another?",
    find,
    table="order_neighbour",
    requires=frozenset({Need.DOCUMENTS}),
    # As in order-joint: neighbours of one topic help any model that uses its context.
    controls=("external baseline", "spread of clean models", "skill of the references"),
    against=against,
    skill=skill,
    cost=cost,
)
