"""Benchmarks × corpora: how much of each leaked, hard and soft, per image and per question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from heldout.stats.intervals import binomial_interval, cluster_rate_interval

_RANK = {"none": 0, "soft": 1, "hard": 2}
# Soft is soft *and not* hard, as in the published tables, so that the two add up.
_DEGREES = {"hard": (2,), "soft": (1,), "hard or soft": (1, 2)}
_SCHEMA = {
    "benchmark": pl.String,
    "corpus": pl.String,
    "scope": pl.String,
    "unit": pl.String,
    "degree": pl.String,
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


def leakage_matrix(
    runs: Sequence[Audited],
    *,
    datasets: Mapping[str, str] | None = None,
    methods: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row per benchmark, corpus, unit and degree; pairs nobody scanned have no row.

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
    strength = pl.col("degree").replace_strict(_RANK, default=0, return_dtype=pl.Int32)
    best = matches.group_by("benchmark_id", "image_index").agg(strength.max().alias("strength"))
    shown = pictures.join(best, on=["benchmark_id", "image_index"], how="left").with_columns(
        pl.col("strength").fill_null(0)
    )
    # A picture is what it shows: the same pixels under two questions leaked or did not, once.
    images = shown.group_by("picture").agg(pl.col("strength").max())["strength"]
    questions = shown.group_by("benchmark_id", maintain_order=True).agg(
        pl.col("strength").max(), pl.col("cluster").first()
    )
    clusters = questions["cluster"].to_list()
    for degree, strengths in _DEGREES.items():
        leaked, n = int(images.is_in(strengths).sum()), len(images)
        low, high, _, method = binomial_interval(leaked, n)
        yield _row("images", degree, leaked, n, low, high, method)
        hits = questions["strength"].is_in(strengths)
        low, high, _, method = (
            cluster_rate_interval(hits.to_numpy(), clusters)
            if len(hits)
            else binomial_interval(0, 0)
        )
        yield _row("questions", degree, int(hits.sum()), len(hits), low, high, method)


def _row(
    unit: str, degree: str, leaked: int, n: int, low: float, high: float, method: str
) -> dict[str, Any]:
    return {
        "unit": unit,
        "degree": degree,
        "leaked": leaked,
        "n": n,
        "rate": leaked / n if n else None,
        "low": low,
        "high": high,
        "interval": method,
    }
