"""text-overlap: how much of a benchmark's text is in a corpus, one finding per method.

The rate counts items with evidence: a match on a text that identifies its item. What the published
protocol reports (every pair above a threshold, whatever it says) stands beside it, in the details:
pairs, hit queries, hits per query, MaxSim and Overlap@τ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.stats import Interval, binomial_interval, cluster_rate_interval

NAME = "text-overlap"
TAUS = (0.80, 0.85, 0.88, 0.90, 0.95, 1.00)
_BINS = np.linspace(0.0, 1.0, 21)
_BLIND: Mapping[str, list[str]] = {
    "provenance": ["sources that are not named on both sides by a PMC id, DOI, URL or telling file name"],
    "exact": ["edited, translated or paraphrased texts"],
    "ngram": [
        "texts of fewer than 8 words",
        "edits that leave no run of 13 words whole, translations, paraphrases",
    ],
    "edit": [
        "texts of fewer than 20 or more than 2,000 characters",
        "paraphrases, translations, re-ordered sentences, texts inside longer ones",
    ],
    "embedding": [
        "paraphrases below the threshold, and all of texts shorter than 8 words",
        "translations, unless the encoder is multilingual",
        "texts inside longer ones",
    ],
}  # fmt: skip


def text_overlap(
    items: pl.DataFrame,
    matches: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    benchmark: str,
    corpus: str,
    documents: int,
    methods: Sequence[str],
) -> list[Finding]:
    """``items``, ``matches`` and ``queries`` are the run's tables items, text_matches, text_queries."""
    return [
        _finding(
            items,
            matches.filter((pl.col("corpus") == corpus) & (pl.col("method") == method)),
            queries.filter((pl.col("corpus") == corpus) & (pl.col("method") == method)),
            Cell(benchmark=benchmark, corpus=corpus),
            method,
            documents,
        )
        for method in methods
    ]


def _finding(
    items: pl.DataFrame,
    matches: pl.DataFrame,
    queries: pl.DataFrame,
    cell: Cell,
    method: str,
    documents: int,
) -> Finding:
    # An item without any text cannot leak by it; ids are looked for in every item.
    words = pl.col("question").fill_null("") + pl.col("answer").fill_null("")
    tested = items if method == "provenance" else items.filter(words.str.strip_chars() != "")
    clusters = tested["cluster"].to_list()
    evident = matches.filter(pl.col("degree") != "none")
    leaked = set(evident["benchmark_id"])
    hits = [float(one in leaked) for one in tested["benchmark_id"]]
    found, n, groups = int(sum(hits)), len(hits), len(set(clusters))
    return Finding(
        id=f"{NAME}/{cell.corpus}/{method}",
        detector=NAME,
        cell=cell,
        unit="items",
        statistic=Statistic(name="items with evidence", value=found),
        effect=Effect.of(
            "rate of items with evidence", found / n if n else 0.0, _interval(hits, clusters)
        ),
        p=None,
        direction="seen" if found else "none",
        n=n,
        clusters=groups,
        minimum_detectable_effect=float(1.0 - 0.05 ** (1.0 / groups)) if groups else 1.0,
        blind_to=list(_BLIND[method]),
        seed=None,
        table="text_matches",
        details={
            "documents": documents,
            "hard": evident.filter(pl.col("degree") == "hard")["benchmark_id"].n_unique(),
            "by_relation": _items_by(matches, "relation"),
            "by_answer_relation": _items_by(evident, "answer_relation"),
            "published": _published(tested, queries),
        },
    )


def _published(tested: pl.DataFrame, queries: pl.DataFrame) -> dict[str, Any]:
    """The fields of Appendix F: all pairs count, also those on common or short texts."""
    by_item = {
        str(one): (int(pairs), float(best))
        for one, pairs, best in queries.select(
            "benchmark_id", "pairs", "max_similarity"
        ).iter_rows()
    }
    per_item = [by_item.get(one, (0, 0.0)) for one in tested["benchmark_id"]]
    pairs = np.asarray([count for count, _ in per_item], np.int64)
    best = np.asarray([similarity for _, similarity in per_item], np.float64)
    hit = pairs > 0
    clusters = tested["cluster"].to_list()
    rate = float(hit.mean()) if len(hit) else 0.0
    interval = _interval(hit.astype(float).tolist(), clusters)
    return {
        "pairs": int(pairs.sum()),
        "hit_queries": int(hit.sum()),
        "queries": len(hit),
        "hit_rate": rate,
        "hit_rate_interval": list(interval[:2]),
        "interval_method": interval.method,
        "hits_per_query": _summary(pairs[hit].astype(np.float64)),
        "max_similarity": _summary(best),
        "max_similarity_of_hits": _summary(best[hit]),
        "overlap_at": {f"{tau:.2f}": int((best >= tau - 1e-6).sum()) for tau in TAUS},
        "histogram": {
            "edges": [round(float(edge), 2) for edge in _BINS],
            "items": np.histogram(np.clip(best, 0.0, 1.0), _BINS)[0].tolist(),
        },
    }


def _summary(values: NDArray[np.float64]) -> dict[str, float] | None:
    if not len(values):
        return None
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "p95": float(np.quantile(values, 0.95)),
        "max": float(values.max()),
    }


def _interval(hits: Sequence[float], clusters: Sequence[str]) -> Interval:
    if len(set(clusters)) == len(clusters):
        return binomial_interval(int(sum(hits)), len(hits))
    return cluster_rate_interval(hits, clusters)


def _items_by(matches: pl.DataFrame, column: str) -> dict[str, int]:
    counted = matches.group_by(column).agg(pl.col("benchmark_id").n_unique()).sort(column)
    return {str(key): count for key, count in counted.iter_rows()}
