"""Is an item answered better as it was released, beyond where its right option stands?

A model that likes the first option is right more often where the first is right. If the released options
put it there more often than the shuffled ones do, that alone makes a difference. So outcomes are compared
within an item, with the place of the right option taken out: outcome = item + place + released.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from heldout.stats.intervals import Interval
from heldout.stats.paired import PairedTest, cluster_sums
from heldout.stats.permutation import PERMUTATIONS, flip_test

Floats = NDArray[np.float64]
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
    """One row per item and order of its options. None where place and release cannot be told apart."""
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
    size = float(arm_left @ arm_left)
    groups = len(set(clusters))
    if groups < 2 or size < 1e-6 * max(1.0, float(arm.sum())):
        return None
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
    ends = (max(centre - reach, -1.0), min(centre + reach, 1.0))  # of shares, as in `paired`
    interval = Interval(*ends, level, "cluster t, within items")
    n = len(set(items))
    return PairedTest(value, error, interval, test.p, test.p_tied, METHOD, n, groups, 1.0)


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
