"""top-k overlap: do two models find the same items easiest, more often than chance?

Chance is K²/N for independent rankings of unrelated items, and a hypergeometric tail. Items of one
image are easy together, so the finding's p permutes one model's clusters among clusters of equal size. Neither
accounts for items that are easy for every model, or for all models of one lineage: a claim asks
for pairs of baselines of other lineages that overlap less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from heldout.detect.detector import Detector
from heldout.detect.finding import Outcome, around, direction_of, model_finding, not_testable
from heldout.detect.item_scores import SMALLEST, cohort_delta, cohort_scores
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import Design, deal, equal_sizes, product_design, staged

NAME = "top-k-overlap"
BLIND_TO = [
    "items that are easy for every model, seen or not: compare the same pair with a baseline",
    "what was seen beyond the top K",
]


class Overlap(NamedTuple):
    intersection: int
    union: int
    jaccard: float
    expected: float  # K²/N
    lift: float
    p: float  # hypergeometric, P(at least this many)


def overlap_of(first: Collection[str], second: Collection[str], n: int) -> Overlap:
    """Two sets of top items of a benchmark with ``n`` items."""
    a, b = set(first), set(second)
    both, union = len(a & b), len(a | b)
    expected = len(a) * len(b) / n
    jaccard = both / union if union else 0.0
    return Overlap(
        both,
        union,
        jaccard,
        expected,
        both / expected if expected else 0.0,
        hypergeometric_tail(both, len(a), len(b), n),
    )


def hypergeometric_tail(least: int, first: int, second: int, n: int) -> float:
    """P(X ≥ least) for the overlap of random sets of the two sizes among n."""
    if least <= max(0, first + second - n):
        return 1.0
    k = np.arange(least, min(first, second) + 1, dtype=np.float64)
    if not len(k):
        return 0.0
    log = _choose(first, k) + _choose(n - first, second - k) - _choose(n, np.float64(second))
    return float(min(1.0, np.exp(special.logsumexp(log))))


def top_items(ids: list[str], scores: Floats, k: int) -> list[str]:
    """The k highest; equal scores by id, so that the order of the table decides nothing."""
    return [ids[i] for i in sorted(range(len(ids)), key=lambda i: (-scores[i], ids[i]))[:k]]


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    models = tables.models
    cohort = cohort_scores(tables, settings)
    needed = SMALLEST if settings.rank_by == "delta" else 2
    if isinstance(cohort, str) or len(models) < needed:
        reason = cohort if isinstance(cohort, str) else f"needs {needed} models"
        for model in models:
            yield not_testable(NAME, tables.benchmark, model, reason)
        return
    ids, clusters, scores, which = cohort
    if settings.rank_by == "delta":
        scores = cohort_delta(scores)
    k = min(settings.top, len(ids))
    tops = [top_items(ids, row, k) for row in scores]
    shuffle = deal(equal_sizes(clusters))
    for a, b in combinations(range(len(models)), 2):
        overlap = overlap_of(tops[a], tops[b], len(ids))
        marks = [np.isin(ids, top).astype(np.float64) for top in (tops[a], tops[b])]
        test = staged(
            overlap.intersection - overlap.expected,
            _beyond(product_design(marks[0], marks[1], shuffle), overlap.expected),
            permutations=settings.permutations,
            seed=settings.seed,
        )
        gain = (overlap.intersection - overlap.expected) / k
        yield model_finding(
            NAME,
            tables.benchmark,
            f"{models[a]} & {models[b]}",
            unit="questions",
            statistic=("items in both top sets", float(overlap.intersection)),
            effect=(
                "overlap above chance, share of K",
                gain,
                around(
                    gain,
                    test.spread / k,
                    "permutation standard error",
                    (-overlap.expected / k, 1 - overlap.expected / k),
                ),
            ),
            error=test.spread / k,
            p=test.p,
            n=len(ids),
            clusters=len(set(clusters)),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            direction=direction_of(test.p, gain),
            details={
                "k": k,
                "ranked_by": which if settings.rank_by == "score" else f"Δ of {which}",
                **overlap._asdict(),
                "p_hypergeometric": overlap.p,
                "p_greater": test.p_greater,
                "p_tied": test.p_tied,
                "permutations": test.evaluated,
                "least_p": test.least,
                "models": [models[a], models[b]],
            },
        )


def _beyond(products: Design, expected: float) -> Design:
    return lambda count, rng: products(count, rng) - expected


def _choose(n: float, k: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


DETECTOR = Detector(
    NAME,
    "cohort",
    "do two models find the same items easiest?",
    find,
    of="pair",
    controls=("pairs with the baseline", "shared difficulty"),
)
