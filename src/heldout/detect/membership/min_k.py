"""min-k: the mean log-probability of the hardest tokens (Shi et al. 2024)."""

from __future__ import annotations

from heldout.detect.membership.set_level import ItemDetector, hardest_mean
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables


def min_k(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    if not scored.has("logprobs"):
        return "per-token log-probabilities were not recorded"
    return hardest_mean(scored.flat("logprobs"), scored.counts, settings.share)


MIN_K = ItemDetector("min-k", "mean log-probability of the answer's hardest tokens", min_k)
