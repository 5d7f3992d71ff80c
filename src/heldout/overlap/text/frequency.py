"""What the whole corpus says about a question, once every shard is read: is it asked of everything?"""

from __future__ import annotations

import polars as pl

OTHERWISE = 2  # corpus items that answer a question otherwise, from which on it is a common one


def common_questions(queries: pl.DataFrame) -> pl.DataFrame:
    """(benchmark_id, corpus) of items whose exact question the corpus answers otherwise, and more often.

    A copy of the item gives its own answer. A question that the corpus answers "yes" here and "no"
    there is asked of many pictures, and finding it says nothing about this one.
    """
    exact = queries.filter(pl.col("method") == "exact")
    counted = exact.group_by("benchmark_id", "corpus", maintain_order=True).agg(
        pl.col("same_answer").sum(), pl.col("other_answer").sum()
    )
    other = pl.col("other_answer")
    common = (other >= OTHERWISE) & (other > pl.col("same_answer"))
    return counted.filter(common).select("benchmark_id", "corpus")


def settle_degrees(matches: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """``matches`` of all shards, those on a common question lowered to degree none.

    Ids say where an item comes from, whatever is asked about it: they keep their degree.
    """
    common = common_questions(queries).with_columns(pl.lit(True).alias("common"))
    joined = matches.join(common, on=["benchmark_id", "corpus"], how="left", maintain_order="left")
    lowered = pl.col("common").fill_null(False) & (pl.col("method") != "provenance")
    degree = pl.when(lowered).then(pl.lit("none")).otherwise(pl.col("degree"))
    return joined.with_columns(degree.alias("degree")).drop("common")
