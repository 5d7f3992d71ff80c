"""What a detector costs: the tokens one model has to read for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from heldout.detect.behaviour.circular import is_rotation
from heldout.detect.tables import ScoreTables

#: in a model's part of the manifest: tokens read for its scores, by table
RECORDED = "forward_tokens"


def forward_tokens(
    tables: ScoreTables, detector: str, model: str, recorded: Mapping[str, Any] | None = None
) -> int | None:
    """What one model has to read for a detector; None where its answers were not recorded.

    Answers know their prompts' tokens. Those of scores and order tests are ``recorded`` by whoever made
    them; without, a scored item is taken to be as long as the same question asked with its picture, an
    item of an order test as long as the question without it.
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
    if detector == "order-joint":
        return _joint(tables, model, recorded)
    if detector == "order-neighbour":
        return _neighbour(tables, model, recorded)
    if recorded is not None:
        return int(recorded["scores"])
    return int(mine.filter(pl.col("variant") == "original").select(read.sum()).item())


def recorded_tokens(manifest: Mapping[str, Any], model: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = manifest.get("models", {}).get(model, {}).get(RECORDED)
    return found


def _joint(tables: ScoreTables, model: str, recorded: Mapping[str, Any] | None) -> int | None:
    rows = _rows(tables.order_joint, model)
    if rows is None:
        return None
    if recorded is not None:
        shards = recorded["order_joint"]  # of one reading; an order changes no length
        return sum(int(shards[str(shard)]) for shard in rows["shard"])
    return round(_words(tables, model) * len(rows) / rows["shard"].n_unique())


def _neighbour(tables: ScoreTables, model: str, recorded: Mapping[str, Any] | None) -> int | None:
    rows = _rows(tables.order_neighbour, model)
    if rows is None:
        return None
    if recorded is not None:
        return int(recorded["order_neighbour"])
    return round(2 * _words(tables, model) / len(tables.items) * len(rows))


def _rows(table: pl.DataFrame | None, model: str) -> pl.DataFrame | None:
    rows = None if table is None else table.filter(pl.col("model") == model)
    return None if rows is None or rows.is_empty() else rows


def _words(tables: ScoreTables, model: str) -> int:
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
    if detector == "slot-guess":
        return sorted(name for name in names if name.startswith("slot"))
    if detector in ("option-order", "circular"):
        return ["original", *sorted(name for name in names if is_rotation(name))]
    return None
