"""Rules about closed questions: what somebody who never looks at the picture can score.

Items that share an image are not independent, so every interval and test here is by cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.example import normal
from heldout.stats import cluster_mean_test, cluster_rate_interval

_ALPHA = 0.01  # several rules run on every benchmark; at .05 each, one in three would cry wolf
_FEWEST = 20


def choice_rules(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _letters(benchmark)
    yield from _longest(benchmark)
    yield from _majority(benchmark)


def _letters(benchmark: Benchmark) -> Iterator[Problem]:
    """Is one position right more often than chance allows? Each item counts its own options."""
    chosen = [
        (example.id, cluster, len(example.options), example.answer_index)
        for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
        if example.answer_index is not None
    ]
    if len(chosen) < _FEWEST:
        return
    clusters = [cluster for _, cluster, _, _ in chosen]
    positions = max(n for _, _, n, _ in chosen)
    best: tuple[float, int, list[float], list[float]] | None = None
    for position in range(positions):
        hits = [float(index == position) for _, _, _, index in chosen]
        chances = [1.0 / n if position < n else 0.0 for _, _, n, _ in chosen]
        test = cluster_mean_test(np.subtract(hits, chances), clusters)
        if test.t > 0 and (best is None or test.p < best[0]):
            best = test.p, position, hits, chances
    if best is None:
        return
    p = min(1.0, best[0] * positions)  # the best of several positions was looked for
    letter = chr(ord("A") + best[1])
    yield from _baseline(
        "answer-letter-imbalance",
        f"always answering {letter}",
        "shuffle the options, or report accuracy over all rotations (CircularEval)",
        [identifier for identifier, _, _, _ in chosen],
        clusters,
        best[2],
        best[3],
        p,
    )


def _longest(benchmark: Benchmark) -> Iterator[Problem]:
    """Does the longest option give the key away?"""
    ids, clusters, hits, chances = [], [], [], []
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        lengths = [len(option) for option in example.options]
        if example.answer_index is None or lengths.count(max(lengths)) != 1:
            continue
        ids.append(example.id)
        clusters.append(cluster)
        hits.append(float(lengths[example.answer_index] == max(lengths)))
        chances.append(1.0 / len(lengths))
    if len(ids) < _FEWEST or np.mean(hits) <= np.mean(chances):
        return
    yield from _baseline(
        "longest-option",
        "always choosing the longest option",
        "write distractors as long as the key; report this baseline beside every score",
        ids,
        clusters,
        hits,
        chances,
        cluster_mean_test(np.subtract(hits, chances), clusters).p,
    )


def _majority(benchmark: Benchmark) -> Iterator[Problem]:
    """What the commoner of yes and no alone scores on yes/no questions."""
    closed = [
        (example.id, cluster, normal(example.answer))
        for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
        if not example.options and normal(example.answer) in ("yes", "no")
    ]
    if len(closed) < _FEWEST:
        return
    answer = Counter(answer for _, _, answer in closed).most_common(1)[0][0]
    hits = [float(given == answer) for _, _, given in closed]
    clusters = [cluster for _, cluster, _ in closed]
    yield from _baseline(
        "yes-no-imbalance",
        f"always answering '{answer}'",
        "report this baseline beside the score on closed questions",
        [identifier for identifier, _, _ in closed],
        clusters,
        hits,
        [0.5] * len(hits),
        cluster_mean_test(np.subtract(hits, 0.5), clusters).p,
    )


def _baseline(
    rule: str,
    what: str,
    advice: str,
    ids: Sequence[str],
    clusters: Sequence[str],
    hits: Sequence[float],
    chances: Sequence[float],
    p: float,
) -> Iterator[Problem]:
    if p >= _ALPHA:
        return
    interval = cluster_rate_interval(hits, clusters)
    yield problem(
        rule,
        "note" if rule == "yes-no-imbalance" else "warning",
        f"{what} scores {np.mean(hits):.1%} [{interval.low:.1%}, {interval.high:.1%}] on "
        f"{len(ids):,} items; chance is {np.mean(chances):.1%} (p = {p:.2g}, by cluster)",
        advice,
        [identifier for identifier, hit in zip(ids, hits, strict=True) if hit],
        len(ids),
    )
