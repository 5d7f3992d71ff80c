"""Do the verifier and people keep the same twins? Raw agreement and Cohen's kappa, clustered by picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats import Interval, cluster_rate_interval

_RESAMPLES = 4000
_LEVEL = 0.95


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
    verifier: Sequence[bool], people: Sequence[bool], clusters: Sequence[str], *, seed: int = 0
) -> Agreement | None:
    """``True`` is keep; None where nobody judged the same twin as the verifier."""
    if not verifier:
        return None
    first, second = np.asarray(verifier, bool), np.asarray(people, bool)
    cells = np.stack([first & second, first & ~second, ~first & second, ~first & ~second], 1)
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(first))
    by_cluster = np.zeros((len(known), 4))
    np.add.at(by_cluster, codes, cells.astype(float))
    totals = by_cluster.sum(0)
    kappa = float(_kappa(totals[None])[0])
    same = (first == second).astype(float)
    both, verifier_only, people_only, neither = (int(count) for count in totals)
    raw = cluster_rate_interval(same, clusters, level=_LEVEL)
    known_kappa = not np.isnan(kappa)
    return Agreement(
        both, verifier_only, people_only, neither, len(known), float(same.mean()), raw,
        kappa if known_kappa else None,
        _interval(by_cluster, seed) if known_kappa else None,
    )  # fmt: skip


def _kappa(cells: ArrayLike) -> NDArray[np.float64]:
    """One kappa per row of four cells; not a number where both say the same of everything."""
    table = np.asarray(cells, float)
    share = table / table.sum(1, keepdims=True)
    raw = share[:, 0] + share[:, 3]
    keeps, kept = share[:, 0] + share[:, 1], share[:, 0] + share[:, 2]
    chance = keeps * kept + (1 - keeps) * (1 - kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance < 1 - 1e-12, (raw - chance) / (1 - chance), np.nan)


def _interval(by_cluster: NDArray[np.float64], seed: int) -> Interval | None:
    """Percentiles over pictures drawn anew: the questions on one picture come together."""
    count = len(by_cluster)
    if count < 2:
        return None
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    found = _kappa(drawn @ by_cluster)
    # Where a draw holds one verdict only, nothing but agreement was possible; it says nothing.
    found = found[~np.isnan(found)]
    if len(found) < _RESAMPLES / 2:
        return None
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return Interval(float(low), float(high), _LEVEL, "bootstrap over pictures")
