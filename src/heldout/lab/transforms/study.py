"""How well an encoder, and the cascade behind it, finds pictures again after a transform.

The seed's study (section 6 of Data Leakage in Visual Datasets) on any collection: queries are the
collection's own pictures under a transform, the right answer is the picture itself. In an audit it
is the other way round: the benchmark's picture is as it was published and the copy in the corpus is
transformed. ``TransformSettings.side`` chooses; it matters to views of the query and to judges.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heldout.engine import Engine
from heldout.errors import InputError
from heldout.lab.settings import TransformSettings
from heldout.lab.transforms._counts import (
    SimilarityCounts,
    SimilarityCurve,
    auc_interval,
    bin_of_threshold,
    bins_of,
    placements,
    tally,
    threshold_of_bin,
)
from heldout.lab.transforms.cascade import CascadeCounts, PairJudge, judge_shortlists
from heldout.lab.transforms.queries import (
    Collection,
    Item,
    Parts,
    QueryMaker,
    StudyEncoder,
    Views,
    encode_collection,
    encode_queries,
)
from heldout.lab.transforms.result import (
    AreaEstimate,
    CascadeRates,
    CountedRate,
    Operating,
    OperatingThreshold,
    RocPoint,
    SimilarPair,
    TransformRates,
    TransformStudy,
    rate,
)
from heldout.lab.transforms.transform import TRANSFORMS, Transform

# From counts to the rates of one transform, or of several pooled.


HALF = 0.495  # of the area: sides are whole pixels


@dataclass(frozen=True)
class Figures:
    """Everything counted, for all transforms."""

    tally: SimilarityCounts
    area_kept: NDArray[np.float64]
    clusters: Sequence[str]  # of the queries
    thresholds: Sequence[OperatingThreshold]
    judged: CascadeCounts | None
    shortlist: int


def measure(
    figures: Figures, name: str, family: str, description: str, columns: list[int], pool: int
) -> TransformRates:
    """``columns`` are the transforms counted together, ``pool`` their number among the pools."""
    tally = figures.tally
    applies = tally.made[:, columns]
    first = applies & (tally.above[:, columns] == 0)
    clear = first & (tally.level[:, columns] == 0)
    own = tally.own[:, columns][applies]
    curve = tally.curve(columns)
    area = figures.area_kept[:, columns][applies]
    return TransformRates(
        name=name,
        family=family,
        description=description,
        queries=int(applies.sum()),
        skipped=int((~applies).sum()),
        area_kept=float(np.median(area)) if family == "cropping" and len(area) else None,
        recall_at_1=rate(clear.sum(axis=1), applies.sum(axis=1), figures.clusters),
        recall_at_k=rate(
            tally.among(figures.shortlist)[:, columns].sum(axis=1),
            applies.sum(axis=1),
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
        verified=_verified(figures, columns, applies, family == "cropping"),
    )


def _auc(figures: Figures, curve: SimilarityCurve, columns: list[int], pool: int) -> AreaEstimate:
    tally = figures.tally
    applies = tally.made[:, columns]
    value = curve.auc()
    if np.isnan(value):
        return AreaEstimate(value=None, low=0.0, high=1.0, level=0.95, method="no pairs")
    placed = np.where(applies, placements(curve.negatives)[bins_of(tally.own[:, columns])], 0.0)
    # Every query meets the same number of others, once for each transform that was made of it.
    others = int(curve.negatives.sum()) / applies.sum()
    met = applies.sum(axis=1).astype(np.float64)
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
    return AreaEstimate(value=value, **interval._asdict())


def _operating(
    figures: Figures,
    curve: SimilarityCurve,
    index: int,
    threshold: OperatingThreshold,
    columns: list[int],
) -> Operating:
    assert threshold.value is not None
    limit = bin_of_threshold(threshold.value)
    tally = figures.tally
    applies = tally.made[:, columns]
    hits = applies & (bins_of(tally.own[:, columns]) >= limit)
    pairs = int(curve.negatives.sum())
    false = int(curve.negatives[limit:].sum())
    low = high = None
    if threshold.kind == "degree" and pairs:
        sizes = applies.sum(axis=1) * (pairs // int(applies.sum()))
        by_query = tally.false[:, columns, index].sum(axis=1)
        bounds = rate(by_query, sizes, figures.clusters)
        low, high = bounds.low, bounds.high
    return Operating(
        threshold=threshold.name,
        tpr=rate(hits.sum(axis=1), applies.sum(axis=1), figures.clusters),
        fpr=false / pairs if pairs else None,
        false_pairs=false,
        pairs=pairs,
        fpr_low=low,
        fpr_high=high,
    )


def _verified(
    figures: Figures, columns: list[int], applies: NDArray[np.bool_], cropped: bool
) -> CascadeRates | None:
    judged = figures.judged
    if judged is None:
        return None
    array = (judged.shortlisted & judged.accepted)[:, columns]
    half = applies & (figures.area_kept[:, columns] >= HALF)

    def share(hits: NDArray[np.bool_], of: NDArray[np.bool_]) -> CountedRate:
        return rate((hits & of).sum(axis=1), of.sum(axis=1), figures.clusters)

    return CascadeRates(
        shortlisted=share(judged.shortlisted[:, columns], applies),
        accepted=share(judged.accepted[:, columns], applies),
        found=share(array, applies),
        undecided=share((judged.shortlisted & judged.undecided)[:, columns], applies),
        found_of_half=share(array, half) if cropped else None,
        false_alarms=rate(
            judged.false[:, columns].sum(axis=1),
            judged.others[:, columns].sum(axis=1),
            figures.clusters,
        ),
    )


# The seed's degrees, measured for CLIP ViT cosines. Pass them for such encoders only.
SEED_DEGREES: Mapping[str, float] = {"hard": 0.98, "soft": 0.95}
_CLOSEST = 20


def _chosen(names: Sequence[str]) -> tuple[Transform, ...]:
    unknown = [name for name in names if name not in TRANSFORMS]
    if unknown:
        raise InputError(
            f"transforms {unknown[0]}: there is no such transform; there are {', '.join(TRANSFORMS)}"
        )
    # The original is the yardstick of every other row and calibrates the thresholds.
    return tuple(TRANSFORMS[name] for name in dict.fromkeys(("original", *(names or TRANSFORMS))))


def study_transforms(
    collection: Collection,
    encoder: StudyEncoder,
    settings: TransformSettings | None = None,
    *,
    views: Views | None = None,
    parts: Parts | None = None,
    judge: PairJudge | None = None,
    engine: Engine | None = None,
    quiet: bool = False,
) -> TransformStudy:
    """Every rate of the study for one encoder, and for the cascade where there is a ``judge``."""
    settings = settings or TransformSettings()
    transforms = _chosen(settings.transforms)
    rest: Collection = collection
    strangers: tuple[Item, ...] = ()
    if any(transform.others for transform in transforms):
        rest, strangers = _reserve(collection, settings.seed)
    positions = rest.sample(settings.queries, settings.seed)
    if len(rest) < 2 or not positions:
        raise InputError(
            f"{collection.name} has {len(collection)} usable pictures; the study needs at least "
            f"8 to compare and to fill figures with"
        )
    maker = QueryMaker(transforms, strangers, settings.seed)
    with tempfile.TemporaryDirectory(prefix="heldout-lab-") as folder:
        queries = encode_queries(
            rest,
            positions,
            maker,
            encoder,
            Path(folder),
            views=views,
            parts=parts,
            side=settings.side,
            quiet=quiet,
        )
        width = queries.rows.shape[2]
        blocks = encode_collection(rest, encoder, settings.block, parts=parts, quiet=quiet)
        pools = _pools(transforms)
        depth = max(settings.nearest, -(-settings.pairs // len(positions)))
        counted = tally(
            queries,
            blocks,
            [[column] for column in range(len(transforms))] + list(pools.values()),
            settings.degrees or {},
            depth,
            _groups(rest) if settings.group else None,
        )
    clusters = [rest.items[position].cluster for position in positions]
    judged = None
    if judge is not None:
        judged = judge_shortlists(
            rest,
            positions,
            maker,
            counted,
            judge,
            engine,
            shortlist=settings.nearest,
            side=settings.side,
            quiet=quiet,
        )
    original = counted.curve([0])
    thresholds = _thresholds(original, settings)
    figures = Figures(counted, queries.area_kept, clusters, thresholds, judged, settings.nearest)
    measured = [
        measure(figures, transform.name, transform.family, transform.description, [column], column)
        for column, transform in enumerate(transforms)
    ]
    pooled = [
        measure(figures, name, "pool", _POOLS[name], columns, len(transforms) + index)
        for index, (name, columns) in enumerate(pools.items())
    ]
    return TransformStudy(
        collection=collection.name,
        side=settings.side,
        encoder=encoder.identity,
        views=width,
        judge=judge.identity if judge else None,
        shortlist=settings.nearest,
        group=settings.group,
        searched_only=sum(item.searched_only for item in rest.items),
        pictures=len(rest),
        strangers=len(strangers),
        duplicates=sum(entry.reason == "duplicate image" for entry in collection.dropped),
        unusable=sum(entry.reason != "duplicate image" for entry in collection.dropped),
        queries=len(positions),
        clusters=len(set(clusters)),
        seed=settings.seed,
        thresholds=thresholds,
        transforms=measured,
        pools=pooled,
        roc=_roc(counted, {"original": [0], **pools}),
        closest=_closest(rest, positions, counted),
        wrongly_accepted=_accepted(rest, judged),
    )


_POOLS = {
    "trans": "all transforms of the seed's study together",
    "all": "all transforms together, the original aside",
}


def _pools(transforms: Sequence[Transform]) -> dict[str, list[int]]:
    every = list(range(1, len(transforms)))
    seeds = [column for column in every if transforms[column].in_seed]
    pools = {"trans": seeds, "all": every}
    return {name: columns for name, columns in pools.items() if len(columns) > 1}


def _reserve(collection: Collection, seed: int) -> tuple[Collection, tuple[Item, ...]]:
    """A twentieth of the pictures, five at least, fill figures; the rest are searched."""
    if len(collection) < 8:
        raise InputError(
            f"{collection.name} has {len(collection)} usable pictures; a study with compound "
            f"figures needs at least 8 (five fill the other panels)"
        )
    return collection.reserve(min(50, max(5, len(collection) // 20)), seed)


def _groups(collection: Collection) -> NDArray[np.intp]:
    """A number per picture, the same for those of one group; -1 where it has none."""
    names = sorted({item.group for item in collection.items if item.group})
    return np.array([names.index(item.group) if item.group else -1 for item in collection.items])


def _thresholds(original: SimilarityCurve, settings: TransformSettings) -> list[OperatingThreshold]:
    thresholds = [
        OperatingThreshold(name=name, value=value, kind="degree")
        for name, value in (settings.degrees or {}).items()
    ]
    pairs = int(original.negatives.sum())
    for target in settings.fpr_targets:
        index = original.threshold_at(target)
        reason = "" if index is not None else f"{pairs:,} pairs cannot resolve a rate of {target:g}"
        value = None if index is None else threshold_of_bin(index)
        thresholds.append(
            OperatingThreshold(
                name=f"FPR {target:g}", value=value, kind="calibrated", target=target, reason=reason
            )
        )
    return thresholds


def _roc(counted: SimilarityCounts, pools: Mapping[str, list[int]]) -> dict[str, list[RocPoint]]:
    return {
        name: [
            RocPoint(threshold=threshold, fpr=fpr, tpr=tpr)
            for threshold, fpr, tpr in counted.curve(columns).points()
        ]
        for name, columns in pools.items()
    }


def _closest(
    collection: Collection, positions: list[int], counted: SimilarityCounts
) -> list[SimilarPair]:
    """The most similar pairs of different pictures, untransformed, each pair once."""
    places, similarities = counted.others()
    pairs: dict[tuple[int, int], float] = {}
    for query, position in enumerate(positions):
        for place, similarity in zip(places[query, 0], similarities[query, 0], strict=True):
            if place >= 0:
                pair = (min(position, int(place)), max(position, int(place)))
                pairs[pair] = max(pairs.get(pair, -1.0), float(similarity))
    best = sorted(pairs.items(), key=lambda entry: (-entry[1], entry[0]))[:_CLOSEST]
    return [
        SimilarPair(
            one=collection.items[first].name,
            other=collection.items[other].name,
            similarity=round(similarity, 6),
        )
        for (first, other), similarity in best
    ]


def _accepted(collection: Collection, judged: CascadeCounts | None) -> list[SimilarPair]:
    if judged is None:
        return []
    return [
        SimilarPair(
            one=f"{query} ({transform})", other=collection.items[place].name, similarity=similarity
        )
        for query, transform, place, similarity in judged.accepted_others
    ]
