"""min-k++: the hardest tokens in units of the whole vocabulary's spread (Zhang et al. 2025)."""

from __future__ import annotations

import numpy as np

from heldout.detect.membership.set_level import ItemDetector, hardest_mean
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables

# A model that is certain has no spread; without a floor one such token would outweigh a benchmark.
FLOOR = 1e-6


def min_k_plus_plus(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    if not all(scored.has(column) for column in ("logprobs", "mu", "sigma")):
        return "full-vocabulary mu and sigma were not recorded: this backend cannot give min-k++"
    centred = scored.flat("logprobs") - scored.flat("mu")
    standard = centred / np.maximum(scored.flat("sigma"), FLOOR)
    return hardest_mean(standard, scored.counts, settings.share)


MIN_K_PLUS_PLUS = ItemDetector(
    "min-k++", "hardest tokens, standardised by the whole vocabulary", min_k_plus_plus
)
