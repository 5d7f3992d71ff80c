"""max-renyi-k: how uncertain the model is where it is most uncertain (Li et al. 2024).

The recorded mu is the mean of log p under the model itself, so -mu is the Shannon entropy, the Rényi
entropy of order 1, exactly. Other orders need the whole distribution, which no table keeps.
"""

from __future__ import annotations

from heldout.detect.membership.set_level import ItemDetector, hardest_mean
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables


def max_renyi(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    if not scored.has("mu"):
        return "full-vocabulary mu was not recorded: the entropy at a position is not known"
    # The largest entropies are the lowest mu; less uncertain = more likely seen.
    return hardest_mean(scored.flat("mu"), scored.counts, settings.share)


MAX_RENYI = ItemDetector("max-renyi-k", "negative entropy at the most uncertain tokens", max_renyi)
