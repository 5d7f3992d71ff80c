"""text-overlap: how much of a benchmark's text is in a corpus, one finding per method.

The rate counts items with evidence, a match on a text that identifies its item, among the items the
method can test: those whose words would be evidence if the corpus held them. What the published
protocol reports (every pair above a threshold, whatever it says) stands beside it, in the details:
pairs, hit queries, hits per query, MaxSim and Overlap@τ, over all items with words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect.finding import Cell, Finding, rate_finding, rate_interval
from heldout.overlap import (
    ANOTHER,
    DOUBTFUL_REWORDING,
    NO_WORDS,
    SAME_ITEM,
    UNCOMPARED,
    beside,
    untestable_items,
)

NAME = "text-overlap"
TAUS = (0.80, 0.85, 0.88, 0.90, 0.95, 1.00)
_BINS = np.linspace(0.0, 1.0, 21)
_INSIDE = "texts inside longer ones"
_BLIND: Mapping[str, list[str]] = {
    "provenance": [
        "sources that are not named on both sides by a PMC id, DOI, URL or telling file name"
    ],
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
        "free rewordings, those of captions and programs inside longer texts, and those of short texts without their "
        "answer or picture",
        "translations, unless the encoder is multilingual",
    ],
}


def texts_missed(findings: Sequence[Finding]) -> list[str]:
    """What none of the methods behind these ``findings`` recognises: where one misses it, another may not."""
    methods = {finding.id.rsplit("/", 1)[-1] for finding in findings}
    longer = "texts of fewer than 8 words inside longer ones" if "ngram" in methods else _INSIDE
    if "embedding" in methods:
        return [*_BLIND["embedding"], longer]
    if "edit" in methods:
        return [
            "paraphrases, translations, re-ordered sentences",
            "small edits of texts of fewer than 20 or more than 2,000 characters",
            longer,
        ]
    method = next(m for m in ("ngram", "exact", "provenance") if m in methods or m == "provenance")
    return list(_BLIND[method])


def text_overlap(
    items: pl.DataFrame,
    matches: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    benchmark: str,
    corpus: str,
    documents: int,
    methods: Sequence[str],
    answered: bool = True,
) -> list[Finding]:
    """``items``, ``matches`` and ``queries`` are the run's tables items, text_matches, text_queries.

    ``answered`` says whether the corpus gives any question an answer: without one, a short question is never
    evidence, so it could not have been found.
    """
    matches = matches.filter(pl.col("corpus") == corpus)
    queries = queries.filter(pl.col("corpus") == corpus)
    by_words = [method for method in methods if method != "provenance"]
    untestable = untestable_items(items, queries, by_words, answered)
    # What was found counts as testable, whatever the rule says.
    evident = matches.filter((pl.col("degree") != "none") & (pl.col("method") != "provenance"))
    for method, identifier in evident.select("method", "benchmark_id").iter_rows():
        untestable.get(method, {}).pop(identifier, None)
    together = _together(items, evident, untestable)
    return [
        _finding(
            items,
            matches.filter(pl.col("method") == method),
            queries.filter(pl.col("method") == method),
            Cell(benchmark=benchmark, corpus=corpus),
            method,
            untestable.get(method, {}),  # ids are looked for in every item
            {"documents": documents, "all_methods": together},
        )
        for method in methods
    ]


def _together(
    items: pl.DataFrame, evident: pl.DataFrame, untestable: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Distinct items over all methods that compare words; inside a longer text only ngram looks."""
    everyone = items["benchmark_id"].to_list()
    inside = untestable.get("ngram", dict.fromkeys(everyone, ""))
    reasons: dict[str, str] = {}
    for identifier in everyone:
        if all(identifier in method for method in untestable.values()):
            reasons[identifier] = next(
                (method[identifier] for method in untestable.values()), "not compared"
            )
    worded = sum(reason != NO_WORDS for reason in (reasons.get(item, "") for item in everyone))
    return {
        "items": worded,
        "eligible": len(everyone) - len(reasons),
        "eligible_inside_longer_texts": sum(item not in inside for item in everyone),
        "untestable": _counted(reasons),
        "evident": evident["benchmark_id"].n_unique(),
        "hard": _hard(evident),
        "judged": _hard(evident) - _hard(evident.filter(~_by_people)),
        **_beside(evident),
        "possible_rewordings": _possible_rewordings(evident),
    }


