"""How near a set of pictures comes to the corpus: its nearest similarities in five numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

AT = (0.0, 0.05, 0.5, 0.95, 1.0)


class Quantiles(NamedTuple):
    """Nearest cosine similarities; 1 less them are the distances of published tables."""

    min: float
    p5: float
    median: float
    p95: float
    max: float


def quantiles_of(similarities: ArrayLike) -> Quantiles | None:
    """None where there is no picture."""
    values = np.asarray(similarities, dtype=np.float64)
    return Quantiles(*map(float, np.quantile(values, AT))) if len(values) else None
