"""Triple hits: the picture is flagged, the score lies in the model's tail, and the answer is right.

Easy items are answered right and score high in every model, so three independent marks would be the wrong
null: what is asked is whether *high score and right answer* meet flagged pictures more often than other
pictures. Whole clusters are exchanged with others of their size. It describes, item by item; a baseline
that has the hits as well explains them, and no claim rests on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect.behaviour.probe import ORIGINAL, asked
from heldout.detect.item_scores import LOSS, MIN_K_PLUS_PLUS
from heldout.detect.settings import ALPHA, DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables
from heldout.overlap import ALPHAS
from heldout.stats import cluster_rate_interval, holm, meeting_test
from heldout.store import make_table

Marks = NDArray[np.bool_]
NEAR, COPY = "near", "copy"  # a picture above τ(α); a picture of which a copy was proven
RIGHT, LEAKED, ANY = "answered right", "answer in the corpus", "any answer"
LISTED = 50  # ids in detections.json; the table has them all


@dataclass(frozen=True)
class TripleHits:
    """One model, corpus and α. ``expected`` is what chance gives, 95 % of its draws in the range."""

    model: str
    corpus: str
    encoder: str | None  # None where the flag is a proven copy
    flag: str
    answer: str
    alpha: float
    n: int
    clusters: int
    flagged: int
    in_tail: int
    answered: int
    hits: int
    low: float  # 95 % interval of the hits, by cluster
    high: float
    expected: float
    expected_low: float
    expected_high: float
    p: float | None
    p_adjusted: float | None
    smallest_p: float  # that these numbers of marks could give
    score: str
    baseline: bool
    ids: tuple[str, ...]

    @property
    def reading(self) -> str:
        """Against chance, corrected for every row of the table."""
        if self.p_adjusted is None:
            return "not testable" if self.p is None else "too few items to tell"
        if self.p_adjusted > ALPHA:
            return "not distinguishable from chance"
        return "more than chance" if self.hits > self.expected else "fewer than chance"

    def as_json(self) -> dict[str, Any]:
        """``ids`` are the first fifty; the table ``triple_hits`` has them all."""
        return {**self.__dict__, "ids": list(self.ids[:LISTED]), "reading": self.reading}


class _PictureFlags(NamedTuple):
    corpus: str
    encoder: str | None
    flag: str
    alpha: float
    ids: frozenset[str]
    similarity: Mapping[str, float]


def triple_hits(
    tables: ScoreTables, settings: DetectSettings
) -> tuple[list[TripleHits], pl.DataFrame]:
    """Every model, corpus and α that both sides resolve; and the items, each at its smallest α."""
    flags = list(_flags(tables))
    hits, rows = [], []
    for model in tables.models if flags else []:
        scored = tables.scored(model)
        scores = MIN_K_PLUS_PLUS.score(tables, scored, settings)
        which = MIN_K_PLUS_PLUS.name
        if isinstance(scores, str):
            scores, which = scored.means, LOSS.name
        ids = scored.frame["benchmark_id"].to_list()
        for flag in flags:
            tail = highest(scores, flag.alpha)
            if not tail.any():
                continue  # α of so few items is less than one
            marked = np.fromiter((name in flag.ids for name in ids), bool, len(ids))
            for answer, good, known in _answers(tables, model, flag.corpus, ids):
                of = ModelScores(model, scored.frame.filter(known))
                marks = marked[known], tail[known], good[known]
                row = _hits(flag, answer, of, *marks, which, settings)
                hits.append(row)
                value = dict(zip(ids, scores.tolist(), strict=True))
                rows += [_row(row, name, flag, value[name]) for name in row.ids]
    return _adjusted(hits), _smallest(rows)


def highest(scores: Floats, alpha: float) -> Marks:
    """At most a share α of the items: those above the next one, so that ties never make it more."""
    count = int(alpha * len(scores) + 1e-9)
    if not count:
        return np.zeros(len(scores), dtype=bool)
    return np.asarray(scores > np.sort(scores)[len(scores) - count - 1], dtype=bool)


def _flags(tables: ScoreTables) -> Iterator[_PictureFlags]:
    columns = tables.items.select("benchmark_id", "image_digests") if tables.calibrations else None
    shown = list(columns.iter_rows()) if columns is not None else []
    for calibration in tables.calibrations:
        nearest = dict(
            zip(calibration.benchmark.pictures, calibration.benchmark.similarities, strict=True)
        )
        near = {
            name: float(max(nearest[digest] for digest in digests if digest in nearest))
            for name, digests in shown
            if any(digest in nearest for digest in digests or ())
        }
        for point in calibration.sweep.points:
            tau = point.threshold
            above = frozenset(name for name, value in near.items() if value > tau.value)
            yield _PictureFlags(
                calibration.corpus, calibration.encoder, NEAR, tau.alpha, above, near
            )
    for corpus, leaked in tables.leaked.items():
        for alpha in ALPHAS:
            yield _PictureFlags(corpus, None, COPY, alpha, leaked, {})


def _answers(
    tables: ScoreTables, model: str, corpus: str, ids: Sequence[str]
) -> list[tuple[str, Marks, Marks]]:
    """Which answers count, and of which items that is known.

    The model's own right ones; those that stand in the corpus beside their picture; without both, all.
    """
    answers = []
    every = np.ones(len(ids), dtype=bool)

    def among(names: Collection[str]) -> Marks:
        return np.fromiter((name in names for name in ids), bool, len(ids))

    if model in tables.answering:
        own = asked(tables, model, lambda variant: variant == ORIGINAL)
        mean = own.group_by("benchmark_id").agg(pl.col("right").mean())
        right = set(mean.filter(pl.col("right") > 0.5)["benchmark_id"])
        answers.append((RIGHT, among(right), among(set(mean["benchmark_id"]))))
    if leaked := tables.answered.get(corpus):
        answers.append((LEAKED, among(leaked), every))
    return answers or [(ANY, every, every)]


def _hits(
    flags: _PictureFlags,
    answer: str,
    scored: ModelScores,
    marked: Marks,
    tail: Marks,
    good: Marks,
    which: str,
    settings: DetectSettings,
) -> TripleHits:
    both = tail & good
    hit = marked & both
    clusters, n = scored.clusters, len(scored)
    met = meeting_test(
        marked, both, clusters, permutations=settings.permutations, seed=settings.seed
    )
    interval = cluster_rate_interval(hit, clusters)
    # at most as many hits as either side has
    possible = float(min(int(marked.sum()), int(both.sum())))
    ids = [scored.frame["benchmark_id"][int(place)] for place in np.flatnonzero(hit)]
    return TripleHits(
        model=scored.model,
        corpus=flags.corpus,
        encoder=flags.encoder,
        flag=flags.flag,
        answer=answer,
        alpha=flags.alpha,
        n=n,
        clusters=len(set(clusters)),
        flagged=int(marked.sum()),
        in_tail=int(tail.sum()),
        answered=int(good.sum()),
        hits=int(hit.sum()),
        low=interval.low * n,
        high=min(interval.high * n, possible),
        expected=met.expected,
        expected_low=met.low,
        expected_high=met.high,
        p=None if met.test is None else met.test.p,
        p_adjusted=None,
        smallest_p=met.smallest_p,
        score=which,
        baseline=scored.model in settings.baselines,
        ids=tuple(ids),
    )


def _adjusted(hits: Sequence[TripleHits]) -> list[TripleHits]:
    """Holm over the table: every α is a look, except where no outcome could have been significant."""
    tested = {
        n: hit.p for n, hit in enumerate(hits) if hit.p is not None and hit.smallest_p <= ALPHA
    }
    adjusted = dict(zip(tested, holm(list(tested.values())) if tested else (), strict=True))
    return [replace(hit, p_adjusted=adjusted.get(n)) for n, hit in enumerate(hits)]


def _row(hits: TripleHits, name: str, flags: _PictureFlags, score: float) -> dict[str, Any]:
    return {
        "benchmark_id": name,
        "model": hits.model,
        "corpus": hits.corpus,
        "encoder": hits.encoder,
        "flag": hits.flag,
        "answer": hits.answer,
        "alpha": hits.alpha,
        "similarity": flags.similarity.get(name),
        "score": score,
    }


def _smallest(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Sets grow with α: each item is listed once, at the smallest α."""
    key = ["model", "corpus", "encoder", "flag", "answer"]
    return (
        pl.DataFrame(make_table("triple_hits", rows))
        .sort("alpha", maintain_order=True)
        .unique([*key, "benchmark_id"], keep="first", maintain_order=True)
        .sort([*key, "alpha"], maintain_order=True)
    )