def _possible_rewordings(evident: pl.DataFrame) -> int:
    """Items with nothing but questions beside copies of their pictures that may be theirs in other words."""
    doubted = pl.col("evidence").str.json_path_match(f"$.reading.{DOUBTFUL_REWORDING}") == "true"
    sure = evident.filter(~doubted.fill_null(False))["benchmark_id"]
    rest = evident.filter(~pl.col("benchmark_id").is_in(sure.implode()))
    return rest.filter(pl.col("answer_relation") == "same")["benchmark_id"].n_unique()


def _beside(evident: pl.DataFrame) -> dict[str, int]:
    """Items whose question and answer are in the corpus, but only beside another or an unknown picture."""
    whole = evident.filter(pl.col("relation") == SAME_ITEM)
    hard = whole.filter(pl.col("degree") == "hard")["benchmark_id"]
    rest = whole.filter(~pl.col("benchmark_id").is_in(hard.implode()))
    unknown = rest.filter(beside(UNCOMPARED))["benchmark_id"]
    other = rest.filter(beside(ANOTHER) & ~pl.col("benchmark_id").is_in(unknown.implode()))
    return {
        "pictures_not_compared": unknown.n_unique(),
        "beside_another_picture": other["benchmark_id"].n_unique(),
    }


# Rows decided by people's judgement.
_by_people = (pl.col("evidence").str.json_path_match("$.people.tool") != SAME_ITEM).fill_null(False)


def _hard(evident: pl.DataFrame) -> int:
    """Items of which question and answer are in the corpus; a question alone may be asked by anyone."""
    whole = (pl.col("degree") == "hard") & (pl.col("relation") == SAME_ITEM)
    return evident.filter(whole)["benchmark_id"].n_unique()


def _counted(reasons: Mapping[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(reasons.values()).items()))


def _finding(
    items: pl.DataFrame,
    matches: pl.DataFrame,
    queries: pl.DataFrame,
    cell: Cell,
    method: str,
    untestable: Mapping[str, str],
    common: Mapping[str, Any],
) -> Finding:
    tested = items.filter(~pl.col("benchmark_id").is_in(list(untestable)))
    wordless = [identifier for identifier, reason in untestable.items() if reason == NO_WORDS]
    worded = items.filter(~pl.col("benchmark_id").is_in(wordless))
    evident = matches.filter(pl.col("degree") != "none")
    leaked = set(evident["benchmark_id"])
    return rate_finding(
        [float(item in leaked) for item in tested["benchmark_id"]],
        tested["cluster"].to_list(),
        statistic="items with evidence",
        effect="rate of items with evidence",
        id=f"{NAME}/{cell.corpus}/{method}",
        detector=NAME,
        cell=cell,
        unit="items",
        blind_to=list(_BLIND[method]),
        table="text_matches",
        details={
            **common,
            "eligible": len(tested),
            "untestable": _counted(untestable),
            "hard": _hard(evident),
            "by_relation": _items_by(matches, "relation"),
            "by_answer_relation": _items_by(evident, "answer_relation"),
            "published": _published(worded, queries),
        },
    )


def _published(worded: pl.DataFrame, queries: pl.DataFrame) -> dict[str, Any]:
    """The fields of Appendix F: all pairs count, also those on common or short texts."""
    by_item = {
        str(identifier): (int(pairs), float(best))
        for identifier, pairs, best in queries.select(
            "benchmark_id", "pairs", "max_similarity"
        ).iter_rows()
    }
    per_item = [by_item.get(item, (0, 0.0)) for item in worded["benchmark_id"]]
    pairs = np.asarray([count for count, _ in per_item], np.int64)
    best = np.asarray([similarity for _, similarity in per_item], np.float64)
    hit = pairs > 0
    clusters = worded["cluster"].to_list()
    rate = float(hit.mean()) if len(hit) else 0.0
    interval = rate_interval(hit.astype(float).tolist(), clusters)
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


def _items_by(matches: pl.DataFrame, column: str) -> dict[str, int]:
    counted = matches.group_by(column).agg(pl.col("benchmark_id").n_unique()).sort(column)
    return {str(key): count for key, count in counted.iter_rows()}
