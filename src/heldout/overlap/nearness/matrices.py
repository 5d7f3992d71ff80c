"""Benchmarks × corpora: how much of each was found, by registration's word and by similarity's.

*Same image* and *transformed copy* are what registration (or equality) proved. *Hard* and *soft* are
the degrees of the published tables: similarity alone, of the encoder that is named in the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from heldout.errors import InputError
from heldout.overlap.relations import Relation
from heldout.stats import binomial_interval, cluster_rate_interval

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
class MatrixRun:
    """The tables of one run: a benchmark and the corpora it was compared with."""

    benchmark: str
    items: pl.DataFrame
    matches: pl.DataFrame
    corpora: Sequence[str]  # all that were scanned: without matches a cell is 0, not missing
    encoder: str = ""  # whose neighbours were looked at; "" where only equal pictures were


def leakage_matrix(
    runs: Sequence[MatrixRun],
    *,
    datasets: Mapping[str, str] | None = None,
    methods: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row per benchmark, corpus, unit and kind; pairs that were not scanned have no row.

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
        .with_columns(
            pl.int_ranges(pl.col("picture").list.len()).cast(pl.List(pl.Int32)).alias("image_index")
        )
        .explode("picture", "image_index")
        .filter(pl.col("picture").is_not_null() & (pl.col("picture") != ""))
    )


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


# Hubs: corpus items that are the nearest neighbour of several distinct benchmark images.
#
# A copy is the neighbour of one picture. An item that attracts many is a typical view, not a leak, and
# a flag that rests on hubs shows a shared kind of picture.


@dataclass(frozen=True, slots=True)
class Hub:
    corpus_id: str
    images: tuple[str, ...]  # the benchmark images it is nearest to, the closest first
    count: int
    expected: float  # under random assignment, per corpus item
    p: float  # for this item
    p_adjusted: float  # for the most attractive of all corpus items (union bound)
    similarity: float  # the mean over its images


class HubReport(NamedTuple):
    images: int
    corpus_items: int
    attracting: int  # distinct corpus items that are anybody's nearest
    attracting_expected: float
    hubs: tuple[Hub, ...]
    share: float  # of benchmark images whose nearest neighbour is a hub


def hub_report(
    images: Sequence[str],
    neighbours: Sequence[str],
    similarities: ArrayLike,
    *,
    corpus_items: int,
    least: int = 2,
) -> HubReport:
    """``images`` names distinct pictures (digests); a picture shown by many questions counts once.

    The reference is every image choosing among all ``corpus_items`` alike. Give the number of items
    of the benchmark's own kind where that is known: among radiographs and cats, a radiograph is
    never the neighbour of a cat, and the whole corpus would make p too small.
    """
    values = np.asarray(similarities, dtype=np.float64)
    if not len(images) == len(neighbours) == len(values):
        raise InputError(
            f"hubs need one neighbour and one similarity per image, got {len(images)} images, "
            f"{len(neighbours)} neighbours and {len(values)} similarities"
        )
    attracted: dict[str, dict[str, float]] = defaultdict(dict)
    for image, neighbour, value in zip(images, neighbours, values, strict=True):
        attracted[neighbour].setdefault(image, float(value))
    n = len(set(images))
    if sum(map(len, attracted.values())) != n:
        raise InputError("an image has two nearest neighbours: pass each distinct image once")
    if corpus_items < len(attracted):
        raise InputError(
            f"{len(attracted):,} corpus items are neighbours, yet corpus_items is {corpus_items:,}"
        )
    hubs = [
        _hub(name, near, n, corpus_items) for name, near in attracted.items() if len(near) >= least
    ]
    hubs.sort(key=lambda hub: (-hub.count, -hub.similarity, hub.corpus_id))
    # One item is the neighbour of all others, and the logarithm of 0 would only warn.
    missed = np.exp(n * np.log1p(-1.0 / corpus_items)) if corpus_items > 1 else 0.0
    expected = corpus_items * float(1.0 - missed) if n else 0.0
    share = sum(hub.count for hub in hubs) / n if n else 0.0
    return HubReport(n, corpus_items, len(attracted), expected, tuple(hubs), share)


def _hub(name: str, near: dict[str, float], n: int, corpus_items: int) -> Hub:
    count = len(near)
    # P(Binomial(n, 1 / items) ≥ count), by the beta function: stable where it is tiny.
    p = float(special.betainc(count, n - count + 1, 1.0 / corpus_items))
    closest = tuple(sorted(near, key=lambda image: (-near[image], image)))
    mean = float(np.mean(list(near.values())))
    return Hub(name, closest, count, n / corpus_items, p, min(1.0, corpus_items * p), mean)
