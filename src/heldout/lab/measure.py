"""From counts to the rates of one transform, or of several pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.lab.cascade import Judged
from heldout.lab.curve import Curve, auc_interval, bin_of_threshold, bins_of, placements
from heldout.lab.result import Estimate, Measured, Operating, Rate, Threshold, Verified, rate
from heldout.lab.tally import Tally

HALF = 0.495  # of the area: sides are whole pixels


@dataclass(frozen=True)
class Figures:
    """Everything counted, for all transforms."""

    tally: Tally
    area_kept: NDArray[np.float64]
    clusters: Sequence[str]  # of the queries
    thresholds: Sequence[Threshold]
    judged: Judged | None
    shortlist: int


def measure(
    figures: Figures, name: str, family: str, description: str, columns: list[int], pool: int
) -> Measured:
    """``columns`` are the transforms counted together, ``pool`` their number among the pools."""
    tally = figures.tally
    made = tally.made[:, columns]
    first = made & (tally.above[:, columns] == 0)
    clear = first & (tally.level[:, columns] == 0)
    own = tally.own[:, columns][made]
    curve = tally.curve(columns)
    area = figures.area_kept[:, columns][made]
    return Measured(
        name=name,
        family=family,
        description=description,
        queries=int(made.sum()),
        skipped=int((~made).sum()),
        area_kept=float(np.median(area)) if family == "cropping" and len(area) else None,
        recall_at_1=rate(clear.sum(axis=1), made.sum(axis=1), figures.clusters),
        recall_at_k=rate(
            tally.among(figures.shortlist)[:, columns].sum(axis=1),
            made.sum(axis=1),
            figures.clusters,
        ),
        ties=int((first & ~clear).sum()),
        auc=_auc(figures, curve, columns, pool),
        median_similarity=float(np.median(own)) / 1e6 if len(own) else None,
        operating=[
            _operating(figures, curve, index, threshold, columns)
            for index, threshold in enumerate(figures.thresholds)
            if threshold.value is not None
        ],
        verified=_verified(figures, columns, made, family == "cropping"),
    )


def _auc(figures: Figures, curve: Curve, columns: list[int], pool: int) -> Estimate:
    tally = figures.tally
    made = tally.made[:, columns]
    value = curve.auc()
    if np.isnan(value):
        return Estimate(value=None, low=0.0, high=1.0, level=0.95, method="no pairs")
    placed = np.where(made, placements(curve.negatives)[bins_of(tally.own[:, columns])], 0.0)
    # Every query meets the same number of others, once for each transform that was made of it.
    others = int(curve.negatives.sum()) / made.sum()
    met = made.sum(axis=1).astype(np.float64)
    _, members = np.unique(np.asarray(figures.clusters, dtype=str), return_inverse=True)

    def grouped(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(members, weights=values).astype(np.float64)

    placed_others = tally.placed[:, pool] / (2.0 * int(curve.positives.sum()))
    interval = auc_interval(
        value,
        grouped(placed.sum(axis=1)),
        grouped(met),
        grouped(placed_others),
        grouped(met * others),
    )
    return Estimate(value=value, **interval._asdict())


def _operating(
    figures: Figures, curve: Curve, index: int, threshold: Threshold, columns: list[int]
) -> Operating:
    assert threshold.value is not None
    limit = bin_of_threshold(threshold.value)
    tally = figures.tally
    made = tally.made[:, columns]
    hits = made & (bins_of(tally.own[:, columns]) >= limit)
    pairs = int(curve.negatives.sum())
    false = int(curve.negatives[limit:].sum())
    low = high = None
    if threshold.kind == "degree" and pairs:
        sizes = made.sum(axis=1) * (pairs // int(made.sum()))
        by_query = tally.false[:, columns, index].sum(axis=1)
        bounds = rate(by_query, sizes, figures.clusters)
        low, high = bounds.low, bounds.high
    return Operating(
        threshold=threshold.name,
        tpr=rate(hits.sum(axis=1), made.sum(axis=1), figures.clusters),
        fpr=false / pairs if pairs else None,
        false_pairs=false,
        pairs=pairs,
        fpr_low=low,
        fpr_high=high,
    )


def _verified(
    figures: Figures, columns: list[int], made: NDArray[np.bool_], cropped: bool
) -> Verified | None:
    judged = figures.judged
    if judged is None:
        return None
    array = (judged.shortlisted & judged.accepted)[:, columns]
    half = made & (figures.area_kept[:, columns] >= HALF)

    def share(hits: NDArray[np.bool_], of: NDArray[np.bool_]) -> Rate:
        return rate((hits & of).sum(axis=1), of.sum(axis=1), figures.clusters)

    return Verified(
        shortlisted=share(judged.shortlisted[:, columns], made),
        accepted=share(judged.accepted[:, columns], made),
        found=share(array, made),
        undecided=share((judged.shortlisted & judged.undecided)[:, columns], made),
        found_of_half=share(array, half) if cropped else None,
        false_alarms=rate(
            judged.false[:, columns].sum(axis=1),
            judged.others[:, columns].sum(axis=1),
            figures.clusters,
        ),
    )
