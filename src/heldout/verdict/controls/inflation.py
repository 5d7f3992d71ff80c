"""Overlap inflation: are answers likelier where the image, or the item, is in a corpus?

Flagged against unflagged items, by cluster; and the same difference less the baseline's, which takes
out that flagged items may simply be the easy ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heldout.detect import ScoreTables, covariate, covariates
from heldout.stats import FEW, Contrast, Interval, cluster_contrast, cluster_mean

ALL = "all"


class Inflation(NamedTuple):
    """``gap`` in the scores' unit; ``above_baseline`` is the gap less that of the baseline."""

    model: str
    stratum: str
    gap: Contrast
    above_baseline: Contrast | None
    #: the same in standard deviations of each model's own scores: a gain is not inflation
    standardised: Contrast | None


def overlap_inflation(
    scores: Mapping[str, ArrayLike],
    flagged: ArrayLike,
    clusters: Sequence[str],
    *,
    baseline: str | None = None,
    strata: Sequence[str] | None = None,
    seed: int = 0,
) -> list[Inflation]:
    """For every model and stratum; strata with fewer than five clusters on a side are left out."""
    flags = np.asarray(flagged, dtype=bool)
    values = {
        model: np.asarray(array_like, dtype=np.float64) for model, array_like in scores.items()
    }
    labels = np.asarray(list(strata)) if strata is not None else np.full(len(flags), ALL)
    names = [ALL, *(sorted(set(labels.tolist())) if strata is not None else [])]
    inflations = []
    for model, column in values.items():
        for name in names:
            inside = np.flatnonzero(labels == name) if name != ALL else np.arange(len(flags))
            groups = [clusters[int(index)] for index in inside]
            gap = cluster_contrast(column[inside], flags[inside], groups, seed=seed)
            if gap is None:
                continue
            above = standardised = None
            if baseline is not None and model != baseline:
                other = values[baseline]
                difference = (column - other)[inside]
                above = cluster_contrast(difference, flags[inside], groups, seed=seed)
                scaled = (column / column.std() - other / other.std())[inside]
                standardised = cluster_contrast(scaled, flags[inside], groups, seed=seed)
            inflations.append(Inflation(model, name, gap, above, standardised))
    return inflations


def run_inflation(
    tables: ScoreTables, *, baseline: str | None = None, stratum: str = "answer_type", seed: int = 0
) -> dict[str, list[Inflation]]:
    """Per corpus of the run: items whose image was proven to be in it against the others.

    Mean log p per token, on the items that all models scored; the baseline's gap is taken off where its
    scores may be compared.
    """
    if not tables.leaked or not tables.models:
        return {}
    together = {scored.model: scored for scored in tables.common(tables.models)}
    frame = next(iter(together.values())).frame
    ids, clusters = frame["benchmark_id"].to_list(), frame["cluster"].to_list()
    strata = covariate(frame, stratum)
    inflations: dict[str, list[Inflation]] = {}
    for corpus, leaked in tables.leaked.items():
        flags = [item in leaked for item in ids]
        inflations[corpus] = []
        for model, scored in together.items():
            other = baseline if baseline in together and model != baseline else None
            if other is not None and tables.comparable(model, other) is not None:
                other = None
            scores = {model: scored.means} | ({other: together[other].means} if other else {})
            inflations[corpus] += [
                inflation
                for inflation in overlap_inflation(
                    scores, flags, clusters, baseline=other, strata=strata, seed=seed
                )
                if inflation.model == model
            ]
    return inflations


# Where an effect lives: a mean with its clustered interval, stratum by stratum.


class Stratum(NamedTuple):
    name: str
    n: int
    clusters: int
    value: float
    interval: Interval | None  # None: too few clusters for one


def by_stratum(values: ArrayLike, clusters: Sequence[str], labels: Sequence[str]) -> list[Stratum]:
    numbers, names = np.asarray(values, dtype=np.float64), np.asarray(labels)
    stratums = []
    for label in sorted(set(labels)):
        members = np.flatnonzero(names == label)
        groups = [clusters[int(index)] for index in members]
        count = len(set(groups))
        mean, _, interval = cluster_mean(numbers[members], groups)
        stratums.append(
            Stratum(label, len(members), count, mean, interval if count >= FEW else None)
        )
    return stratums


def run_strata(
    tables: ScoreTables, baseline: str | None = None
) -> dict[str, dict[str, list[Stratum]]]:
    """Per model and field of the benchmark: mean log p per token, less the baseline's where it may be."""
    strata: dict[str, dict[str, list[Stratum]]] = {}
    for model in tables.models:
        other = baseline if baseline in tables.models and baseline != model else None
        if other is not None and tables.comparable(model, other) is not None:
            other = None
        scored = tables.common([model, other] if other is not None else [model])
        if not len(scored[0]):
            continue
        values = scored[0].means - (scored[1].means if other is not None else 0.0)
        frame = scored[0].frame
        strata[model] = {
            field: by_stratum(values, scored[0].clusters, labels)
            for field, labels in covariates(frame)[0].items()
        }
    return strata
