"""perplexity-ratio: how much likelier the answer is than to a reference model (Carlini et al. 2021)."""

from __future__ import annotations

import numpy as np

from heldout.detect.membership.set_level import ItemDetector
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables


def perplexity_ratio(tables: ScoreTables, scored: Scored, settings: Settings) -> Floats | str:
    name = settings.reference_model
    if name is None:
        return "no reference model is named (--reference, or a --baseline)"
    if name == scored.model:
        return "this is the reference model itself"
    if name not in tables.models:
        return f"the scores of the reference model {name} did not pass their self-checks"
    unlike = tables.comparable(scored.model, name)
    if unlike is not None:
        return unlike
    reference = tables.scored(name)
    known = dict(zip(reference.frame["benchmark_id"], reference.means, strict=True))
    missing = [item for item in scored.frame["benchmark_id"] if item not in known]
    if missing:
        return f"{len(missing):,} items were not scored by the reference model {name}"
    theirs = np.asarray([known[item] for item in scored.frame["benchmark_id"]])
    return np.asarray(scored.means - theirs, dtype=np.float64)


PERPLEXITY_RATIO = ItemDetector(
    "perplexity-ratio", "log-probability above that of a reference model", perplexity_ratio
)
