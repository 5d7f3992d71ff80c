"""Join the shards' text tables: per item and method the best pairs and the sums, whatever the corpus.

Shards are folded in one after the other, so memory is that of the benchmark, not of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from heldout.overlap.text.ledger import LISTED
from heldout.overlap.text.normalise import settle_degrees
from heldout.store import SCHEMAS, Run, Stage, empty_table

_GROUP = ("benchmark_id", "corpus", "method")
_ROWS = 200_000  # of new rows, after which the folded table is made small again
_DEGREES = {"hard": 2, "soft": 1, "none": 0}


def collect_text(run: Run, stages: Sequence[Stage], *, nearest: int) -> None:
    """Write the tables text_matches and text_queries of ``run`` from the shards of ``stages``."""
    queries = _fold(stages, "text_queries", _summed)
    # Each shard gave its own nearest; of the whole corpus an item has no more than one would give.
    capped = pl.when(pl.col("method") == "embedding").then(pl.min_horizontal("pairs", nearest))
    queries = queries.with_columns(capped.otherwise(pl.col("pairs")).alias("pairs"))
    matches = _fold(stages, "text_matches", lambda table: _best(table, nearest))
    run.write_table("text_queries", _arrow(queries, "text_queries"))
    run.write_table("text_matches", _arrow(settle_degrees(matches, queries), "text_matches"))
    for stage in stages:
        stage.sweep()


def _summed(table: pl.DataFrame) -> pl.DataFrame:
    best = pl.col("corpus_id").get(pl.col("max_similarity").arg_max())
    return table.group_by(*_GROUP, maintain_order=True).agg(
        pl.col("pairs", "same_answer", "other_answer").sum(), pl.col("max_similarity").max(), best
    )


def _best(table: pl.DataFrame, nearest: int) -> pl.DataFrame:
    """The pairs of every item and method that are worth most, in the order they came."""
    degree = pl.col("degree").replace_strict(_DEGREES, return_dtype=pl.Int8)
    same = pl.col("answer_relation") == "same"
    by_similarity = (
        pl.col("method") == "embedding"
    )  # its nearest are its nearest, whatever they say
    rank = (
        pl.struct(
            pl.when(by_similarity).then(0).otherwise(degree).alias("degree"),
            pl.when(by_similarity).then(False).otherwise(same).alias("same"),
            pl.col("similarity"),
        )
        .rank("ordinal", descending=True)
        .over(_GROUP)
    )
    most = pl.when(by_similarity).then(nearest).otherwise(LISTED)
    return table.filter(rank <= most)


def _fold(
    stages: Sequence[Stage], name: str, reduce: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    columns = SCHEMAS[name].names
    folded = pl.DataFrame(empty_table(name))
    waiting: list[pl.DataFrame] = []
    for part in _parts(stages, name):
        waiting.append(pl.read_parquet(part).select(columns))
        if sum(len(table) for table in waiting) >= _ROWS:
            folded, waiting = reduce(pl.concat([folded, *waiting])).select(columns), []
    return reduce(pl.concat([folded, *waiting])).select(columns)


def _parts(stages: Sequence[Stage], name: str) -> Iterator[Path]:
    for stage in stages:
        yield from stage.parts(name)


def _arrow(frame: pl.DataFrame, name: str) -> pa.Table:
    return frame.to_arrow().cast(SCHEMAS[name])
