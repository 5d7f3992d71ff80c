"""Δ: how far an item's score lies above the median of the other models in the cohort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.detect.membership import LOSS, MIN_K_PLUS_PLUS
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables

SMALLEST = 3  # models: with two, the median of the others is the other


def cohort_scores(
    tables: ScoreTables, settings: DetectSettings, models: Sequence[str] | None = None
) -> tuple[list[str], list[str], Floats, str] | str:
    """(item ids, clusters, models × items, which score), or the reason why there is no cohort.

    min-k++ where every model has it, as published; else the mean log-probability.
    """
    names = list(models if models is not None else tables.models)
    for other in names[1:]:
        unlike = tables.comparable(names[0], other)
        if unlike is not None:
            return unlike
    if not names:
        return "no model has scores"
    cohort = tables.common(names)
    if not len(cohort[0]):
        return "no item was scored by all models"
    for detector in (MIN_K_PLUS_PLUS, LOSS):
        found = [detector.score(tables, scored, settings) for scored in cohort]
        numbers = [array for array in found if not isinstance(array, str)]
        if len(numbers) == len(found):
            ids: list[str] = cohort[0].frame["benchmark_id"].to_list()
            return ids, cohort[0].clusters, np.stack(numbers), detector.name
    return "no score is known of every model"


def cohort_delta(scores: Floats) -> Floats:
    """Row by row the score less the median of all other rows."""
    models = len(scores)
    out = np.empty_like(scores)
    for row in range(models):
        out[row] = scores[row] - np.median(np.delete(scores, row, axis=0), axis=0)
    return out
