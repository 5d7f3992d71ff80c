"""Where an effect lives: a mean with its clustered interval, stratum by stratum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heldout.detect import ScoreTables, covariates
from heldout.stats import FEW, Interval, cluster_mean


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
    found: dict[str, dict[str, list[Stratum]]] = {}
    for model in tables.models:
        other = baseline if baseline in tables.models and baseline != model else None
        if other is not None and tables.comparable(model, other) is not None:
            other = None
        scored = tables.common([model, other] if other is not None else [model])
        if not len(scored[0]):
            continue
        values = scored[0].means - (scored[1].means if other is not None else 0.0)
        frame = scored[0].frame
        found[model] = {
            field: by_stratum(values, scored[0].clusters, labels)
            for field, labels in covariates(frame)[0].items()
        }
    return found
