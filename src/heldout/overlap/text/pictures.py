"""The same words beside another picture: what the image scan says of a text match.

Questions of one kind of benchmark are made from templates, and the same words with the same answer
stand beside many pictures. Where the corpus item shows a picture of its own, and the image scan did not
find it to be the item's, its words are worth a degree less than words that stand alone. Where one of the
two pictures could not be compared nobody knows which it is, so that equal words prove nothing, either.
"""

from __future__ import annotations

import json

import polars as pl

from heldout.overlap.relations import POSSIBLE_COPIES

BESIDE = "beside"  # in the evidence of a pair whose corpus item has a picture, not known to be the item's
ANOTHER, UNCOMPARED = "another picture", "pictures that could not be compared"
_LOWER = {"hard": "soft", "soft": "none"}
_PAIR = ["benchmark_id", "corpus", "corpus_id"]


def settle_pictures(
    text_matches: pl.DataFrame,
    matches: pl.DataFrame,
    items: pl.DataFrame,
    unread: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """``text_matches`` with the degree of words beside another picture lowered by one, and ``BESIDE`` said.

    ``unread``: (corpus, corpus_id) of items whose picture could not be read; without it, what the
    evidence says of that already.
    """
    own = _marked(matches.filter(pl.col("relation").is_in(POSSIBLE_COPIES)).select(_PAIR), "own")
    digests = pl.col("image_digests")
    shown = items.select(
        "benchmark_id",
        (digests.list.len() > 0).alias("named"),
        digests.list.eval(pl.element() != "").list.all().alias("whole"),
    )
    known = text_matches.select("corpus", "corpus_id").filter(_said(UNCOMPARED, text_matches))
    lost = _marked(known if unread is None else unread, "lost")
    joined = (
        text_matches.join(own, on=_PAIR, how="left", maintain_order="left")
        .join(lost, on=_PAIR[1:], how="left", maintain_order="left")
        .join(shown, on="benchmark_id", how="left", maintain_order="left")
        .with_columns(pl.col("own", "lost", "named", "whole").fill_null(False))
    )
    pictured = pl.col("evidence").str.json_path_match("$.pictured") == "true"
    words = pl.col("method") != "provenance"
    beside = pictured & pl.col("named") & ~pl.col("own") & words
    uncompared = beside & (pl.col("lost") | ~pl.col("whole"))
    degree = (
        pl.when(uncompared)
        .then(pl.col("degree").replace({"hard": "soft"}))
        .when(beside)
        .then(pl.col("degree").replace(_LOWER))
        .otherwise(pl.col("degree"))
    )
    series = joined.select(
        pl.when(uncompared)
        .then(pl.lit(UNCOMPARED))
        .when(beside)
        .then(pl.lit(ANOTHER))
        .alias("told")
    )["told"]
    evidence = [
        json.dumps({**json.loads(text), BESIDE: word}, ensure_ascii=False) if word else text
        for text, word in zip(joined["evidence"], series, strict=True)
    ]
    return joined.with_columns(
        degree.alias("degree"), pl.Series("evidence", evidence, pl.String)
    ).drop("own", "lost", "named", "whole")


def beside(word: str) -> pl.Expr:
    """Rows of text_matches whose words stand beside such pictures: ANOTHER or UNCOMPARED."""
    return (pl.col("evidence").str.json_path_match(f"$.{BESIDE}") == word).fill_null(False)


def _said(word: str, rows: pl.DataFrame) -> pl.Series:
    return rows.select(beside(word).alias("said"))["said"]


def _marked(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.unique().with_columns(pl.lit(True).alias(name))
