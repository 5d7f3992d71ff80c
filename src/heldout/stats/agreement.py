"""Agreement between raters: Cohen's kappa for two, Krippendorff's alpha for any number and for gaps.

Intervals leave out one cluster after the other (the jackknife, Student's t): pairs that share a
benchmark picture are judged alike and are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from heldout.stats.intervals import Interval

Level = Literal["nominal", "ordinal", "interval"]
Units = Sequence[Mapping[str, float]]  # per unit what each rater said, as a code
Floats = NDArray[np.float64]
FEW = 8  # clusters for an interval, as in subset_means
_FLAT = 1e-12


class RaterAgreement(NamedTuple):
    """``value`` is None if it is not defined: the ratings do not vary, or no unit has two ratings."""

    coefficient: str  # "Cohen's kappa" or "Krippendorff's alpha"
    value: float | None
    interval: Interval | None  # None where too few clusters carry it, or nothing varies
    observed: float | None  # share of pairs of ratings that are equal
    units: int  # with at least two ratings
    raters: int
    clusters: int


def cohen_kappa(units: Units, clusters: Sequence[str], *, level: float = 0.95) -> RaterAgreement:
    """Chance-corrected agreement of exactly two raters on the units both rated (Cohen 1960)."""
    raters = sorted({rater for unit in units for rater in unit})
    if len(raters) != 2:
        raise ValueError(f"Cohen's kappa is of two raters, not {len(raters)}")
    both = [index for index, unit in enumerate(units) if len(unit) == 2]
    codes = _codes(units)
    tables = np.zeros((len(both), len(codes), len(codes)))
    for place, index in enumerate(both):
        first, second = (codes[units[index][rater]] for rater in raters)
        tables[place, first, second] = 1.0
    return _agreement(
        "Cohen's kappa", tables, [clusters[index] for index in both], 2, level, _kappa_of
    )


def krippendorff_alpha(
    units: Units, clusters: Sequence[str], *, scale: Level = "nominal", level: float = 0.95
) -> RaterAgreement:
    """Alpha of any number of raters, each of whom may have left units out (Krippendorff 2011)."""
    codes = _codes(units)
    values = np.array(list(codes), dtype=np.float64)
    several = [index for index, unit in enumerate(units) if len(unit) > 1]
    tables = np.zeros((len(several), len(codes), len(codes)))
    for place, index in enumerate(several):
        counts = np.bincount(
            [codes[rating] for rating in units[index].values()], minlength=len(codes)
        )
        pairs = np.outer(counts, counts) - np.diag(counts)
        tables[place] = pairs / (counts.sum() - 1)

    def alpha(table: Floats) -> float | None:
        return _alpha_of(table, values, scale)

    raters = len({rater for unit in units for rater in unit})
    own = [clusters[index] for index in several]
    return _agreement("Krippendorff's alpha", tables, own, raters, level, alpha)


def agreement(
    units: Units, clusters: Sequence[str], *, scale: Level = "nominal", level: float = 0.95
) -> RaterAgreement:
    """Kappa for two raters and categories; alpha for more raters, or for an ordered scale."""
    raters = {rater for unit in units for rater in unit}
    if len(raters) == 2 and scale == "nominal":
        return cohen_kappa(units, clusters, level=level)
    return krippendorff_alpha(units, clusters, scale=scale, level=level)


def _agreement(
    name: str,
    tables: Floats,
    clusters: Sequence[str],
    raters: int,
    level: float,
    coefficient: Callable[[Floats], float | None],
) -> RaterAgreement:
    total = tables.sum(axis=0)
    value = coefficient(total) if len(tables) else None
    observed = float(np.trace(total) / total.sum()) if total.sum() else None
    groups = list(dict.fromkeys(clusters))
    interval = None
    if value is not None and len(groups) >= FEW:
        interval = _jackknife(tables, clusters, groups, value, level, coefficient)
    return RaterAgreement(name, value, interval, observed, len(tables), raters, len(groups))


def _jackknife(
    tables: Floats,
    clusters: Sequence[str],
    groups: Sequence[str],
    value: float,
    level: float,
    coefficient: Callable[[Floats], float | None],
) -> Interval | None:
    place = {name: index for index, name in enumerate(groups)}
    sums = np.zeros((len(groups), *tables.shape[1:]))
    np.add.at(sums, [place[name] for name in clusters], tables)
    total = sums.sum(axis=0)
    left_out = [coefficient(total - own) for own in sums]
    if any(estimate is None for estimate in left_out):
        return None  # one cluster alone makes the ratings vary
    others = np.array(left_out, dtype=np.float64)
    count = len(groups)
    error = float(np.sqrt((count - 1) / count * ((others - others.mean()) ** 2).sum()))
    if error < _FLAT:
        return None
    reach = float(special.stdtrit(count - 1, 0.5 + level / 2)) * error
    return Interval(max(-1.0, value - reach), min(1.0, value + reach), level, "cluster jackknife t")


def _kappa_of(table: Floats) -> float | None:
    total = float(table.sum())
    if not total:
        return None
    expected = float((table.sum(axis=1) * table.sum(axis=0)).sum() / total**2)
    if expected > 1.0 - _FLAT:
        return None  # both said one thing throughout: agreement by chance is perfect, too
    return (float(np.trace(table) / total) - expected) / (1.0 - expected)


def _alpha_of(coincidences: Floats, values: Floats, scale: Level) -> float | None:
    margins = coincidences.sum(axis=1)
    total = float(margins.sum())
    if total <= 1:
        return None
    distance = _distance(margins, values, scale)
    expected = float((np.outer(margins, margins) * distance).sum()) / (total - 1)
    if expected < _FLAT:
        return None
    return 1.0 - float((coincidences * distance).sum()) / expected


def _distance(margins: Floats, values: Floats, scale: Level) -> Floats:
    if scale == "nominal":
        return np.asarray(1.0 - np.eye(len(values)))
    if scale == "interval":
        return np.asarray((values[:, None] - values[None, :]) ** 2)
    # Ordinal: ranks are as far apart as there are ratings from the middle of one to that of the other.
    middle = np.cumsum(margins) - margins / 2
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)


def _codes(units: Units) -> dict[float, int]:
    return {
        value: code for code, value in enumerate(sorted({v for u in units for v in u.values()}))
    }
