"""Where an effect lives: a mean with its clustered interval, stratum by stratum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heldout.stats import Interval
from heldout.stats.contrast import FEW, cluster_mean


class Stratum(NamedTuple):
    name: str
    n: int
    clusters: int
    value: float
    interval: Interval | None  # None: too few clusters for one


def by_stratum(values: ArrayLike, clusters: Sequence[str], labels: Sequence[str]) -> list[Stratum]:
    numbers, names = np.asarray(values, dtype=np.float64), np.asarray(labels)
    found = []
    for label in sorted(set(labels)):
        members = np.flatnonzero(names == label)
        groups = [clusters[int(index)] for index in members]
        count = len(set(groups))
        mean, _, interval = cluster_mean(numbers[members], groups)
        found.append(Stratum(label, len(members), count, mean, interval if count >= FEW else None))
    return found
