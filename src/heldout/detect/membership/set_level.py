"""From item scores to a statement about the set: suspects against items nobody can have seen.

An item score alone says how easy an item is. Only a comparison makes it evidence, and the only one
that needs no assumption about the model is with items of the same kind that it cannot have seen
(written after its training, or kept private). Without such items there is no p-value here, and the
detector says what would make it testable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.detect.blind import blind_area
from heldout.detect.outcome import Outcome, model_finding, not_testable
from heldout.detect.settings import Settings
from heldout.detect.tables import Floats, Scored, ScoreTables, metadata_column, strata
from heldout.errors import InputError
from heldout.stats import area, cluster_contrast, group_test

Mask = NDArray[np.bool_]
#: item scores, higher = more likely seen; or the reason why this model has none
ItemScores = Callable[[ScoreTables, Scored, Settings], "Floats | str"]
NEEDS = (
    "an item score has no reference of its own. Testable with items that no model can have seen: name "
    "them (--unseen FIELD=VALUE). Without them, order tests and overlap inflation are what is left"
)
DRAWS = 1_999  # of the interval: its ends are read to two digits
BLIND_TO = [
    "single items: an item score near chance is expected, the set is what is tested",
    "differences between the two sets of items that words and metadata show (see blind)",
]


@dataclass(frozen=True)
class ItemDetector:
    name: str
    summary: str
    score: ItemScores

    def find(self, tables: ScoreTables, settings: Settings) -> Iterator[Outcome]:
        for model in tables.models:
            yield self.one(tables, tables.scored(model), settings)

    def one(self, tables: ScoreTables, scored: Scored, settings: Settings) -> Outcome:
        values = self.score(tables, scored, settings)
        if isinstance(values, str):
            return not_testable(self.name, tables.benchmark, scored.model, values)
        if settings.unseen is None:
            return not_testable(self.name, tables.benchmark, scored.model, NEEDS)
        suspects = ~unseen_items(scored, settings)
        contrast = cluster_contrast(
            values, suspects, scored.clusters, draws=DRAWS, seed=settings.seed
        )
        tested = group_test(
            values,
            suspects,
            scored.clusters,
            strata(scored.frame, settings.strata),
            permutations=settings.permutations,
            seed=settings.seed,
        )
        if contrast is None or tested is None:
            reason = "fewer than 5 clusters of suspect, or of unseen items: too few to compare"
            return not_testable(self.name, tables.benchmark, scored.model, reason)
        return model_finding(
            self.name,
            tables.benchmark,
            scored.model,
            unit="questions",
            statistic=(f"area under the curve over {tested.unit}", tested.auc),
            effect=("mean score of suspect less unseen items", contrast.value, contrast.interval),
            error=contrast.error,
            p=tested.test.p,
            n=len(scored),
            clusters=len(set(scored.clusters)),
            blind_to=BLIND_TO,
            seed=settings.seed,
            table="scores",
            direction=None if np.sign(contrast.value) == np.sign(tested.auc - 0.5) else "none",
            details={
                "suspect_items": contrast.n[0],
                "unseen_items": contrast.n[1],
                "item_auc": area(values, suspects),
                "blind_auc": _blind(tables, scored, suspects),
                "p_tied": tested.test.p_tied,
                "permutations": tested.test.evaluated,
                "strata": list(settings.strata),
            },
        )


def _blind(tables: ScoreTables, scored: Scored, suspects: Mask) -> float:
    """The same for every model and score that covers the same items."""
    key = ("blind", tuple(scored.frame["benchmark_id"]), suspects.tobytes())
    if key not in tables.memo:
        tables.memo[key] = blind_area(scored.frame, suspects)
    return float(tables.memo[key])


def unseen_items(scored: Scored, settings: Settings) -> Mask:
    """Which items nobody can have seen, by the metadata field the user named."""
    assert settings.unseen is not None
    field, wanted = settings.unseen
    values = metadata_column(scored.frame, field)
    mask = np.fromiter((value == wanted for value in values), bool, len(values))
    if not mask.any() or mask.all():
        present = sorted({value for value in values if value is not None})[:8]
        raise InputError(
            f"--unseen {field}={wanted}: {int(mask.sum()):,} of {len(mask):,} items have it, and both "
            f"kinds are needed; values of '{field}' are {', '.join(present) or 'not there'}"
        )
    return mask


def hardest_mean(values: Floats, counts: Floats, share: float) -> Floats:
    """Mean of the lowest ``share`` of each item's tokens, of at least one: answers have few.

    ``values`` hold all items' tokens one after the other, ``counts`` how many each item has.
    """
    sizes = counts.astype(np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    ordered = values[np.lexsort((values, owner))]
    place = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.maximum(1, (sizes * share).astype(np.int64))
    chosen = place < kept[owner]
    sums = np.bincount(owner[chosen], weights=ordered[chosen], minlength=len(sizes))
    return np.asarray(sums / kept, dtype=np.float64)
