"""How many false alarms a test of a given size may give: the band a calibration has to lie in."""

from __future__ import annotations

import numpy as np
from scipy import special


def binomial_band(cells: int, alpha: float, level: float = 0.99) -> tuple[int, int]:
    """The counts between which Binomial(cells, alpha) lies with probability at least ``level``."""
    tail = (1.0 - level) / 2.0
    at_most = special.bdtr(np.arange(cells + 1), cells, alpha)
    low = int(np.searchsorted(at_most, tail, side="right"))
    high = int(np.searchsorted(at_most, 1.0 - tail, side="left"))
    return low, high
