"""Overlap inflation: are answers likelier where the image, or the item, is in a corpus?

Flagged against unflagged items, by cluster; and the same difference less the baseline's, which takes
out that flagged items may simply be the easy ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heldout.stats.contrast import Contrast, cluster_contrast

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
    values = {model: np.asarray(one, dtype=np.float64) for model, one in scores.items()}
    labels = np.asarray(list(strata)) if strata is not None else np.full(len(flags), ALL)
    names = [ALL, *(sorted(set(labels.tolist())) if strata is not None else [])]
    found = []
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
            found.append(Inflation(model, name, gap, above, standardised))
    return found
