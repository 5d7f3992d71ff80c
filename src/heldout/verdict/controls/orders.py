"""Order ablations: trends in other orders of the same clusters, and what remains in the released one.

The published audit's names where the sort is its own (``by_mink_pp``). Clusters stay whole in every order.
Three readings; none of them is a proof by itself:
- a sort that fires says the score follows that covariate, which any model's does;
- the released order *after* taking out the covariates is the control: what is left is not explained by them;
- a content hash is a random order. Every signal vanishes there, memory and structure alike.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

import numpy as np

from heldout.detect import (
    MIN_K_PLUS_PLUS,
    DetectSettings,
    Floats,
    ModelScores,
    ScoreTables,
    covariate,
    metadata_fields,
    strata,
)
from heldout.errors import percent
from heldout.stats import (
    Trend,
    aligned_ranks,
    block_means,
    order_grouping,
    shuffle_test,
    trend_test,
)

RELEASE, SHUFFLES = "release", "cluster_shuffles"
ANSWER, QUESTION = "by_answer_len", "by_question_len"
MIN_K, LOGPROB, HASH = "by_mink_pp", "by_logprob", "by_content_hash"
NOTES = {
    HASH: "a hash order is a random order: every signal vanishes there, and that proves nothing",
    LOGPROB: "sorted by what is tested: it fires by construction",
    MIN_K: "sorted by another score of the same tokens: it fires as far as the two agree, seen or not",
}


class OrderResult(NamedTuple):
    """``rho`` > 0: earlier clusters of this order have higher scores; sorts go from low to high."""

    order: str
    rho: (
        float | None
    )  # None where the key of the sort was not recorded: the note says what is missing
    p: float | None
    note: str  # what keeps this order from meaning anything, empty if nothing does


def ablate_orders(
    tables: ScoreTables, model: str, settings: DetectSettings, *, shuffles: int = 20
) -> list[OrderResult]:
    """The trend under the released order and under others that keep clusters whole."""
    scored = tables.scored(model)
    ranks = aligned_ranks(scored.means, strata(scored.frame, settings.strata))
    means, _ = block_means(ranks, scored.clusters)
    if len(means) < 4:
        return []
    keys = {name: block_means(values, scored.clusters)[0] for name, values in _keys(scored).items()}
    orders: dict[str, Floats] = {RELEASE: np.arange(len(means), dtype=np.float64), **keys}
    hardest = MIN_K_PLUS_PLUS.score(tables, scored, settings)
    if not isinstance(hardest, str):
        orders[MIN_K] = block_means(hardest, scored.clusters)[0]
    orders[LOGPROB] = means
    orders[HASH] = _hashes(scored)
    order_results = [_ordered(name, key, means, settings) for name, key in orders.items()]
    if isinstance(hardest, str):
        order_results.append(OrderResult(MIN_K, None, None, f"not sorted: {hardest}"))
    rng = np.random.default_rng(settings.seed)
    random = [
        _sorted(rng.permutation(len(means)).astype(float), means, settings)[1]
        for _ in range(shuffles)
    ]
    fired = float(np.mean(np.less_equal(random, 0.05)))
    note = f"median of {shuffles} shuffles of whole clusters, of which {percent(fired, 0)} fire"
    order_results.append(OrderResult(SHUFFLES, 0.0, float(np.median(random)), note))
    return order_results


def adjusted_trend(tables: ScoreTables, model: str, settings: DetectSettings) -> Trend | None:
    """The released order's trend once answer length and question length are regressed out."""
    scored = tables.scored(model)
    ranks = aligned_ranks(scored.means, strata(scored.frame, settings.strata))
    columns = [np.ones(len(ranks)), *(aligned_ranks(key) for key in _keys(scored).values())]
    design = np.stack(columns, axis=1)
    fitted = design @ np.linalg.lstsq(design, ranks, rcond=None)[0]
    return trend_test(
        ranks - fitted, scored.clusters, permutations=settings.permutations, seed=settings.seed
    )


