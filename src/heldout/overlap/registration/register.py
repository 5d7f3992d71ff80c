"""Decide whether two similar pictures are the same picture, and say what was done to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from heldout.overlap.registration.align import align
from heldout.overlap.registration.decide import BLANK, SAME_CORRELATION, relation
from heldout.overlap.registration.features import Features, cheap_features
from heldout.overlap.registration.frame import POSES, geometry
from heldout.overlap.registration.words import transform_words
from heldout.overlap.relations import COPIES, Relation

Rows = tuple[tuple[float, float, float], ...]
IDENTITY: Rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Registration:
    """The verdict on one pair, with the numbers it rests on."""

    relation: Relation
    transform: str  # from the query to the candidate, in words; "" where it is no copy
    correlation: float  # of aligned greys
    residual: float  # share of the detail that the other picture does not explain
    detail: float  # correlation of aligned detail, median over windows
    overlap: tuple[float, float]  # share of the query's and of the candidate's area that is aligned
    inliers: int  # local features that agree; 0 where whole frames were laid on each other
    warp: Rows  # query to candidate, native pixels
    pose: str  # one of the eight
    inverted: bool

    @property
    def is_copy(self) -> bool:
        return self.relation in COPIES

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def register(query: Image.Image | Features, candidate: Image.Image | Features) -> Registration:
    """Compare two pictures; give ``cheap_features`` of one that meets many."""
    ours = query if isinstance(query, Features) else cheap_features(query)
    theirs = candidate if isinstance(candidate, Features) else cheap_features(candidate)
    alignment = align(ours, theirs)
    verdict = relation(ours, theirs, alignment)
    if verdict == Relation.UNDECIDED and _identical(ours, theirs):
        same = Relation.SAME_IMAGE
        return Registration(same, "none", 1.0, 0.0, 1.0, (1.0, 1.0), 0, IDENTITY, POSES[0], False)
    if alignment is None:
        return Registration(verdict, "", 0.0, 1.0, 0.0, (0.0, 0.0), 0, IDENTITY, POSES[0], False)
    agreement = alignment.agreement
    shape = geometry(alignment.warp, ours.size)
    transform = ""
    if verdict == Relation.TRANSFORMED_COPY:
        words = transform_words(ours, theirs, alignment, shape)
        transform = ", ".join(words) or "none"
        if words in ([], ["re-compressed"]) and agreement.correlation >= SAME_CORRELATION:
            verdict = Relation.SAME_IMAGE
    return Registration(
        relation=verdict,
        transform=transform,
        correlation=round(agreement.correlation, 4),
        residual=round(agreement.residual, 4),
        detail=round(agreement.detail, 4),
        overlap=(round(agreement.query_overlap, 4), round(agreement.candidate_overlap, 4)),
        inliers=alignment.inliers,
        warp=_rows(alignment.warp),
        pose=POSES[shape.pose],
        inverted=alignment.inverted,
    )


def _identical(ours: Features, theirs: Features) -> bool:
    """Pictures too small or too plain for windows are the same if no pixel differs."""
    return (
        ours.size == theirs.size
        and ours.contrast > BLANK
        and np.array_equal(ours.grey, theirs.grey)
        and ours.tint == theirs.tint
    )


def _rows(warp: np.ndarray[Any, np.dtype[np.float64]]) -> Rows:
    first, second, third = (
        (float(row[0]), float(row[1]), float(row[2])) for row in np.round(warp, 6)
    )
    return first, second, third
