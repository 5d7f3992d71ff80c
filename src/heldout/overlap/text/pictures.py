"""The same words beside another picture: what the image scan says of a text match.

Questions of one kind of benchmark are made from templates, and the same words with the same answer
stand beside many pictures. Where the corpus item shows a picture of its own, and the image scan did not
find it to be the item's, its words are worth a degree less than words that stand alone.
"""

from __future__ import annotations

import polars as pl

_LOWER = {"hard": "soft", "soft": "none"}
_PAIR = ["benchmark_id", "corpus", "corpus_id"]
# Pairs that are, or may be, the item's own picture.
_OWN = ("same image", "transformed copy", "undecided")


def settle_pictures(
    text_matches: pl.DataFrame, matches: pl.DataFrame, items: pl.DataFrame
) -> pl.DataFrame:
    """``text_matches`` with the degree of words beside another picture lowered by one."""
    own = (
        matches.filter(pl.col("relation").is_in(_OWN))
        .select(_PAIR)
        .unique()
        .with_columns(pl.lit(True).alias("own"))
    )
    shown = items.select(
        "benchmark_id",
        pl.col("image_digests").list.eval(pl.element() != "").list.any().alias("shown"),
    )
    joined = text_matches.join(own, on=_PAIR, how="left", maintain_order="left").join(
        shown, on="benchmark_id", how="left", maintain_order="left"
    )
    pictured = pl.col("evidence").str.json_path_match("$.pictured") == "true"
    another = pictured & pl.col("shown").fill_null(False) & ~pl.col("own").fill_null(False)
    degree = (
        pl.when(another & (pl.col("method") != "provenance"))
        .then(pl.col("degree").replace(_LOWER))
        .otherwise(pl.col("degree"))
    )
    return joined.with_columns(degree.alias("degree")).drop("own", "shown")
