"""Corrected scores: the scores of models on all items and on clean ones, and their ranks on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.detect import LABELLED, Block, Impact, adjust_impacts, measure_impact
from heldout.evidence import OPEN, PROVEN, LeakLabels, Rung, kept_leak_labels, leaks
from heldout.stats import Rank, kendall_tau_b, rank_intervals
from heldout.store import Run

ACCURACY, LIKELIHOOD = "accuracy", "log-likelihood"
LEAKED = "proven"
FULL, CLEAN = "full", "clean"
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ranking:
    """Models by one measure, on items that all of them have. ``tau_b`` compares full with clean."""

    measure: str
    items: int
    clean_items: int
    ranks: dict[str, dict[str, Rank]]  # by model: full, clean
    tau_b: float | None

    def as_json(self) -> dict[str, Any]:
        ranks = {
            model: {subset: rank._asdict() for subset, rank in by_subset.items()}
            for model, by_subset in self.ranks.items()
        }
        return {**vars(self), "ranks": ranks}


@dataclass
class CorrectedScores:
    models: list[Impact] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    labels: LeakLabels | None = None  # made elsewhere
    searched: frozenset[str] | None = None  # what a search proved; None where there was none

    def as_json(self) -> dict[str, Any]:
        record = {} if self.labels is None else {"labels": self.labels.summary(self.searched)}
        return {
            "schema_version": 1,
            **record,
            "models": [model.as_json() for model in self.models],
            "rankings": [ranking.as_json() for ranking in self.rankings],
        }


def correct_scores(run: Run, models: Sequence[str], *, seed: int = 0) -> CorrectedScores:
    """Full, clean, leaked and size-matched random subsets for every model with answers or scores.

    Leaked: proven in any corpus of the run, or labelled so elsewhere. Clean: neither leaked nor undecided;
    what is undecided is in the full score alone, and so is what has no label where no corpus was searched.
    An item whose picture could not be compared is in none, unless it has a label.
    """
    items = run.frame("items")
    labels = kept_leak_labels(run)
    leaked = leaks(run)
    scanned = run.table_path("matches").exists()
    searched = _standing(leaked, PROVEN)
    proven, open_ = _with_labels(searched, _standing(leaked, OPEN), labels, scanned)
    messages = proven | (frozenset(labels.kinds) if labels is not None else frozenset())
    known = [
        (row["benchmark_id"], row["cluster"])
        for row in items.iter_rows(named=True)
        if "" not in row["image_digests"] or row["benchmark_id"] in messages
    ]
    name = LEAKED
    if labels is not None:
        name = f"{LEAKED} or {LABELLED}" if scanned else LABELLED
    corrected = CorrectedScores(labels=labels, searched=searched if scanned else None)
    for measure, by_model in _measures(run, models).items():
        for model, values in by_model.items():
            chosen = [
                (identifier, cluster) for identifier, cluster in known if identifier in values
            ]
            if not chosen:
                continue
            ids, clusters = (
                [identifier for identifier, _ in chosen],
                [cluster for _, cluster in chosen],
            )
            column = np.array([values[item] for item in ids])
            block = _block(ids, proven, open_, name)
            corrected.models.append(
                measure_impact(model, measure, {measure: column}, clusters, [block], seed=seed)
            )
        corrected.rankings += _ranking(measure, by_model, known, proven, open_)
    adjust_impacts(corrected.models)
    return corrected


def _block(
    ids: Sequence[str], proven: frozenset[str], open_: frozenset[str], name: str = LEAKED
) -> Block:
    leaked = np.array([text in proven for text in ids])
    clean = np.array([text not in proven and text not in open_ for text in ids])
    return Block(name, leaked, clean, ())


def _ranking(
    measure: str,
    by_model: Mapping[str, Mapping[str, float]],
    known: Sequence[tuple[str, str]],
    proven: frozenset[str],
    open_: frozenset[str],
) -> list[Ranking]:
    shared = [
        (identifier, cluster)
        for identifier, cluster in known
        if all(identifier in v for v in by_model.values())
    ]
    if len(by_model) < 2 or not shared:
        return []
    ids, clusters = [identifier for identifier, _ in shared], [cluster for _, cluster in shared]
    columns = {name: np.array([v[item] for item in ids]) for name, v in by_model.items()}
    everything: Mask = np.ones(len(ids), dtype=bool)
    clean = _block(ids, proven, open_).clean
    subsets = {FULL: everything, CLEAN: clean}
    intervals = {name: rank_intervals(columns, mask, clusters) for name, mask in subsets.items()}
    means = {
        name: [float(column[mask].mean()) for column in columns.values()]
        for name, mask in subsets.items()
        if mask.any()
    }
    tau = kendall_tau_b(means[FULL], means[CLEAN]) if CLEAN in means else None
    ranks = {
        model: {name: by_rank[model] for name, by_rank in intervals.items() if model in by_rank}
        for model in columns
    }
    return [Ranking(measure, len(ids), int(clean.sum()), ranks, tau)]


def _with_labels(
    proven: frozenset[str], open_: frozenset[str], labels: LeakLabels | None, scanned: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """Leaked items and undecided ones. A label does not clear what a search proved."""
    if labels is not None:
        proven |= labels.leaked
        open_ |= labels.undecided
        if not scanned:
            open_ |= frozenset(labels.unlabelled)
    return proven, open_ - proven


def _standing(frame: pl.DataFrame, rungs: frozenset[Rung]) -> frozenset[str]:
    """Items that stand on one of these rungs in a corpus."""
    return frozenset(frame.filter(pl.col("rung").is_in(rungs))["benchmark_id"])


def _measures(run: Run, models: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """By measure and model, the value of each item: answers as released, and scores per token."""
    measures: dict[str, dict[str, dict[str, float]]] = {}
    if run.table_path("answers").exists():
        original = run.frame("answers").filter(pl.col("variant") == "original")
        right = original.group_by("model", "benchmark_id", maintain_order=True).agg(
            (pl.col("outcome") == "right").mean().alias("value")
        )
        measures[ACCURACY] = _by_model(right, models)
    if run.table_path("scores").exists():
        scores = run.frame("scores").with_columns(
            (pl.col("sum_logprob") / pl.col("n_tokens").clip(1)).alias("value")
        )
        measures[LIKELIHOOD] = _by_model(scores, models)
    return {measure: by_model for measure, by_model in measures.items() if by_model}


def _by_model(frame: pl.DataFrame, models: Sequence[str]) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for name, identifier, value in frame.select("model", "benchmark_id", "value").iter_rows():
        if name in models and value is not None and np.isfinite(value):
            values.setdefault(name, {})[identifier] = float(value)
    return {name: values[name] for name in models if name in values}
