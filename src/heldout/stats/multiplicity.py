"""A family of tests corrected as a whole: Bonferroni, Benjamini–Hochberg, Benjamini–Yekutieli.

Holm's step-down lives in ``grouping``; ``adjust`` calls all four by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.stats.grouping import holm

Method = Literal["holm", "bonferroni", "bh", "by"]
METHODS: tuple[Method, ...] = ("holm", "bonferroni", "bh", "by")


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Every p times the number of tests: holds whatever the dependence, and costs the most power."""
    p = _checked(p_values)
    return [float(one) for one in np.minimum(1.0, p * len(p))]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """q-values: among what is called, the expected share of mistakes. For positive dependence."""
    return _step_up(_checked(p_values), 1.0)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """The same promise under any dependence between the tests, for a factor of Σ 1/i."""
    p = _checked(p_values)
    return _step_up(p, float((1.0 / np.arange(1, len(p) + 1)).sum()))


def adjust(p_values: Sequence[float], method: Method) -> list[float]:
    if method == "holm":
        return holm([float(one) for one in _checked(p_values)])
    if method == "bonferroni":
        return bonferroni(p_values)
    if method == "bh":
        return benjamini_hochberg(p_values)
    if method == "by":
        return benjamini_yekutieli(p_values)
    raise ValueError(f"'{method}' is no correction; there are {', '.join(METHODS)}")


def _step_up(p: NDArray[np.float64], factor: float) -> list[float]:
    count = len(p)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * count / np.arange(1, count + 1) * factor
    adjusted = np.empty_like(p)
    # From the largest down: a smaller p never gets a larger q than one above it.
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return [float(one) for one in adjusted]


def _checked(p_values: Sequence[float]) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.size and not ((p >= 0) & (p <= 1)).all():  # NaN fails this too
        raise ValueError("p-values lie between 0 and 1")
    return p
