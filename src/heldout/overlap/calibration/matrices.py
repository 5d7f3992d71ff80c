"""Benchmarks × corpora: how much of each was found, by registration's word and by similarity's.

*Same image* and *transformed copy* are what registration (or equality) proved. *Hard* and *soft* are
the degrees of the published tables: similarity alone, of the encoder that is named in the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from heldout.overlap.relations import Relation
from heldout.stats.intervals import binomial_interval, cluster_rate_interval

# Each ladder adds up: a picture counts once, under its strongest word.
_RELATION: dict[str, int] = {Relation.TRANSFORMED_COPY: 1, Relation.SAME_IMAGE: 2}
_DEGREE = {"soft": 1, "hard": 2}
_KINDS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    (Relation.SAME_IMAGE, "relation", (2,)),
    (Relation.TRANSFORMED_COPY, "relation", (1,)),
    ("copy", "relation", (1, 2)),
    ("hard", "degree", (2,)),
    ("soft", "degree", (1,)),
    ("hard or soft", "degree", (1, 2)),
)
KINDS = tuple(kind for kind, _, _ in _KINDS)
_SCHEMA = {
    "benchmark": pl.String,
    "corpus": pl.String,
    "scope": pl.String,
    "encoder": pl.String,
    "unit": pl.String,
    "kind": pl.String,
    "leaked": pl.Int64,
    "n": pl.Int64,
    "rate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "interval": pl.String,
}


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """The tables of one run: a benchmark and the corpora it was compared with."""

    benchmark: str
    items: pl.DataFrame
    matches: pl.DataFrame
    corpora: Sequence[str]  # all that were scanned: without matches a cell is 0, not missing
    encoder: str = ""  # whose neighbours were looked at; "" where only equal pictures were


def leakage_matrix(
    runs: Sequence[Audited],
    *,
    datasets: Mapping[str, str] | None = None,
    methods: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row per benchmark, corpus, unit and kind; pairs nobody scanned have no row.

    ``datasets`` maps names of benchmarks and corpora to the data set they are a split of: a cell of
    one data set is *intra*, any other *inter*. ``methods`` keeps only matches of these methods.
    """
    family = datasets or {}
    rows: list[dict[str, Any]] = []
    for run in runs:
        pictures = _pictures(run.items)
        for corpus in run.corpora:
            kept = run.matches.filter(pl.col("corpus") == corpus)
            if methods is not None:
                kept = kept.filter(pl.col("method").is_in(list(methods)))
            same = family.get(run.benchmark, run.benchmark) == family.get(corpus, corpus)
            cell = {
                "benchmark": run.benchmark,
                "corpus": corpus,
                "scope": "intra" if same else "inter",
                "encoder": run.encoder,
            }
            rows += [{**cell, **rate} for rate in _rates(pictures, kept)]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _pictures(items: pl.DataFrame) -> pl.DataFrame:
    """One row per place where an image that can be compared is shown."""
    return (
        items.select("benchmark_id", "cluster", pl.col("image_digests").alias("picture"))
        .with_columns(pl.int_ranges(pl.col("picture").list.len()).cast(pl.List(pl.Int32)).alias("image_index"))
        .explode("picture", "image_index")
        .filter(pl.col("picture").is_not_null() & (pl.col("picture") != ""))
    )  # fmt: skip


def _rates(pictures: pl.DataFrame, matches: pl.DataFrame) -> Iterator[dict[str, Any]]:
    ladders = {
        "relation": _strength("relation", _RELATION),
        "degree": _strength("degree", _DEGREE),
    }
    best = matches.group_by("benchmark_id", "image_index").agg(*ladders.values())
    shown = pictures.join(best, on=["benchmark_id", "image_index"], how="left").with_columns(
        pl.col(list(ladders)).fill_null(0)
    )
    # A picture is what it shows: the same pixels under two questions leaked or did not, once.
    images = shown.group_by("picture").agg(pl.col(list(ladders)).max())
    questions = shown.group_by("benchmark_id", maintain_order=True).agg(
        pl.col(list(ladders)).max(), pl.col("cluster").first()
    )
    clusters = questions["cluster"].to_list()
    for kind, ladder, strengths in _KINDS:
        leaked, n = int(images[ladder].is_in(strengths).sum()), len(images)
        low, high, _, method = binomial_interval(leaked, n)
        yield _row("images", kind, leaked, n, low, high, method)
        hits = questions[ladder].is_in(strengths)
        low, high, _, method = (
            cluster_rate_interval(hits.to_numpy(), clusters)
            if len(hits)
            else binomial_interval(0, 0)
        )
        yield _row("questions", kind, int(hits.sum()), len(hits), low, high, method)


def _strength(column: str, ranks: Mapping[str, int]) -> pl.Expr:
    ranked = pl.col(column).replace_strict(ranks, default=0, return_dtype=pl.Int32)
    return ranked.max().alias(column)


def _row(
    unit: str, kind: str, leaked: int, n: int, low: float, high: float, method: str
) -> dict[str, Any]:
    return {
        "unit": unit,
        "kind": kind,
        "leaked": leaked,
        "n": n,
        "rate": leaked / n if n else None,
        "low": low,
        "high": high,
        "interval": method,
    }
