"""Which of a run's tables a detector is given: some models, leaked pictures marked, fewer shuffles."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace

import polars as pl

from heldout.detect.behaviour.circular import is_rotation
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


def forward_tokens(tables: ScoreTables, detector: str, model: str) -> int | None:
    """What one model has to read for a detector; None where its answers were not recorded.

    Answers know their prompts' tokens. Scores do not: a scored item is taken to be as long as the same
    question asked with its picture, an item of an order test as long as the question without it.
    """
    if tables.answers is None:
        return None
    mine = tables.answers.filter(pl.col("model") == model)
    if mine.is_empty():
        return None
    read = pl.col("prompt_tokens") + pl.col("reply_tokens")
    variants = _variants(detector, mine)
    if variants is not None:
        asked = mine.filter(pl.col("variant").is_in(variants))
        extra = [name for name in variants if name != "original"]
        both = asked.filter(pl.col("variant").is_in(extra))["benchmark_id"].unique()
        return int(
            asked.filter(pl.col("benchmark_id").is_in(both.to_list())).select(read.sum()).item()
        )
    if detector in ("order-joint", "order-neighbour"):
        words = text_tokens(tables, model)
        table = tables.order_joint if detector == "order-joint" else tables.order_neighbour
        rows = None if table is None else table.filter(pl.col("model") == model)
        if rows is None or rows.is_empty():
            return None
        if detector == "order-joint":
            return round(words * len(rows) / rows["shard"].n_unique())
        return round(2 * words / len(tables.items) * len(rows))
    return int(mine.filter(pl.col("variant") == "original").select(read.sum()).item())


def text_tokens(tables: ScoreTables, model: str) -> int:
    """Tokens of all questions and answers once, without pictures."""
    assert tables.answers is not None
    blind = (pl.col("model") == model) & (pl.col("variant") == "no-image")
    read = pl.col("prompt_tokens") + pl.col("reply_tokens")
    return int(tables.answers.filter(blind).select(read.sum()).item())


def _variants(detector: str, mine: pl.DataFrame) -> list[str] | None:
    names = mine["variant"].unique().to_list()
    if detector == "twin-drop":
        return ["original", "twin"]
    if detector == "choice-confusion":
        return ["original", "confused-choices"]
    if detector == "multimodal-leakage":
        return ["no-image"]
    if detector in ("option-order", "circular"):
        return ["original", *sorted(name for name in names if is_rotation(name))]
    return None
