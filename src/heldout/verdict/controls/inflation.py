"""Overlap inflation: are answers likelier where the image, or the item, is in a corpus?

Flagged against unflagged items, by cluster; and the same difference less the baseline's, which takes
out that flagged items may simply be the easy ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heldout.detect import ScoreTables, covariate
from heldout.stats import Contrast, cluster_contrast

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
    found: dict[str, list[Inflation]] = {}
    for corpus, leaked in tables.leaked.items():
        flags = [one in leaked for one in ids]
        found[corpus] = []
        for model, scored in together.items():
            other = baseline if baseline in together and model != baseline else None
            if other is not None and tables.comparable(model, other) is not None:
                other = None
            scores = {model: scored.means} | ({other: together[other].means} if other else {})
            found[corpus] += [
                inflation
                for inflation in overlap_inflation(
                    scores, flags, clusters, baseline=other, strata=strata, seed=seed
                )
                if inflation.model == model
            ]
    return found
