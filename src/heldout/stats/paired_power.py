"""How many pairs are needed to see a difference of two paired proportions."""

from __future__ import annotations

import numpy as np
from scipy import special


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
    difference. ``design_effect`` is what clusters cost.
    """
    drop = abs(difference)
    if not 0.0 < drop <= 1.0:
        raise ValueError("a difference of proportions to be seen lies above 0 and at most at 1")
    share = min(1.0, max(discordant, drop))
    level, reach = (float(special.ndtri(one)) for one in (1.0 - alpha / 2, power))
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
