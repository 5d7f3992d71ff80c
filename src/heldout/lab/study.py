"""How well an encoder, and the cascade behind it, finds pictures again after a transform.

The seed's study (section 6 of Data Leakage in Visual Datasets) on any collection: queries are the
collection's own pictures under a transform, the right answer is the picture itself. In an audit it
is the other way round: the benchmark's picture is as it was published and the copy in the corpus is
transformed. ``Plan.side`` chooses; it matters to views of the query and to judges.
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
from heldout.lab.cascade import Judge, Judged, judge_shortlists
from heldout.lab.collection import Collection, Item
from heldout.lab.curve import Curve, threshold_of_bin
from heldout.lab.measure import Figures, measure
from heldout.lab.queries import (
    Encoder,
    Parts,
    QueryMaker,
    Side,
    Views,
    encode_collection,
    encode_queries,
)
from heldout.lab.result import Pair, RocPoint, Study, Threshold
from heldout.lab.tally import Tally, tally
from heldout.lab.transforms import TRANSFORMS, Transform

# The seed's degrees, measured for CLIP ViT cosines. Pass them for such encoders only.
SEED_DEGREES: Mapping[str, float] = {"hard": 0.98, "soft": 0.95}
FPR_TARGETS = (1e-2, 1e-3, 1e-4, 1e-5)
_CLOSEST = 20


@dataclass(frozen=True)
class Plan:
    """What to study. ``degrees`` are fixed thresholds of the encoder at hand, none by default."""

    transforms: Sequence[str] = tuple(TRANSFORMS)
    queries: int | None = None  # how many pictures to query with; None for all
    degrees: Mapping[str, float] | None = None
    fpr_targets: Sequence[float] = FPR_TARGETS
    shortlist: int = 5  # how many pictures the encoder hands to the judge
    pairs: int = 0  # different pictures to judge at least; more than the shortlists hold
    group: str | None = None  # judge different pictures of one group only, of the name given here
    side: Side = "query"  # what is transformed: the seed's queries, or an audit's corpus
    seed: int = 0
    block: int = 1024  # pictures of the collection compared at a time

    def chosen(self) -> tuple[Transform, ...]:
        unknown = [name for name in self.transforms if name not in TRANSFORMS]
        if unknown:
            raise InputError(
                f"there is no transform '{unknown[0]}'; there are {', '.join(TRANSFORMS)}"
            )
        # The original is the yardstick of every other row and calibrates the thresholds.
        return tuple(TRANSFORMS[name] for name in dict.fromkeys(("original", *self.transforms)))


def study_transforms(
    collection: Collection,
    encoder: Encoder,
    plan: Plan | None = None,
    *,
    views: Views | None = None,
    parts: Parts | None = None,
    judge: Judge | None = None,
    engine: Engine | None = None,
    quiet: bool = False,
) -> Study:
    """Every rate of the study for one encoder, and for the cascade where there is a ``judge``."""
    plan = plan or Plan()
    transforms = plan.chosen()
    if plan.shortlist < 1 or plan.block < 1:
        raise InputError("a study needs a shortlist of 1 or more and blocks of 1 or more pictures")
    rest: Collection = collection
    strangers: tuple[Item, ...] = ()
    if any(transform.others for transform in transforms):
        rest, strangers = _reserve(collection, plan.seed)
    positions = rest.sample(plan.queries, plan.seed)
    if len(rest) < 2 or not positions:
        raise InputError(
            f"{collection.name} has {len(collection)} usable pictures; the study needs at least "
            f"8 to compare and to fill figures with"
        )
    maker = QueryMaker(transforms, strangers, plan.seed)
    with tempfile.TemporaryDirectory(prefix="heldout-lab-") as folder:
        queries = encode_queries(
            rest,
            positions,
            maker,
            encoder,
            Path(folder),
            views=views,
            parts=parts,
            side=plan.side,
            quiet=quiet,
        )
        width = queries.rows.shape[2]
        blocks = encode_collection(rest, encoder, plan.block, parts=parts, quiet=quiet)
        pools = _pools(transforms)
        depth = max(plan.shortlist, -(-plan.pairs // len(positions)))
        counted = tally(
            queries,
            blocks,
            [[column] for column in range(len(transforms))] + list(pools.values()),
            plan.degrees or {},
            depth,
            _groups(rest) if plan.group else None,
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
            shortlist=plan.shortlist,
            side=plan.side,
            quiet=quiet,
        )
    original = counted.curve([0])
    thresholds = _thresholds(original, plan)
    figures = Figures(counted, queries.area_kept, clusters, thresholds, judged, plan.shortlist)
    measured = [
        measure(figures, transform.name, transform.family, transform.description, [column], column)
        for column, transform in enumerate(transforms)
    ]
    pooled = [
        measure(figures, name, "pool", _POOLS[name], columns, len(transforms) + index)
        for index, (name, columns) in enumerate(pools.items())
    ]
    return Study(
        collection=collection.name,
        side=plan.side,
        encoder=encoder.identity,
        views=width,
        judge=judge.identity if judge else None,
        shortlist=plan.shortlist,
        group=plan.group,
        searched_only=sum(item.searched_only for item in rest.items),
        pictures=len(rest),
        strangers=len(strangers),
        duplicates=sum(entry.reason == "duplicate image" for entry in collection.dropped),
        unusable=sum(entry.reason != "duplicate image" for entry in collection.dropped),
        queries=len(positions),
        clusters=len(set(clusters)),
        seed=plan.seed,
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


def _thresholds(original: Curve, plan: Plan) -> list[Threshold]:
    thresholds = [
        Threshold(name=name, value=value, kind="degree")
        for name, value in (plan.degrees or {}).items()
    ]
    pairs = int(original.negatives.sum())
    for target in plan.fpr_targets:
        index = original.threshold_at(target)
        reason = "" if index is not None else f"{pairs:,} pairs cannot resolve a rate of {target:g}"
        value = None if index is None else threshold_of_bin(index)
        thresholds.append(
            Threshold(
                name=f"FPR {target:g}", value=value, kind="calibrated", target=target, reason=reason
            )
        )
    return thresholds


def _roc(counted: Tally, pools: Mapping[str, list[int]]) -> dict[str, list[RocPoint]]:
    return {
        name: [
            RocPoint(threshold=threshold, fpr=fpr, tpr=tpr)
            for threshold, fpr, tpr in counted.curve(columns).points()
        ]
        for name, columns in pools.items()
    }


def _closest(collection: Collection, positions: list[int], counted: Tally) -> list[Pair]:
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
        Pair(
            one=collection.items[one].name,
            other=collection.items[other].name,
            similarity=round(similarity, 6),
        )
        for (one, other), similarity in best
    ]


def _accepted(collection: Collection, judged: Judged | None) -> list[Pair]:
    if judged is None:
        return []
    return [
        Pair(
            one=f"{query} ({transform})", other=collection.items[place].name, similarity=similarity
        )
        for query, transform, place, similarity in judged.accepted_others
    ]
