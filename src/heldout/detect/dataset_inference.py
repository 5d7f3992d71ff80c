"""dataset-inference: item scores combined as one half of the images says, tested on the other half.

Each item score sees membership a little, and which of them sees it best depends on the model. The weights that tell
suspect from unseen items best are learnt on a random half of the images (Maini et al. 2024), and the weighted score is
tested on the other half, whose labels had no part in them: its p is that of any item score. No weight is negative,
so that higher still means more likely seen and nothing else about the two sets can be learnt in the wrong direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heldout.detect.detector import MAINI
from heldout.detect.item_scores import MEMBERSHIP, NEEDS, Mask, item_detector, unseen_items
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables, strata
from heldout.stats import within_strata

NAME = "dataset-inference"
LEAST_IMAGES = 10  # of either kind, so that both halves have five
RIDGE = 0.1  # item scores are nearly the same score: without it the weights are noise
_COIN = 31  # keeps the draw of halves apart from the permutations of the same seed


def learnt_score(
    tables: ScoreTables, scored: ModelScores, settings: DetectSettings
) -> Floats | str:
    weighted = _weighted(tables, scored, settings)
    return weighted if isinstance(weighted, str) else weighted[0]


def second_half(scored: ModelScores, settings: DetectSettings) -> Mask:
    """Items of the images that the weights were not learnt on: half of the suspects, and half of the others."""
    suspects = ~unseen_items(scored, settings)
    suspected = {name for name, suspect in zip(scored.clusters, suspects, strict=True) if suspect}
    rng = np.random.default_rng([settings.seed, _COIN])
    tested: set[str] = set()
    for names in (sorted(suspected), sorted(set(scored.clusters) - suspected)):
        order = rng.permutation(len(names))
        tested |= {names[place] for place in order[len(names) // 2 :]}
    return np.fromiter((name in tested for name in scored.clusters), bool, len(scored))


def _weighted(
    tables: ScoreTables, scored: ModelScores, settings: DetectSettings
) -> tuple[Floats, dict[str, float]] | str:
    if settings.unseen is None:
        return NEEDS
    suspects = ~unseen_items(scored, settings)
    for kind, items in (("suspect", suspects), ("unseen", ~suspects)):
        images = len({name for name, item in zip(scored.clusters, items, strict=True) if item})
        if images < LEAST_IMAGES:
            return f"{images} images of {kind} items: {LEAST_IMAGES} are needed, half of them to learn the weights"
    features: dict[str, Floats] = {}
    for detector in MEMBERSHIP:
        values = detector.score(tables, scored, settings)
        if not isinstance(values, str) and np.isfinite(values).all() and values.std() > 0:
            features[detector.name] = values
    if len(features) < 2:
        return "fewer than two item scores are recorded: there is nothing to combine"
    learning = ~second_half(scored, settings)
    labels = strata(scored.frame, settings.strata)
    columns = np.stack(list(features.values()), axis=1)
    # In units of their spread over images of the learning half; the tested half has no part in them.
    centre, spread = columns[learning].mean(0), np.maximum(columns[learning].std(0), 1e-12)
    columns = (columns - centre) / spread
    chosen = (
        None
        if labels is None
        else [label for label, own in zip(labels, learning, strict=True) if own]
    )
    clusters = [name for name, own in zip(scored.clusters, learning, strict=True) if own]
    level = np.stack(
        [within_strata(column[learning], suspects[learning], chosen) for column in columns.T],
        axis=1,
    )
    weights = _weights(level, suspects[learning], clusters)
    return columns @ weights, dict(zip(features, weights.tolist(), strict=True))


def _weights(columns: Floats, suspects: Mask, clusters: Sequence[str]) -> Floats:
    """The least-squares weights, none negative, that tell the images of suspect items from the others."""
    from scipy.optimize import nnls

    names = sorted(set(clusters))
    codes = np.searchsorted(names, clusters)
    sizes = np.bincount(codes)
    means = (
        np.stack([np.bincount(codes, weights=column) for column in columns.T], axis=1)
        / sizes[:, None]
    )
    shares = np.bincount(codes, weights=suspects.astype(np.float64)) / sizes
    means, shares = means - means.mean(0), shares - shares.mean()
    ridge = np.sqrt(RIDGE * len(names)) * np.eye(means.shape[1])
    weights, _ = nnls(np.vstack([means, ridge]), np.concatenate([shares, np.zeros(len(ridge))]))
    if not weights.any():  # every score points away from memory: nothing to choose between
        weights = np.ones(len(weights))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _details(tables: ScoreTables, scored: ModelScores, settings: DetectSettings) -> dict[str, Any]:
    weighted = _weighted(tables, scored, settings)
    if isinstance(weighted, str):
        return {}
    learning = ~second_half(scored, settings)
    images = {name for name, own in zip(scored.clusters, learning, strict=True) if own}
    return {"weights": weighted[1], "learnt_on_images": len(images)}


DETECTOR = item_detector(
    NAME,
    "item scores weighted as half of the images says, tested on the other half",
    learnt_score,
    citations=(MAINI,),
    tested=second_half,
    details=_details,
)
