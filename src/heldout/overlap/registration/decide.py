"""From aligned pixels to a verdict. Thresholds are measured: docs/registration.md."""

from __future__ import annotations

import numpy as np

from heldout.overlap.registration.align import Alignment
from heldout.overlap.registration.features import Features
from heldout.overlap.relations import Relation

# Nearly all copies stay below 0.07; the nearest neighbouring slices of one study begin at 0.14.
COPY_RESIDUAL = 0.11
CERTAIN_RESIDUAL = 0.05
DOUBTFUL_RESIDUAL = 0.22
DOUBTFUL_DETAIL = 0.97  # half of the windows agree so well: marks may cover the others
COPY_SPREAD = 0.4  # a scanner's table is the same in every slice; the patient must be, too
COPY_DETAIL = 0.7
WINDOWS = 12  # with detail; fewer prove nothing
OVERLAP = 0.5  # of at least one of the two pictures
WITNESSES = 8  # agreeing local features where the frames themselves do not correspond
VIEW_CORRELATION = 0.8  # aligned greys, or shadings of whole frames
VIEW_OVERLAP = 0.6
SAME_CORRELATION = 0.98
BLANK = 2.0  # contrast, in grey levels, below which a picture shows nothing


def relation(query: Features, candidate: Features, alignment: Alignment | None) -> Relation:
    """Copy, other subject, unrelated or undecided; which kind of copy, its transform tells."""
    if min(query.contrast, candidate.contrast) < BLANK:
        return Relation.UNDECIDED
    if alignment is not None:
        agreement = alignment.agreement
        overlap = max(agreement.query_overlap, agreement.candidate_overlap)
        proven = (
            agreement.windows >= WINDOWS
            and overlap >= OVERLAP
            and agreement.spread <= COPY_SPREAD
            and agreement.detail >= COPY_DETAIL
            and (
                alignment.inliers == 0
                or alignment.inliers >= WITNESSES
                or agreement.residual <= CERTAIN_RESIDUAL
            )
        )
        if proven and agreement.residual <= COPY_RESIDUAL:
            return Relation.TRANSFORMED_COPY
        if overlap >= OVERLAP and (
            agreement.residual <= DOUBTFUL_RESIDUAL
            or (agreement.windows >= WINDOWS and agreement.detail >= DOUBTFUL_DETAIL)
        ):
            return Relation.UNDECIDED
        if (
            min(agreement.query_overlap, agreement.candidate_overlap) >= VIEW_OVERLAP
            and agreement.correlation >= VIEW_CORRELATION
        ):
            return Relation.OTHER_SUBJECT
    shading = float(np.max(candidate.shadings[0] @ query.shadings.T))
    return Relation.OTHER_SUBJECT if shading >= VIEW_CORRELATION else Relation.UNRELATED