def _ordered(name: str, key: Floats, means: Floats, settings: DetectSettings) -> OrderResult:
    note = NOTES.get(name, "")
    if float(np.ptp(key)) < 1e-12:
        note = "this key never varies: a stable sort by it is the released order"
        key = np.arange(len(means), dtype=np.float64)
    return OrderResult(name, *_sorted(key, means, settings), note)


def _sorted(key: Floats, means: Floats, settings: DetectSettings) -> tuple[float, float]:
    """Correlation with earliness once sorted by ``key``, and its p."""
    order = np.argsort(key, kind="stable")
    places = np.linspace(1.0, -1.0, len(means))
    test = shuffle_test(
        means[order], places, permutations=min(settings.permutations, 10_000), seed=settings.seed
    )
    scale = float(np.linalg.norm(means - means.mean()) * np.linalg.norm(places))
    return test.statistic / scale if scale else 0.0, test.p


def _keys(scored: ModelScores) -> dict[str, Floats]:
    frame = scored.frame
    return {
        ANSWER: np.asarray([len(text or "") for text in frame["answer"]], dtype=np.float64),
        QUESTION: np.asarray([len(text or "") for text in frame["question"]], dtype=np.float64),
    }


def _hashes(scored: ModelScores) -> Floats:
    """A number per cluster from the content of its items, in the order of block_means."""
    content: dict[str, str] = {}
    for cluster, question, answer in zip(
        scored.clusters, scored.frame["question"], scored.frame["answer"], strict=True
    ):
        content[cluster] = content.get(cluster, cluster) + f"\n{question}\n{answer}"
    numbers = {
        name: int(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12], 16)
        for name, text in content.items()
    }
    values = np.asarray([numbers[name] for name in scored.clusters], dtype=np.float64)
    return block_means(values, scored.clusters)[0]


# Structure of the release: is a trend along the order still there within what the order is grouped by?
#
# Benchmarks are released in runs: radiographs first, MRI later. A model that is better at one of them
# shows a trend without having seen anything, and a baseline that is not as good at it does not. Every
# metadata field that is grouped along the order is tried as a stratum; a trend that is gone within one of
# them is that field's.


MOST_LEVELS = 12  # finer fields leave too few items in a stratum to see anything within
GROUPED = 0.01


class FieldTrend(NamedTuple):
    """The released order's trend within the strata of one metadata field."""

    field: str
    levels: int
    rho: float
    p: float


def trend_within_fields(
    tables: ScoreTables, model: str, settings: DetectSettings
) -> list[FieldTrend]:
    scored = tables.scored(model)
    withins = []
    for field, levels in grouped_fields(scored, settings).items():
        labels = strata(scored.frame, tuple(dict.fromkeys((*settings.strata, field))))
        trend = trend_test(
            scored.means,
            scored.clusters,
            labels,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if trend is not None:
            withins.append(FieldTrend(field, levels, trend.rho, trend.test.p))
    return withins


def grouped_fields(scored: ModelScores, settings: DetectSettings) -> dict[str, int]:
    """Metadata fields with a few values that neighbouring clusters share more often than by chance."""
    frame = scored.frame
    grouped = {}
    for name in metadata_fields(frame):
        if name in settings.strata:
            continue
        values = covariate(frame, name)
        levels = len(set(values))
        if not 2 <= levels <= MOST_LEVELS:
            continue
        per_cluster: dict[str, Counter[str]] = {}
        for cluster, value in zip(scored.clusters, values, strict=True):
            per_cluster.setdefault(cluster, Counter())[value] += 1
        # A cluster's most common value; equal counts by name, so that row order decides nothing.
        labels = [
            min(c.items(), key=lambda pair: (-pair[1], pair[0]))[0] for c in per_cluster.values()
        ]
        if order_grouping(labels, seed=settings.seed).p <= GROUPED:
            grouped[name] = levels
    return grouped
