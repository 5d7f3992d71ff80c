"""Two answers to the same items: is one of them right more often than the other?

Items that share an image are one observation. Where every item has its own, the test is McNemar's, exact;
elsewhere whole clusters change sides (the same test, by cluster). Intervals are Bonett and Price's: one
imagined pair is added on either side, so that no discordant pair at all does not mean certainty.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.intervals import Interval
from heldout.stats.permutation import PERMUTATIONS, flip_test

Floats = NDArray[np.float64]
McNEMAR, BY_CLUSTER = (
    "exact sign test of discordant pairs (McNemar)",
    "sign flips of whole clusters",
)


class PairedTable(NamedTuple):
    """Items by what was right: in both arms, in the first alone, in the second alone, in neither."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def n(self) -> int:
        return sum(self)


class McNemar(NamedTuple):
    """Two-sided. ``mid`` counts half of the observed table: less careful, nearer to its level."""

    exact: float
    mid: float
    tied: float  # the part of ``exact`` that is exact ties


class PairedTest(NamedTuple):
    """Mean difference, first less second; ``p`` two-sided by ``method``."""

    value: float
    error: float
    interval: Interval
    p: float
    p_tied: float
    method: str
    n: int
    clusters: int
    #: variance by cluster over variance if items were independent
    design_effect: float
    least: float = 0.0  # the smallest p that this many clusters and permutations could have given
    permutations: int = 0  # 0 where p is exact


def paired_table(first: ArrayLike, second: ArrayLike) -> PairedTable | None:
    """None where an outcome is neither right nor wrong: several draws were averaged."""
    a, b = (np.asarray(side, dtype=np.float64) for side in (first, second))
    if not (np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all()):
        return None
    right, other = a > 0, b > 0
    counts = (right & other, right & ~other, ~right & other, ~right & ~other)
    return PairedTable(*(int(count.sum()) for count in counts))


def mcnemar(first: int, second: int) -> McNemar:
    """From the discordant pairs alone: in which the first arm is right, in which the second is."""
    total, fewer = first + second, min(first, second)
    if total == 0:
        return McNemar(1.0, 1.0, 1.0)
    at_most = float(special.bdtr(fewer, total, 0.5))
    here = at_most - (float(special.bdtr(fewer - 1, total, 0.5)) if fewer else 0.0)
    tied = here if first == second else 2 * here
    return McNemar(min(1.0, 2 * at_most), min(1.0, 2 * at_most - here), tied)


