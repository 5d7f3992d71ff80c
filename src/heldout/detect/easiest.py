"""The easiest items of every model by every score, with their ids: the members of tails and top sets.

An item that is easy for one model is often easy for all of them (a yes, a plane, an organ): each item says
in how many other models' top sets it stands, baselines by name. The lists describe; they are not evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from heldout.detect.item_scores import SMALLEST, cohort_delta, cohort_scores
from heldout.detect.registry import detectors
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.detect.top_k_overlap import top_items

EASIEST = 10  # of the top set, those that the report names with question and answer
_SHOWN = 400  # characters of a question or an answer


class EasyItem(NamedTuple):
    rank: int
    benchmark_id: str
    position: int  # in the released order
    cluster: str
    score: float
    delta: float | None  # above the median of the other models, by the cohort's score
    question: str
    answer: str
    also_in: list[str]  # other models whose top set by this score holds it


class TopItems(NamedTuple):
    """The K highest of one model by one score, highest first; equal scores by id."""

    model: str
    score: str  # a detector's name, or "Δ of" one: above the median of the other models
    k: int
    #: items tied with the last one that are not listed: which of the tied items are listed is arbitrary
    tied_out: int
    items: list[EasyItem]

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "items": [item._asdict() for item in self.items]}


def easiest_items(tables: ScoreTables, settings: DetectSettings) -> list[TopItems]:
    """Top ``settings.top`` items per model, for every item score that the model has, and for Δ."""
    deltas, named = _deltas(tables, settings)
    columns = [*_scores(tables, settings), *((model, named, d) for model, d in deltas.items())]
    tops = {
        (model, score): top_items(list(values), np.fromiter(values.values(), float), settings.top)
        for model, score, values in columns
        if values
    }
    frames = {model: _texts(tables, model) for model in tables.models}
    lists = []
    for model, score, values in columns:
        top = tops.get((model, score), [])
        if not top:
            continue
        items = []
        for rank, name in enumerate(top, start=1):
            position, cluster, question, answer = frames[model][name]
            also = [
                other
                for (other, kind), theirs in tops.items()
                if kind == score and other != model and name in theirs
            ]
            delta = deltas.get(model, {}).get(name)
            items.append(
                EasyItem(rank, name, position, cluster, values[name], delta, question, answer, also)
            )
        last = values[top[-1]]
        tied = sum(value == last for value in values.values())
        kept = sum(values[name] == last for name in top)
        lists.append(TopItems(model, score, len(top), tied - kept, items))
    return lists


def _scores(
    tables: ScoreTables, settings: DetectSettings
) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    for model in tables.models:
        scored = tables.scored(model)
        for detector in detectors().values():
            values = detector.score(tables, scored, settings)
            if not isinstance(values, str):
                yield model, detector.name, _by_id(scored.frame["benchmark_id"].to_list(), values)


def _deltas(
    tables: ScoreTables, settings: DetectSettings
) -> tuple[dict[str, dict[str, float]], str]:
    cohort = cohort_scores(tables, settings)
    if isinstance(cohort, str) or len(tables.models) < SMALLEST:
        return {}, ""
    ids, _, scores, which = cohort
    rows = cohort_delta(scores)
    return {
        m: _by_id(ids, row) for m, row in zip(tables.models, rows, strict=True)
    }, f"Δ of {which}"


def _by_id(ids: list[str], values: Floats) -> dict[str, float]:
    return dict(zip(ids, values.tolist(), strict=True))


def _texts(tables: ScoreTables, model: str) -> dict[str, tuple[int, str, str, str]]:
    frame = tables.scored(model).frame.select(
        "benchmark_id",
        "position",
        "cluster",
        pl.col("question", "answer").fill_null("").str.slice(0, _SHOWN),
    )
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in frame.iter_rows()}
