"""Do the verifier and people keep the same twins? Raw agreement and Cohen's kappa, clustered by picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heldout.stats import Interval, cluster_rate_interval
from heldout.stats.agreement import cohen_kappa


@dataclass(frozen=True)
class Agreement:
    """Cells: first the verifier, then people. ``kappa`` is None where chance alone would agree."""

    both_keep: int
    only_verifier_keeps: int
    only_people_keep: int
    both_reject: int
    clusters: int
    raw: float
    raw_interval: Interval
    kappa: float | None
    kappa_interval: Interval | None

    @property
    def n(self) -> int:
        return self.both_keep + self.only_verifier_keeps + self.only_people_keep + self.both_reject

    def as_json(self) -> dict[str, Any]:
        intervals = {
            name: None if one is None else one._asdict()
            for name, one in (
                ("raw_interval", self.raw_interval), ("kappa_interval", self.kappa_interval)
            )
        }  # fmt: skip
        return {"n": self.n, **vars(self), **intervals}


def agreement(
    verifier: Sequence[bool], people: Sequence[bool], clusters: Sequence[str]
) -> Agreement | None:
    """``True`` is keep; None where nobody judged the same twin as the verifier."""
    if not verifier:
        return None
    first, second = np.asarray(verifier, bool), np.asarray(people, bool)
    cells = (first & second, first & ~second, ~first & second, ~first & ~second)
    both, verifier_only, people_only, neither = (int(cell.sum()) for cell in cells)
    said = [{"people": float(b), "verifier": float(a)} for a, b in zip(first, second, strict=True)]
    kappa = cohen_kappa(said, clusters)
    same = (first == second).astype(float)
    raw = cluster_rate_interval(same, clusters)
    return Agreement(
        both, verifier_only, people_only, neither, len(set(clusters)), float(same.mean()), raw,
        kappa.value, kappa.interval,
    )  # fmt: skip
