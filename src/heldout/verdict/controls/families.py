"""How far clean models differ among themselves: where would another one lie?

Models of one base are one observation: their mean stands for the family. The interval is the one that a new
family, drawn like the others, falls into 19 times out of 20 (Student's prediction interval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from heldout.detect import ALPHA, DetectSettings
from heldout.verdict.claim import Control

SPREAD = "spread of clean models"
ENOUGH_FAMILIES = 3  # whose spread is worth an interval


def family_means(values: Mapping[str, float], settings: DetectSettings) -> dict[str, float]:
    """The mean value of each family of references; models without a named family are one family."""
    groups: dict[str, list[float]] = {}
    for model, value in values.items():
        groups.setdefault(settings.family_of(model), []).append(value)
    return {family: float(np.mean(group)) for family, group in groups.items()}


def spread_control(own: float, theirs: Mapping[str, float], settings: DetectSettings) -> Control:
    """``theirs``: the same of every reference."""
    means = family_means(theirs, settings)
    if len(means) < ENOUGH_FAMILIES:
        count = len(theirs)
        reason = (
            f"its own value is {own:.3g}, and {count} clean reference{'' if count == 1 else 's'} "
            f"of {len(means)} famil{'y' if len(means) == 1 else 'ies'} cannot tell how much clean models "
            f"differ: name at least {ENOUGH_FAMILIES} families"
        )
        return Control(name=SPREAD, outcome="missing", reason=reason)
    return outside_spread(SPREAD, own, list(means.values()), "clean model", len(means))


def outside_spread(
    name: str, own: float, theirs: Sequence[float], kind: str, independent: int
) -> Control:
    """Does ``own`` lie above where another of this ``kind`` would? ``independent`` of them are.

    At least two are needed.
    """
    mean, spread = float(np.mean(theirs)), float(np.std(theirs, ddof=1))
    quantile = float(special.stdtrit(independent - 1, 1 - ALPHA / 2))
    high = mean + quantile * spread * float(np.sqrt(1 + 1 / independent))
    message = f"its own value is {own:.3g}, where another {kind} would lie up to {high:.3g}"
    return Control(name=name, outcome="passed" if own > high else "failed", reason=message)
