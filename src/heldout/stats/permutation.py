"""Permutation tests as matrix work, in stages that stop early and stay exact.

**Two pools instead of one list.** The statistics here are inner products ⟨x, y⟩ of a vector of values
and a vector of places (or labels). Shuffle x into m rows, the first as observed, and y into m rows,
the first as observed: their product is an m × m table whose corner is the observed statistic. If the
values are exchangeable the table's law does not change when rows, or columns, are swapped, so every
entry is as likely as any other to be among the k largest: the corner's rank over m² is an exact
p-value (Ramdas, Barber, Candès and Tibshirani 2023 allow any set of permutations in this way). Two
entries that differ in either index are independent draws, so the Monte Carlo error is that of m²
independent permutations, for the price of shuffling 2(m - 1) vectors and one matrix product.

**Stages.** 1,000 evaluations first; only where fewer than ``ENOUGH`` of them are as extreme as the
observed statistic a ten times larger, fresh design follows, up to the cap. With N the size of stage
one, a reported p ≤ α < ENOUGH / N comes from later stages alone, and p ≤ α with α ≥ ENOUGH / N needs
stage one to have p ≤ α: either way the p-value of a valid stage is at most α, hence the whole is valid, too. It
is
the idea of Besag and Clifford (1991), stage by stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import permutations as arrangements
from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
#: null statistics of a fresh design of about this many evaluations, the observed one left out
Design = Callable[[int, np.random.Generator], Floats]
Shuffle = Callable[[Floats, np.random.Generator], Floats]

PERMUTATIONS = 10_000
FIRST = 1_000
ENOUGH = 100  # extreme evaluations from which on more of them would not change the reading
_STEP = 10
_MANY = 60  # powers of two from which on no number of permutations could tell the difference


class Permuted(NamedTuple):
    """``p`` is two-sided with the observed value counted; ``spread`` the null's standard deviation."""

    statistic: float
    p: float
    p_greater: float
    p_less: float
    p_tied: float  # the part of p that is exact ties: what a randomised test would draw from
    spread: float
    evaluated: int
    least: float = 0.0  # the smallest p that this test could have given


def shuffle_test(
    values: ArrayLike,
    places: ArrayLike,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    early: bool = True,
) -> Permuted:
    """Is ⟨values, places⟩ larger in size than if values had been dealt out to places by chance?"""
    x, y = _centred(values), _centred(places)
    design = product_design(x, y, lambda array, rng: array[rng.permutation(len(array))])
    return staged(
        float(x @ y),
        design,
        permutations=permutations,
        seed=seed,
        early=early,
        arrangements=min(_arrangements(x), _arrangements(y)),
    )


def product_design(left: Floats, right: Floats, shuffle: Shuffle) -> Design:
    """Products of two pools; ``shuffle`` draws from a group under which the null does not change."""

    def pool(values: Floats, rows: int, rng: np.random.Generator) -> Floats:
        out = np.empty((rows, len(values)))
        out[0] = values
        for row in range(1, rows):
            out[row] = shuffle(values, rng)
        return out

    def design(count: int, rng: np.random.Generator) -> Floats:
        rows, columns = _sides(count)
        table = pool(left, rows, rng) @ pool(right, columns, rng).T
        return np.asarray(table.ravel()[1:], dtype=np.float64)

    return design


def flip_test(
    values: ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = 0, early: bool = True
) -> Permuted:
    """Is the sum of ``values`` larger in size than if every sign had been a coin toss?"""
    x = np.asarray(values, dtype=np.float64)

    def design(count: int, rng: np.random.Generator) -> Floats:
        rows, columns = _sides(count)
        left, right = (rng.integers(0, 2, (side, len(x))) * 2.0 - 1.0 for side in (rows, columns))
        left[0], right[0] = 1.0, 1.0
        return np.asarray(((left * x) @ right.T).ravel()[1:], dtype=np.float64)

    return staged(
        float(x.sum()),
        design,
        permutations=permutations,
        seed=seed,
        early=early,
        arrangements=2.0 ** min(len(x) - 1, _MANY),  # all signs turned round are as far from 0
    )


def staged(
    observed: float,
    design: Design,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    early: bool = True,
    arrangements: float = math.inf,
) -> Permuted:
    """The permutation p of ``observed`` against ``design``, with as few permutations as needed.

    ``arrangements``: how many different ones there are, so that the most extreme has 1 of so many.
    """
    least = max(1.0 / max(arrangements, 1.0), 1.0 / (permutations + 1))
    rng = np.random.default_rng(seed)
    count = min(FIRST, permutations) if early else permutations
    while True:
        permuted = _judged(observed, design(count, rng))
        if count >= permutations or round(permuted.p * permuted.evaluated) >= ENOUGH:
            return permuted._replace(least=least)
        count = min(count * _STEP, permutations)


def _judged(observed: float, null: Floats) -> Permuted:
    total = len(null) + 1
    # Equal statistics come out a few roundings apart, depending on the order of summation.
    near = 1e-9 * max(1e-300, abs(observed), float(np.abs(null).max(initial=0.0)))
    sizes = np.abs(null) - abs(observed)
    return Permuted(
        statistic=observed,
        p=(1 + int((sizes >= -near).sum())) / total,
        p_greater=(1 + int((null >= observed - near).sum())) / total,
        p_less=(1 + int((null <= observed + near).sum())) / total,
        p_tied=(1 + int((np.abs(sizes) <= near).sum())) / total,
        spread=float(np.sqrt((null**2).mean())) if len(null) else 0.0,
        evaluated=total,
    )


def _sides(count: int) -> tuple[int, int]:
    """Rows and columns of a table with at least ``count`` entries beside the observed one."""
    rows = int(np.ceil(np.sqrt(count + 1)))
    return rows, int(np.ceil((count + 1) / rows))


def _arrangements(values: Floats) -> float:
    """In how many ways these values can be dealt out to places; equal ones change nothing."""
    _, counts = np.unique(values, return_counts=True)
    log = special.gammaln(len(values) + 1) - special.gammaln(counts + 1).sum()
    return float(np.exp(min(float(log), float(_MANY))))


def _centred(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    centred: Floats = numbers - numbers.mean()
    return centred


# Jonckheere–Terpstra: do values rise with an ordered dose?
#
# The statistic counts, over all pairs of doses, how often the higher dose has the higher value, ties as
# halves. Models that answered the same items are not independent samples, so there pairs are counted within
# an item and the doses are dealt out anew within each cluster of items; p-values are exact where there are
# few arrangements, and sampled with the observed one counted elsewhere.


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
