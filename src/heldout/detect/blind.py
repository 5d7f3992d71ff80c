"""blind: what a bag of words and metadata tells about the two sets without any model.

A detector that separates suspect from unseen items as well as this one does has found how the two sets
were made, not what a model remembers. Naive Bayes over the words of question and answer, cross-validated
by cluster; the p-value permutes the labels over clusters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from heldout.detect.detector import DAS, Detector, Need
from heldout.detect.finding import Outcome, around, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables, covariate, metadata_column

NAME = "blind"
FOLDS = 5
SHUFFLES = 199
COMMON = 4_000  # words kept: rarer ones cannot help across clusters, and hostile text has millions
LONGEST = 4_000  # characters of a field that are read
NEEDS = "needs items that no model can have seen (the setting unseen) to tell suspects from"


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    model = "no model"
    if settings.unseen is None:
        yield not_testable(NAME, tables.benchmark, model, NEEDS)
        return
    field, wanted = settings.unseen
    values = metadata_column(tables.items, field)
    suspects = np.fromiter((value != wanted for value in values), bool, len(values))
    names: list[str] = tables.items["cluster"].to_list()
    codes, labels = _cluster_labels(names, suspects)
    if min(labels.sum(), len(labels) - labels.sum()) < FOLDS:
        reason = f"fewer than {FOLDS} clusters of suspect, or of unseen items"
        yield not_testable(NAME, tables.benchmark, model, reason)
        return
    words = _counts(tables.items, skip=field)
    folds = _folds(names)
    rng = np.random.default_rng(settings.seed)
    shuffles = min(SHUFFLES, settings.permutations)
    dealt = np.stack([labels, *(rng.permutation(labels) for _ in range(shuffles))], axis=1)
    areas = _areas(_scores(words, dealt[codes], folds), dealt[codes])
    value, null = float(areas[0]), areas[1:]
    p = (1 + int((null >= value - 1e-12).sum())) / (1 + len(null))
    error = float(null.std())
    yield model_finding(
        NAME,
        tables.benchmark,
        model,
        unit="questions",
        statistic=("area under the curve", value),
        effect=(
            "area under the curve above chance",
            value - 0.5,
            around(value - 0.5, error, "spread over dealt labels", (-0.5, 0.5)),
        ),
        error=error,
        p=p,
        n=len(names),
        clusters=len(labels),
        blind_to=["differences that neither words nor metadata show, such as the images'"],
        seed=settings.seed,
        table="items",
        direction="none",  # it uses no model
        details={
            "words": words.shape[1],
            "folds": FOLDS,
            "permutations": shuffles + 1,
            "p_tied": (1 + int((np.abs(null - value) <= 1e-12).sum())) / (1 + len(null)),
        },
    )


def blind_area(items: pl.DataFrame, suspects: NDArray[np.bool_]) -> float:
    """The cross-validated area under the curve alone, to stand beside an item-level finding."""
    names: list[str] = items["cluster"].to_list()
    labels = suspects.astype(np.float64)[:, None]
    return float(_areas(_scores(_counts(items), labels, _folds(names)), labels)[0])


def _counts(items: pl.DataFrame, skip: str | None = None) -> sparse.csr_matrix:
    """Presence of words, one row per item; the field that holds the labels is not among them."""
    bags: list[set[str]] = []
    for question, answer in zip(items["question"], items["answer"], strict=True):
        asked = re.findall(r"\w+", (question or "")[:LONGEST].lower())
        answered = re.findall(r"\w+", (answer or "")[:LONGEST].lower())
        bags.append({f"q:{word}" for word in asked} | {f"a:{word}" for word in answered})
    for name in ("answer_type", "answer_length"):
        if name != skip:
            for bag, value in zip(bags, covariate(items, name), strict=True):
                bag.add(f"{name}:{value}")
    frequency = Counter(word for bag in bags for word in bag)
    kept = [
        word for word, count in sorted(frequency.items(), key=lambda p: (-p[1], p[0])) if count > 1
    ]
    index = {word: place for place, word in enumerate(kept[:COMMON])}
    rows, columns = [], []
    for row, bag in enumerate(bags):
        for word in bag:
            if word in index:
                rows.append(row)
                columns.append(index[word])
    shape = (len(bags), max(len(index), 1))
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def _scores(
    words: sparse.csr_matrix, labels: NDArray[np.float64], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-odds of being a suspect for every item and every column of labels, by the other folds."""
    out = np.zeros(labels.shape)
    for fold in range(FOLDS):
        test = np.flatnonzero(folds == fold)
        train = np.flatnonzero(folds != fold)
        if not len(test) or not len(train):
            continue
        rows, marks = words[train], labels[train]
        ones, zeros = marks.sum(axis=0), (1 - marks).sum(axis=0)
        inside = np.asarray(rows.T @ marks)
        outside = np.asarray(rows.T @ (1 - marks))
        odds = np.log((inside + 1) / (ones + 2)) - np.log((outside + 1) / (zeros + 2))
        out[test] = np.asarray(words[test] @ odds)
    return out


def _areas(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(scores, axis=0, kind="stable")
    hits = np.empty(scores.shape[1])
    for column in range(scores.shape[1]):
        ordered = scores[order[:, column], column]
        starts = np.flatnonzero(np.r_[True, np.diff(ordered) > 1e-12])
        sizes = np.diff(np.r_[starts, len(ordered)])
        ranks = np.repeat(starts + (sizes + 1) / 2.0, sizes)
        marks = labels[order[:, column], column]
        ones = marks.sum()
        zeros = len(marks) - ones
        hits[column] = (
            0.5
            if not ones or not zeros
            else ((ranks @ marks - ones * (ones + 1) / 2) / (ones * zeros))
        )
    return hits


def _cluster_labels(
    names: Sequence[str], suspects: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cluster of every item, and each cluster's label: what most of its items are."""
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = np.fromiter((known[name] for name in names), np.int64, len(names))
    share = np.bincount(codes, weights=suspects) / np.bincount(codes)
    return codes, (share > 0.5).astype(np.float64)


def _folds(names: Sequence[str]) -> NDArray[np.int64]:
    """Whole clusters per fold, by the order of their names so that row order changes nothing."""
    place = {name: index % FOLDS for index, name in enumerate(sorted(set(names)))}
    return np.fromiter((place[name] for name in names), np.int64, len(names))


DETECTOR = Detector(
    NAME,
    "blind",
    "what do words and metadata predict without any model?",
    find,
    requires=frozenset({Need.UNSEEN}),
    of="benchmark",
    claims=False,
    citations=(DAS,),
)
