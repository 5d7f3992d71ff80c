"""Jonckheere–Terpstra: do values rise with an ordered dose?

The statistic counts, over all pairs of doses, how often the higher dose has the higher value, ties as
halves. Models that answered the same items are not independent samples, so there pairs are counted within
an item and the doses are dealt out anew within each cluster of items; p-values are exact where there are
few arrangements, and sampled with the observed one counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import permutations as arrangements
from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.permutation import PERMUTATIONS, Permuted, staged

Floats = NDArray[np.float64]
FEW = 20_000  # arrangements up to which all are counted
_CHUNK = 2_000_000


class Jonckheere(NamedTuple):
    """``statistic`` is J, ``concordance`` is in [-1, 1]: concordant less discordant pairs, as a share."""

    statistic: float
    concordance: float
    error: float  # of the concordance, under the null
    p: float
    p_tied: float
    exact: bool


def jonckheere_blocks(
    values: ArrayLike,
    doses: Sequence[float],
    clusters: Sequence[Hashable],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Jonckheere | None:
    """``values`` has a row per item and a column per dose. None if no two doses or values differ."""
    table = np.asarray(values, dtype=np.float64)
    dose = np.asarray(doses, dtype=np.float64)
    higher = _higher(dose)
    pairs = len(table) * float(higher.sum())
    signs = np.sign(table[:, None, :] - table[:, :, None])  # [item, lower, upper]
    if pairs == 0 or not signs.any():
        return None
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(table))
    blocks = np.zeros((len(known), len(dose), len(dose)))
    np.add.at(blocks, codes, signs)
    observed = float((blocks * higher).sum())
    ways = factorial(len(dose)) ** min(len(known), 20)
    if ways <= FEW:
        orders = [np.asarray(arrangement) for arrangement in arrangements(range(len(dose)))]
        each = np.stack([(blocks * _higher(dose[order])).sum((1, 2)) for order in orders])
        null = np.asarray(
            [
                each[list(chosen), range(len(known))].sum()
                for chosen in product(range(len(orders)), repeat=len(known))
            ]
        )
        return _exactly(observed, null, pairs)

    def design(count: int, rng: np.random.Generator) -> Floats:
        drawn = np.empty(count)
        step = max(1, _CHUNK // blocks.size)
        for start in range(0, count, step):
            size = min(step, count - start)
            dealt = rng.permuted(np.broadcast_to(dose, (size, len(known), len(dose))), axis=2)
            ordered = dealt[:, :, :, None] < dealt[:, :, None, :]
            drawn[start : start + size] = np.einsum("dgab,gab->d", ordered, blocks)
        return drawn

    test = staged(observed, design, permutations=permutations, seed=seed)
    return _sampled(test, pairs)


def _higher(dose: ArrayLike) -> NDArray[np.bool_]:
    numbers = np.asarray(dose, dtype=np.float64)
    return np.less(numbers[:, None], numbers[None, :])


def _exactly(observed: float, null: Floats, pairs: float) -> Jonckheere:
    sizes = np.abs(null) - abs(observed)
    error = float(np.sqrt((null**2).mean())) / pairs
    p, tied = (sizes >= -1e-9).mean(), (np.abs(sizes) <= 1e-9).mean()
    return Jonckheere(
        (observed + pairs) / 2, observed / pairs, error, float(p), float(tied), exact=True
    )


def _sampled(test: Permuted, pairs: float) -> Jonckheere:
    observed = test.statistic
    return Jonckheere(
        (observed + pairs) / 2,
        observed / pairs,
        test.spread / pairs,
        test.p,
        test.p_tied,
        exact=False,
    )