def paired_test(
    differences: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> PairedTest:
    """``differences`` are first less second per item: -1, 0, 1, or in between for averaged draws."""
    values = np.asarray(differences, dtype=np.float64)
    sums, sizes = cluster_sums(values, clusters)
    count, n = len(sums), len(values)
    value = float(values.mean()) if n else 0.0
    error, interval, design = _spread(values, sums, sizes, level)
    if count == n and np.isin(values, (-1.0, 0.0, 1.0)).all():
        mc_nemar = mcnemar(int((values > 0).sum()), int((values < 0).sum()))
        return PairedTest(
            value,
            error,
            interval,
            mc_nemar.exact,
            mc_nemar.tied,
            McNEMAR,
            n,
            count,
            design,
            mcnemar(n, 0).exact,
        )
    test = flip_test(sums, permutations=permutations, seed=seed)
    return PairedTest(
        value,
        error,
        interval,
        test.p,
        test.p_tied,
        BY_CLUSTER,
        n,
        count,
        design,
        test.least,
        test.evaluated,
    )


def cluster_sums(values: Floats, clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    known = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    codes = np.fromiter((known[name] for name in clusters), np.int64, len(values))
    sums = np.bincount(codes, weights=values, minlength=len(known)).astype(np.float64)
    return sums, np.bincount(codes, minlength=len(known)).astype(np.float64)


def _spread(
    values: Floats, sums: Floats, sizes: Floats, level: float
) -> tuple[float, Interval, float]:
    """Standard error, interval and design effect, with two imagined clusters of average size."""
    count, n = len(sums), len(values)
    if count < 2:
        return 1.0, Interval(-1.0, 1.0, level, "one cluster tells nothing"), 1.0
    typical = n / count
    padded = np.concatenate([sums, [typical, -typical]])
    weights = np.concatenate([sizes, [typical, typical]])
    total = float(weights.sum())
    mean = float(padded.sum()) / total
    squares = float(((padded - mean * weights) ** 2).sum())
    error = float(np.sqrt(squares * count / (count - 1))) / total
    reach = float(special.stdtrit(count - 1, 0.5 + level / 2)) * error
    ends = (max(mean - reach, -1.0), min(mean + reach, 1.0))  # no difference of shares lies beyond
    interval = Interval(*ends, level, "Bonett and Price, by cluster")
    plain = float(((values - values.mean()) ** 2).sum())
    exact = float(((sums - values.mean() * sizes) ** 2).sum())
    return error, interval, max(1.0, exact / plain) if plain > 0 else 1.0


# Two accuracies on the same items without the items: between which limits the paired test lies.


class PairedBounds(NamedTuple):
    """``least`` and ``most``: items that one of the two alone got right. ``p_least`` and ``p_most``:
    McNemar's exact p at either end; ``clear_below``: with fewer such items the difference would be
    significant."""

    least: int
    most: int
    p_least: float
    p_most: float
    clear_below: int


def paired_bounds(
    n: int, first: int, second: int, differ: int, *, alpha: float = 0.05
) -> PairedBounds:
    """``first`` and ``second``: right answers of ``n``; ``differ``: items on which the choices differ.

    Where one alone is right, the choices differ. Where the choices differ and neither is right, both are
    wrong, of which there are (wrong + wrong - discordant) / 2.
    """
    if not (0 <= first <= n and 0 <= second <= n and abs(first - second) <= differ <= n):
        raise ValueError(
            "expected counts of right answers of n items that differ on enough of them"
        )
    wrong = (n - first) + (n - second)
    gap = abs(first - second)
    # Discordant pairs come in steps of two: each pair of errors that coincide takes two away.
    least = max(gap, 2 * differ - wrong)
    least += (least - gap) % 2
    most = min(differ, wrong, first + second)
    most -= (most - gap) % 2
    clear = gap
    while clear <= most and _p(gap, clear) <= alpha:
        clear += 2
    return PairedBounds(least, most, _p(gap, least), _p(gap, most), clear)


def _p(gap: int, discordant: int) -> float:
    return mcnemar((discordant + gap) // 2, (discordant - gap) // 2).exact


# How many pairs are needed to see a difference of two paired proportions.


def pairs_needed(
    difference: float,
    discordant: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    design_effect: float = 1.0,
) -> int:
    """Pairs for McNemar's test, two-sided (Connor 1987).

    ``discordant`` is the share of pairs in which one arm alone is right; it is never smaller than the
    difference. ``design_effect``: the loss by clustering.
    """
    drop = abs(difference)
    if not 0.0 < drop <= 1.0:
        raise ValueError("a difference of proportions to be seen lies above 0 and at most at 1")
    share = min(1.0, max(discordant, drop))
    level, reach = (float(special.ndtri(entry)) for entry in (1.0 - alpha / 2, power))
    root = level * np.sqrt(share) + reach * np.sqrt(share - drop**2)
    return int(np.ceil((root / drop) ** 2 * max(1.0, design_effect)))


def mcnemar_power(pairs: int, first: float, second: float, *, alpha: float = 0.05) -> float:
    """Exact power of the exact test, for the shares in which one arm alone is right."""
    share = first + second
    if share <= 0.0 or pairs <= 0:
        return 0.0
    totals = np.arange(pairs + 1)
    often = _binomial(totals, pairs, share)
    # The largest smaller count that rejects, for every number of discordant pairs.
    total = 0.0
    for discordant in totals[often > 1e-12]:
        counts = np.arange(discordant + 1)
        fewer = np.minimum(counts, discordant - counts)
        rejects = 2.0 * special.bdtr(fewer, discordant, 0.5) <= alpha
        chance = _binomial(counts, int(discordant), first / share)
        total += float(often[discordant] * chance[rejects].sum())
    return total


def _binomial(k: np.ndarray, n: int, p: float) -> np.ndarray:
    logs = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.asarray(np.exp(logs + special.xlogy(k, p) + special.xlog1py(n - k, -p)))


# Is an item answered better as it was released, beyond where its right option stands?
#
# A model that prefers the first option is right more often where the first is right. If the released options
# put it there more often than the shuffled ones do, that alone makes a difference. So outcomes are compared
# within an item, adjusted for the place of the right option: outcome = item + place + released.


METHOD = "sign flips of cluster scores, place of the right option taken out"


def placed_test(
    outcomes: ArrayLike,
    released: ArrayLike,
    items: Sequence[Hashable],
    places: Sequence[Hashable],
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> PairedTest | None:
    """One row per item and order of its options. None where place and release cannot be separated."""
    left = within_places(outcomes, released, items, places)
    groups = len(set(clusters))
    if groups < 2 or left is None:
        return None
    y_left, arm_left = left
    size = float(arm_left @ arm_left)
    value = float(arm_left @ y_left) / size
    scores, _ = cluster_sums(arm_left * (y_left - value * arm_left), clusters)
    # As in `paired`: an imagined cluster on either side, so that no difference at all is not certainty.
    squares = float((scores**2).sum()) + 2 * (size / groups) ** 2
    total = size * (1 + 2 / groups)
    error = float(np.sqrt(squares * groups / (groups - 1))) / total
    centre = value * size / total
    reach = float(special.stdtrit(groups - 1, 0.5 + level / 2)) * error
    under_null, _ = cluster_sums(arm_left * y_left, clusters)
    test = flip_test(under_null, permutations=permutations, seed=seed)
    # a difference of shares, as in `paired_test`
    ends = (max(centre - reach, -1.0), min(centre + reach, 1.0))
    interval = Interval(*ends, level, "cluster t, within items")
    n = len(set(items))
    return PairedTest(
        value,
        error,
        interval,
        test.p,
        test.p_tied,
        METHOD,
        n,
        groups,
        1.0,
        test.least,
        test.evaluated,
    )


def within_places(
    outcomes: ArrayLike,
    released: ArrayLike,
    items: Sequence[Hashable],
    places: Sequence[Hashable],
) -> tuple[Floats, Floats] | None:
    """Outcome and arm of every row, less what item and place explain. None where nothing of the arm is left."""
    y = np.asarray(outcomes, dtype=np.float64)
    arm = np.asarray(released, dtype=np.float64)
    known = _codes(items)
    stands = _codes(places)
    # One place is the yardstick of the others; all of them would add up to the item itself.
    dummies = [(stands == code).astype(np.float64) for code in range(1, int(stands.max()) + 1)]
    design = (
        np.stack([_within(dummy, known) for dummy in dummies], 1)
        if dummies
        else np.zeros((len(y), 0))
    )
    y_left, arm_left = (_residual(_within(array, known), design) for array in (y, arm))
    if float(arm_left @ arm_left) < 1e-6 * max(1.0, float(arm.sum())):
        return None
    return y_left, arm_left


def _within(values: Floats, codes: NDArray[np.int64]) -> Floats:
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    return np.asarray(values - means[codes], dtype=np.float64)


def _residual(values: Floats, design: Floats) -> Floats:
    if design.shape[1] == 0:
        return values
    weights, *_ = np.linalg.lstsq(design, values, rcond=None)
    return np.asarray(values - design @ weights, dtype=np.float64)


def _codes(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    known = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.fromiter((known[label] for label in labels), np.int64, len(labels))
