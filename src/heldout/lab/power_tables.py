"""Which of a run's tables a detector is given: some models, leaked pictures marked, fewer shuffles."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace

import polars as pl

from heldout.detect.order_joint import CANONICAL
from heldout.detect.tables import ScoreTables

MARK = ("seen_by_the_split", "no")  # what --unseen would say: items of pictures that did not leak


def narrowed(tables: ScoreTables, models: Collection[str]) -> ScoreTables:
    """The same run as if only these models had been scored and asked."""
    wanted = pl.col("model").is_in(list(models))

    def kept(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        return None if frame is None else frame.filter(wanted)

    return replace(
        tables,
        scores=tables.scores.filter(wanted),
        order_joint=kept(tables.order_joint),
        order_neighbour=kept(tables.order_neighbour),
        answers=kept(tables.answers),
    )


def marked(tables: ScoreTables, leaked: Collection[int]) -> ScoreTables:
    """Every item says whether its picture is among those that leaked; pictures count in released order."""
    clusters = list(dict.fromkeys(tables.items["cluster"]))
    seen = {clusters[place] for place in leaked if place < len(clusters)}
    metadata = [
        json.dumps({**json.loads(text or "{}"), MARK[0]: "yes" if cluster in seen else MARK[1]})
        for text, cluster in zip(tables.items["metadata"], tables.items["cluster"], strict=True)
    ]
    return replace(tables, items=tables.items.with_columns(pl.Series("metadata", metadata)))


def fewer_shuffles(tables: ScoreTables, most: int) -> ScoreTables:
    """order-joint as if it had been given a smaller budget: the first shuffles of every shard."""
    if tables.order_joint is None:
        return tables
    number = pl.col("permutation").cast(pl.Int64, strict=False)
    kept = tables.order_joint.filter((pl.col("permutation") == CANONICAL) | (number < most))
    return replace(tables, order_joint=kept)
