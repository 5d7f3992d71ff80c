"""image-membership: is the model less uncertain over picture, question and answer of suspect items? (Li et al. 2024)

No token of a picture is predicted, so that a log-probability of the picture does not exist; the entropies of what a
model would write at the picture's places do. An item score is the mean over three slices (the picture's places, the
question's, the answer's) of the negative Rényi entropy of order ½ at the most uncertain tenth of their places, each in
units of its spread over the benchmark. Order and share were chosen on two bases of the lab's medical tier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from heldout.detect.detector import LI, Need
from heldout.detect.finding import NotRecorded
from heldout.detect.item_scores import item_detector, unseen_items
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables
from heldout.model import ORDERS, SHARES, SLICES
from heldout.stats import area

NAME = "image-membership"
ORDER, SHARE = ORDERS[0], SHARES[1]  # one half, and a tenth of the places
LACKING = NotRecorded(
    "needs the entropies over picture, question and answer: heldout score --entropies, with a local "
    "checkpoint or an ONNX folder"
)


def image_score(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> Floats | str:
    slices = _slices(tables, scored)
    return slices if isinstance(slices, str) else np.asarray(np.mean(list(slices.values()), axis=0))


def _slices(tables: ScoreTables, scored: ModelScores) -> dict[str, Floats] | str:
    """By slice, how certain the model is of each item there, in standard deviations."""
    if tables.entropies is None:
        return LACKING
    cell = (
        (pl.col("model") == scored.model) & (pl.col("order") == ORDER) & (pl.col("share") == SHARE)
    )
    rows = tables.entropies.filter(cell)
    if rows.is_empty():
        return LACKING
    certain: dict[str, Floats] = {}
    for name in SLICES:
        own = rows.filter(pl.col("slice") == name)
        known = dict(zip(own["benchmark_id"], own["entropy"], strict=True))
        missing = sum(item not in known for item in scored.frame["benchmark_id"])
        if missing:
            return (
                f"{missing:,} items have no entropies over the {name}; it compares all three slices"
            )
        values = np.asarray([known[item] for item in scored.frame["benchmark_id"]])
        certain[name] = (values.mean() - values) / max(float(values.std()), 1e-12)
    return certain


def _details(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> dict[str, Any]:
    """``slices``: the area under the curve of each alone."""
    slices = _slices(tables, scored)
    if isinstance(slices, str):
        return {}
    suspects = ~unseen_items(scored, settings)
    areas = {name: area(values, suspects) for name, values in slices.items()}
    return {"slices": areas, "order": ORDER, "share": SHARE}


DETECTOR = item_detector(
    NAME,
    "negative entropy over picture, question and answer",
    image_score,
    requires={Need.VOCABULARY, Need.ENTROPIES},
    citations=(LI,),
    details=_details,
)
