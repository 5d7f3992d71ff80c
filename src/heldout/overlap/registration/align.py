"""The cascade: cheap questions first, pixels only for pairs that may be copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heldout.errors import require
from heldout.overlap.registration.agreement import Agreement, compare, without_marks
from heldout.overlap.registration.features import Features
from heldout.overlap.registration.frame import Frame, lay
from heldout.overlap.registration.hypotheses import (
    Hypothesis,
    Warp,
    from_frames,
    from_local_features,
)

WITNESSES = 5  # local features that must agree before pixels are compared
SKETCH = 0.4  # correlation of the frames' detail that makes pixels worth comparing
CERTAIN = 0.05  # residual below which nothing better is looked for
REFINABLE = 0.25  # correlation of detail without which pulling at the warp is no use
MARKABLE = 0.5  # correlation of detail without which marks are not what differs


@dataclass(frozen=True, eq=False)
class Alignment:
    """The best way found to lay the query on the candidate, and how well pixels then agree."""

    warp: Warp  # query to candidate, native pixels
    inverted: bool
    inliers: int
    agreement: Agreement
    panel_of_query: bool = False
    panel_of_candidate: bool = False


def align(query: Features, candidate: Features) -> Alignment | None:
    """None where nothing suggests that one picture lies in the other."""
    require("cv2", "vision", "registering two pictures")
    import cv2

    best: Alignment | None = None
    for alignment in _whole_and_panels(cv2, query, candidate):
        if best is None or _better(alignment, best):
            best = alignment
        if best.agreement.residual < CERTAIN:
            break
    return best


def _better(alignment: Alignment, other: Alignment) -> bool:
    return alignment.agreement.residual < other.agreement.residual


def _whole_and_panels(cv2: Any, query: Features, candidate: Features) -> Iterator[Alignment]:
    whole = _aligned(cv2, query, candidate)
    if whole is not None:
        yield whole
    for (left, top, *_), panel in candidate.panels:
        alignment = _aligned(cv2, query, panel)
        if alignment is not None:
            share = _area(panel) / _area(candidate)
            covered = alignment.agreement.candidate_overlap * share
            yield replace(
                alignment,
                warp=_moved(left, top) @ alignment.warp,
                agreement=replace(alignment.agreement, candidate_overlap=covered),
                panel_of_candidate=True,
            )
    for (left, top, *_), panel in query.panels:
        alignment = _aligned(cv2, panel, candidate)
        if alignment is not None:
            share = _area(panel) / _area(query)
            covered = alignment.agreement.query_overlap * share
            yield replace(
                alignment,
                warp=alignment.warp @ _moved(-left, -top),
                agreement=replace(alignment.agreement, query_overlap=covered),
                panel_of_query=True,
            )


def _aligned(cv2: Any, query: Features, candidate: Features) -> Alignment | None:
    """Whole frames first, then local features, then the pixels pull the better one into place."""
    tried: list[tuple[Hypothesis, Frame, Agreement]] = []
    frames = from_frames(query, candidate)
    if frames.score >= SKETCH:
        tried += _tried(cv2, query, candidate, frames)
    if not tried or tried[0][2].residual >= CERTAIN:
        local = from_local_features(query, candidate)
        if local is not None and local.inliers >= WITNESSES:
            tried += _tried(cv2, query, candidate, local)
    if not tried:
        return None
    best = min(tried, key=lambda each: each[2].residual)
    if best[2].residual >= CERTAIN and best[2].detail >= REFINABLE:
        best = min((best, *_refined(cv2, query, candidate, *best[:2])), key=lambda e: e[2].residual)
    hypothesis, frame, agreement = best
    if max(agreement.residual, agreement.spread) >= CERTAIN and agreement.detail >= MARKABLE:
        cleaned = without_marks(cv2, frame, hypothesis.inverted)
        if cleaned is not None and cleaned.residual < CERTAIN:
            agreement = cleaned
    warp = candidate.to_native @ hypothesis.warp @ np.linalg.inv(query.to_native)
    return Alignment(warp / warp[2, 2], hypothesis.inverted, hypothesis.inliers, agreement)


def _tried(
    cv2: Any, query: Features, candidate: Features, hypothesis: Hypothesis
) -> list[tuple[Hypothesis, Frame, Agreement]]:
    frame = lay(cv2, query, candidate, hypothesis.warp)
    if frame is None:
        return []
    return [(hypothesis, frame, compare(cv2, frame, hypothesis.inverted))]


def _refined(
    cv2: Any, query: Features, candidate: Features, start: Hypothesis, frame: Frame
) -> list[tuple[Hypothesis, Frame, Agreement]]:
    """Let the pixels themselves pull the warp into place (Evangelidis and Psarakis 2008)."""
    theirs = 255.0 - frame.candidate if start.inverted else frame.candidate
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 25, 1e-4)
    still = np.eye(2, 3, dtype=np.float32)
    mask = frame.inside.astype(np.uint8)
    try:
        _, found = cv2.findTransformECC(
            frame.query, theirs, still, cv2.MOTION_AFFINE, criteria, mask, 5
        )
    except cv2.error:  # it does not converge on pictures that do not fit
        return []
    nudge = np.vstack([found.astype(np.float64), [0.0, 0.0, 1.0]])
    warp = start.warp @ frame.to_query @ nudge @ np.linalg.inv(frame.to_query)
    return _tried(cv2, query, candidate, replace(start, warp=warp))


def _moved(x: float, y: float) -> Warp:
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def _area(features: Features) -> int:
    return features.size[0] * features.size[1]
