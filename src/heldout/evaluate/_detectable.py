"""The smallest difference that a paired comparison would find four times out of five, by simulation.

Clusters are drawn anew from the observed ones, whose differences point to either side. First more and more
of them point to one side, at the observed discordance; where that does not suffice, further clusters differ
as a whole. Every simulated comparison is judged as the observed one is: by the test at its corrected level,
and by the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
POWER = 0.8
_DRAWS = 500
_STEPS = 8  # halvings of the range of effects


class ClusterDifferences(NamedTuple):
    """Of one benchmark: first less second, summed by cluster, and the clusters' sizes."""

    sums: Floats
    sizes: Floats


def detectable_difference(
    parts: Sequence[ClusterDifferences], *, alpha: float, exact: bool, seed: int = 0
) -> float | None:
    """In the unweighted mean over ``parts``. ``exact``: McNemar's test, else sign flips of clusters.

    None where no item is discordant, since the data then say nothing about how often the two differ, and
    where even a difference on every item would not be found.
    """
    kinds = [_Kinds.of(part) for part in parts]
    if not any(kind.height.any() for kind in kinds):
        return None

    def power(effect: float) -> float:
        rng = np.random.default_rng(seed)  # the same draws for every effect
        drawn = [kind.drawn(effect, rng) for kind in kinds]
        return float((_rejects(drawn, alpha, exact=exact) & _beside_zero(drawn)).mean())

    low, high = 0.0, 2.0
    if power(high) < POWER:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return float(np.mean([kind.mean(high) for kind in kinds]))


class _Kinds(NamedTuple):
    """Clusters that are alike are counted: a benchmark of any size has few kinds of them."""

    height: Floats
    size: Floats
    share: Floats
    clusters: int

    @classmethod
    def of(cls, part: ClusterDifferences) -> _Kinds:
        rows = np.column_stack([np.abs(part.sums), part.sizes])
        kinds, counts = np.unique(np.round(rows, 9), axis=0, return_counts=True)
        return cls(kinds[:, 0], kinds[:, 1], counts / counts.sum(), len(part.sums))

    def mean(self, effect: float) -> float:
        share, height, size = self._mixed(effect)
        return float((share * height).sum() / (share * size).sum())

    def drawn(self, effect: float, rng: np.random.Generator) -> _Drawn:
        share, height, size = self._mixed(effect)
        counts = rng.multinomial(self.clusters, share / share.sum(), _DRAWS)
        features = np.column_stack(
            [height, height**2, height * size, size, size**2, height > 0, height < 0]
        )
        smallest = self.height[self.height > 0].min(initial=float(self.size.min()))
        sums = iter((counts @ features).T)
        return _Drawn(
            next(sums),
            next(sums),
            next(sums),
            next(sums),
            next(sums),
            next(sums),
            next(sums),
            self.clusters,
            float(smallest),
        )

    def _mixed(self, effect: float) -> tuple[Floats, Floats, Floats]:
        upward, whole = (1 + min(effect, 1.0)) / 2, max(effect - 1.0, 0.0)
        weights = ((1 - whole) * upward, (1 - whole) * (1 - upward), whole)
        return (
            np.concatenate([weight * self.share for weight in weights]),
            np.concatenate([self.height, -self.height, self.size]),
            np.tile(self.size, 3),
        )


class _Drawn(NamedTuple):
    """Sums over the clusters of each simulated comparison."""

    total: Floats
    squares: Floats
    products: Floats
    size: Floats
    sizes_squared: Floats
    upward: Floats
    downward: Floats
    clusters: int
    smallest: float


def _rejects(drawn: Sequence[_Drawn], alpha: float, *, exact: bool) -> NDArray[np.bool_]:
    if exact:
        (sample,) = drawn
        fewer, total = np.minimum(sample.upward, sample.downward), sample.upward + sample.downward
        return np.asarray(2 * special.bdtr(fewer, total.astype(int), 0.5) <= alpha)
    # Sign flips give a sum on a lattice of twice the smallest one: normal, continuity corrected.
    value = sum((sample.total / sample.size for sample in drawn), np.zeros(_DRAWS))
    spread = np.sqrt(sum((sample.squares / sample.size**2 for sample in drawn), np.zeros(_DRAWS)))
    step = np.min([sample.smallest / sample.size for sample in drawn], axis=0)
    return np.asarray(np.abs(value) - step >= -float(special.ndtri(alpha / 2)) * spread) & (
        spread > 0
    )


def _beside_zero(drawn: Sequence[_Drawn]) -> NDArray[np.bool_]:
    """The interval of Bonett and Price by cluster, of one benchmark or of the mean of several."""
    centres, errors, freedoms = [], [], []
    for sample in drawn:
        typical = sample.size / sample.clusters
        size = sample.size + 2 * typical
        centre = sample.total / size
        squares = (
            sample.squares
            + 2 * typical**2
            - 2 * centre * sample.products
            + centre**2 * (sample.sizes_squared + 2 * typical**2)
        )
        freedom = max(sample.clusters - 1, 1)
        errors.append(np.maximum(squares, 0) * sample.clusters / freedom / size**2)
        centres.append(centre if len(drawn) == 1 else sample.total / sample.size)
        freedoms.append(freedom)
    variance = np.sum(errors, axis=0)
    freedom = variance**2 / np.sum(
        [e**2 / f for e, f in zip(errors, freedoms, strict=True)], axis=0
    )
    reach = special.stdtrit(freedom, 0.975) * np.sqrt(variance)
    return np.asarray(np.abs(np.sum(centres, axis=0)) > reach)
