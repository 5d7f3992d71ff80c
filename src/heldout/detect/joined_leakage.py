"""joined-leakage: what of each item leaked into a corpus, picture and words taken together.

A picture without its question changes little; a question without its picture may change nothing; all
three together hand the answer over. One row per item and corpus says which it is, one finding per
corpus counts them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.detect.image_overlap import COPIES
from heldout.stats import binomial_interval, cluster_rate_interval

NAME = "joined-leakage"
FULL, IMAGE_AND_QUESTION = "full", "image and question"
IMAGE_ONLY, TEXT_ONLY, SOURCE_ONLY = "image only", "text only", "source only"
#: from the gravest down
MODALITIES = (FULL, IMAGE_AND_QUESTION, IMAGE_ONLY, TEXT_ONLY, SOURCE_ONLY)
LISTED = 50  # items named in a finding; the table leaks has them all

_QUESTION_RELATIONS = ("same item", "same question", "edited")


def leaks(matches: pl.DataFrame, text_matches: pl.DataFrame) -> pl.DataFrame:
    """The table ``leaks``: benchmark_id, corpus, modality, label_relation and how many corpus items.

    A common question is no evidence by itself, but it is the same question where the picture is the
    same, too: so words beside a copied picture count whatever their degree.
    """
    copies = matches.filter(pl.col("relation").is_in(COPIES))
    keys = ["benchmark_id", "corpus"]
    pairs = [*keys, "corpus_id"]
    beside = text_matches.filter(
        pl.col("relation").is_in(_QUESTION_RELATIONS) & (pl.col("method") != "provenance")
    ).select(*pairs, (pl.col("answer_relation") == "same").alias("answered"))
    words = beside.group_by(pairs).agg(pl.col("answered").any())
    pictured = (
        copies.join(words, on=pairs, how="left")
        .with_columns(
            pl.when((pl.col("modality") == FULL) | pl.col("answered").fill_null(False))
            .then(pl.lit(0))
            .when((pl.col("modality") == IMAGE_AND_QUESTION) | pl.col("answered").is_not_null())
            .then(pl.lit(1))
            .otherwise(pl.lit(2))
            .alias("rank")
        )
        .group_by(keys)
        .agg(
            pl.col("rank").min(),
            _label(pl.col("label_relation")).alias("label_relation"),
            pl.col("corpus_id").n_unique().alias("image_hits"),
        )
    )
    told = text_matches.filter((pl.col("degree") != "none") & (pl.col("method") != "provenance"))
    texts = told.group_by(keys).agg(
        pl.col("corpus_id").n_unique().alias("text_hits"),
        _label(pl.col("answer_relation")).alias("text_label"),
    )
    sources = (
        text_matches.filter(pl.col("method") == "provenance")
        .group_by(keys)
        .agg(pl.col("corpus_id").n_unique().alias("source_hits"))
    )
    joined = pictured.join(texts, on=keys, how="full", coalesce=True).join(
        sources, on=keys, how="full", coalesce=True
    )
    hits = pl.col("image_hits", "text_hits", "source_hits").fill_null(0).cast(pl.Int64)
    rank = (
        pl.when(pl.col("rank").is_not_null())
        .then(pl.col("rank"))
        .when(pl.col("text_hits").is_not_null())
        .then(pl.lit(3))
        .otherwise(pl.lit(4))
    )
    return joined.select(
        *keys,
        rank.replace_strict(dict(enumerate(MODALITIES)), return_dtype=pl.String).alias("modality"),
        pl.coalesce("label_relation", "text_label", pl.lit("unknown")).alias("label_relation"),
        hits,
    ).sort("corpus", "benchmark_id")


def _label(relation: pl.Expr) -> pl.Expr:
    """same, different, or conflicting where copies of one item say both."""
    same, different = (relation == "same").any(), (relation == "different").any()
    return (
        pl.when(same & different)
        .then(pl.lit("conflicting"))
        .when(same)
        .then(pl.lit("same"))
        .when(different)
        .then(pl.lit("different"))
        .otherwise(pl.lit("unknown"))
    )


def joined_leakage(
    items: pl.DataFrame, leaked: pl.DataFrame, *, benchmark: str, corpus: str
) -> Finding:
    """``leaked`` is the table ``leaks``; items known by their source alone do not count as leaked."""
    here = leaked.filter(pl.col("corpus") == corpus)
    counted = set(here.filter(pl.col("modality") != SOURCE_ONLY)["benchmark_id"])
    clusters = items["cluster"].to_list()
    hit = [float(one in counted) for one in items["benchmark_id"]]
    found, n, groups = int(sum(hit)), len(hit), len(set(clusters))
    interval = binomial_interval(found, n) if groups == n else cluster_rate_interval(hit, clusters)
    return Finding(
        id=f"{NAME}/{corpus}",
        detector=NAME,
        cell=Cell(benchmark=benchmark, corpus=corpus),
        unit="items",
        statistic=Statistic(name="leaked items", value=found),
        effect=Effect.of("leak rate per item, by picture or words", found / n if n else 0.0, interval),
        p=None,
        direction="seen" if found else "none",
        n=n,
        clusters=groups,
        minimum_detectable_effect=float(1.0 - 0.05 ** (1.0 / groups)) if groups else 1.0,
        blind_to=["what neither the image search nor the text search can see"],
        seed=None,
        table="leaks",
        details={
            "by_modality": {one: _count(here, "modality", one) for one in MODALITIES},
            "by_label_relation": {
                one: _count(here, "label_relation", one)
                for one in ("same", "different", "conflicting", "unknown")
            },
            **_several(here),
        },
    )  # fmt: skip


def _several(here: pl.DataFrame) -> dict[str, Any]:
    """Items that more than one thing points at: the ones to look at first."""
    triple = here.filter(pl.col("modality") == FULL)["benchmark_id"].to_list()
    total = pl.col("image_hits") + pl.col("text_hits") + pl.col("source_hits")
    many = here.filter((pl.col("image_hits") > 1) | (pl.col("text_hits") > 1)).sort(
        total, descending=True, maintain_order=True
    )
    return {
        "triple_hits": len(triple),  # picture, question and answer agree
        "triple_hit_items": triple[:LISTED],
        "multi_hits": len(many),  # in more than one corpus item
        "multi_hit_items": many["benchmark_id"].to_list()[:LISTED],
    }


def _count(table: pl.DataFrame, column: str, value: str) -> int:
    return int((table[column] == value).sum())
