"""Decide whether two similar pictures are the same picture, and say what was done to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import require
from heldout.overlap.images._agreement import (
    POSES,
    Frame,
    PixelAgreement,
    compare,
    geometry,
    lay,
)
from heldout.overlap.images._marks import is_altered, is_untouched, levels_apart, without_marks
from heldout.overlap.images._placement import (
    SETTLED,
    Tried,
    compare_at,
    pull,
    refine,
    snap,
    unlike,
)
from heldout.overlap.images._registration import IDENTITY, Registration, Rows
from heldout.overlap.images._shades import shades_apart
from heldout.overlap.images._small import (
    ALIKE_DETAIL,
    COVERED,
    from_middles,
    is_plausible,
    is_small,
    same_detail,
    small_agreement,
)
from heldout.overlap.images._tone import in_one_tone, in_other_tones
from heldout.overlap.images._transform_words import (
    CHANGED_WINDOW,
    SAID_OF_THE_SAME,
    Alignment,
    transform_words,
)
from heldout.overlap.images.features import (
    Hypothesis,
    PictureFeatures,
    Warp,
    cheap_features,
    from_frames,
    from_local_features,
)
from heldout.overlap.relations import IN_PART, TOO_PLAIN, TOO_SMALL, Relation

# The cascade: cheap questions first, pixels only for pairs that may be copies.


WITNESSES = 5  # local features that must agree before pixels are compared
SKETCH = 0.4  # correlation of the frames' detail that makes pixels worth comparing
CERTAIN = 0.05  # residual below which nothing better is looked for
REFINABLE = 0.25  # correlation of detail without which pulling at the warp is no use
AS_MUCH = 0.97  # of what a page shows of a picture, that its panel shows at least
BEYOND = 1.2  # times a panel's overlap, from which on the pictures go on beyond it
MARKABLE = 0.35  # correlation of detail without which marks are not what differs


def align(query: PictureFeatures, candidate: PictureFeatures) -> Alignment | None:
    """None where nothing suggests that one picture lies in the other."""
    require("cv2", "vision", "registering two pictures")
    import cv2

    best: Alignment | None = None
    reduced = any(
        page.panels and max(page.size) > max(page.grey.shape) for page in (query, candidate)
    )
    for alignment in _whole_and_panels(cv2, query, candidate):
        best = alignment if best is None or _better(alignment, best) else best
        if _is_certain(best) and not (reduced and _is_changed(best)):
            break
    return best


def _is_certain(alignment: Alignment) -> bool:
    agreement = alignment.agreement
    overlap = max(agreement.query_overlap, agreement.candidate_overlap)
    return agreement.residual < CERTAIN and overlap >= OVERLAP


def _is_changed(alignment: Alignment) -> bool:
    return bool(alignment.agreement.marked) or alignment.agreement.worst > CHANGED_WINDOW


def _seen_better(alignment: Alignment, other: Alignment) -> bool:
    """Whether a panel, seen in its own size, shows all that the page showed of it, and nothing changed.

    A page of several panels is made smaller before it is compared, and what is left of their print and edges
    differs from a picture that was not.
    """
    panel = alignment.panel_of_candidate or alignment.panel_of_query
    page = not (other.panel_of_candidate or other.panel_of_query)
    if not (panel and page and _is_certain(alignment) and _is_certain(other)):
        return False
    ours, theirs = alignment.agreement, other.agreement
    covered = (
        ours.query_overlap >= AS_MUCH * theirs.query_overlap
        and ours.candidate_overlap >= AS_MUCH * theirs.candidate_overlap
    )
    return covered and _is_changed(other) and not _is_changed(alignment)


def _better(alignment: Alignment, other: Alignment) -> bool:
    """A part that agrees proves nothing if it is a small part of both."""
    if _is_certain(other) and _is_changed(other):
        return _seen_better(alignment, other)

    def doubt(agreement: PixelAgreement) -> tuple[bool, float]:
        overlap = max(agreement.query_overlap, agreement.candidate_overlap)
        return overlap < OVERLAP, agreement.residual

    return doubt(alignment.agreement) < doubt(other.agreement)


def _whole_and_panels(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures
) -> Iterator[Alignment]:
    whole = _aligned(cv2, query, candidate)
    if whole is not None:
        yield whole
    for (left, top, *_), panel in candidate.panels:
        alignment = _aligned(cv2, query, panel)
        if alignment is not None:
            share = _area(panel) / _area(candidate)
            covered = alignment.agreement.candidate_overlap * share
            whole = replace(
                alignment,
                warp=_moved(left, top) @ alignment.warp,
                agreement=replace(alignment.agreement, candidate_overlap=covered),
                panel_of_candidate=True,
            )
            yield _seen_whole(cv2, query, candidate, whole)
    for (left, top, *_), panel in query.panels:
        alignment = _aligned(cv2, panel, candidate)
        if alignment is not None:
            share = _area(panel) / _area(query)
            covered = alignment.agreement.query_overlap * share
            whole = replace(
                alignment,
                warp=alignment.warp @ _moved(-left, -top),
                agreement=replace(alignment.agreement, query_overlap=covered),
                panel_of_query=True,
            )
            yield _seen_whole(cv2, query, candidate, whole)


def _seen_whole(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures, alignment: Alignment
) -> Alignment:
    """A panel's alignment: changed in part if the pictures go on beyond it and differ there, and of all that
    agrees if they do not.

    On black ground a panel is cut down to what it shows, which may be a third of the picture.
    """
    agreement = alignment.agreement
    if agreement.residual > COPY_RESIDUAL:
        return alignment
    warp = np.linalg.inv(candidate.to_native) @ alignment.warp @ query.to_native
    frame = lay(cv2, query, candidate, warp / warp[2, 2])
    if frame is None or frame.query_overlap < BEYOND * agreement.query_overlap:
        return alignment
    if frame.candidate_overlap < BEYOND * agreement.candidate_overlap:
        return alignment
    if not is_altered(cv2, frame, alignment.inverted):
        if in_other_tones(frame, alignment.inverted):
            return alignment
        whole = replace(
            agreement,
            query_overlap=frame.query_overlap,
            candidate_overlap=frame.candidate_overlap,
        )
        return replace(alignment, agreement=whole)
    return replace(alignment, agreement=replace(agreement, worst=1.0, marked=0.0))


def _aligned(cv2: Any, query: PictureFeatures, candidate: PictureFeatures) -> Alignment | None:
    """Whole frames first, then local features, then the pixels pull the better one into place."""
    if is_small(query, candidate):
        return _aligned_small(cv2, query, candidate)
    tried: list[Tried] = []
    frames = from_frames(query, candidate)
    if frames.score >= SKETCH:
        tried += compare_at(cv2, query, candidate, frames)
    untouched = bool(tried) and is_untouched(cv2, tried[0][1], frames.inverted)
    if not untouched and (not tried or tried[0][2].residual >= CERTAIN):
        local = from_local_features(query, candidate)
        if local is not None and local.inliers >= WITNESSES:
            tried += compare_at(cv2, query, candidate, local)
    if not tried:
        return None
    if untouched:
        best = tried[0]
    else:
        best = min(tried, key=unlike)
        if best[2].residual >= CERTAIN and REFINABLE <= best[2].detail < SETTLED:
            refined = refine(cv2, query, candidate, *best[:2])
            best = min((best, *refined), key=unlike)
        snapped = snap(cv2, query, candidate, best)
        untouched = snapped is not None
        best = snapped or best
    hypothesis, frame, agreement = best
    if agreement.detail >= MARKABLE or untouched:
        plain = _without_marks(cv2, frame, hypothesis.inverted, agreement)
        # In two tones a change may pass for a part of what changed as a whole.
        settled = _is_explained(plain) and not in_other_tones(frame, hypothesis.inverted)
        if not untouched and not settled:
            toned = _in_one_tone(cv2, query, candidate, hypothesis)
            if toned is not None and toned[2].residual <= plain.residual:
                hypothesis, frame, plain = toned
        agreement = plain
    if agreement.correlation >= CLOSE_CORRELATION and agreement.detail >= DOUBTFUL_DETAIL:
        agreement = replace(agreement, apart=levels_apart(cv2, frame, hypothesis.inverted))
    if CERTAIN_RESIDUAL < agreement.residual <= COPY_RESIDUAL:
        agreement = replace(agreement, shades=shades_apart(cv2, frame, hypothesis.inverted))
    warp = candidate.to_native @ hypothesis.warp @ np.linalg.inv(query.to_native)
    return Alignment(warp / warp[2, 2], hypothesis.inverted, hypothesis.inliers, agreement)


def _aligned_small(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures
) -> Alignment | None:
    """Windows say little: the pixels have to lie on each other, and are pulled there in any case."""
    starts = [from_frames(query, candidate), *from_middles(cv2, query, candidate)]
    local = from_local_features(query, candidate)
    if local is not None and local.inliers >= WITNESSES:
        starts.append(local)
    best: tuple[float, Hypothesis, Frame] | None = None
    for start in starts:
        laid = lay(cv2, query, candidate, start.warp)
        pulled = pull(cv2, start, laid) if laid is not None else None
        for hypothesis in (start, *([pulled] if pulled is not None else [])):
            if not is_plausible(query, candidate, hypothesis.warp):
                continue
            frame = lay(cv2, query, candidate, hypothesis.warp)
            detail = same_detail(cv2, frame, hypothesis.inverted) if frame is not None else 0.0
            if frame is not None and (best is None or detail > best[0]):
                best = (detail, hypothesis, frame)
    if best is None:
        return None
    _, hypothesis, frame = best
    # Whether something was changed is not told by windows, either.
    agreement = replace(compare(cv2, frame, hypothesis.inverted), worst=0.0)
    warp = candidate.to_native @ hypothesis.warp @ np.linalg.inv(query.to_native)
    return Alignment(
        warp / warp[2, 2],
        hypothesis.inverted,
        hypothesis.inliers,
        agreement,
        small=small_agreement(
            cv2, [query.grey], [candidate.grey], hypothesis.warp, hypothesis.inverted
        ),
    )


def _without_marks(
    cv2: Any, frame: Frame, inverted: bool, agreement: PixelAgreement
) -> PixelAgreement:
    """The agreement with marks set aside; ``worst`` is 1 where something else was changed."""
    altered = is_altered(cv2, frame, inverted)
    cleaned = None
    if altered or agreement.worst > CHANGED_WINDOW:
        cleaned = without_marks(cv2, frame, inverted)
    if cleaned is not None and cleaned.residual < CERTAIN:
        return cleaned
    return replace(agreement, worst=1.0) if altered else agreement


def _is_explained(agreement: PixelAgreement) -> bool:
    return (
        agreement.residual < CERTAIN and agreement.worst <= CHANGED_WINDOW and not agreement.marked
    )


def _in_one_tone(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures, hypothesis: Hypothesis
) -> Tried | None:
    """With one of the two in the tone of the other.

    What was laid on each other in different tones may lie a little off: once in one tone, they are pulled
    into place, and the curve is drawn anew.
    """
    best: Tried | None = None
    for _ in range(2):
        frame = in_one_tone(cv2, query, candidate, hypothesis)
        if frame is None:
            break
        agreement = replace(compare(cv2, frame, hypothesis.inverted), toned=True)
        if is_altered(cv2, frame, hypothesis.inverted, toned=True):
            agreement = replace(agreement, worst=1.0)
        if best is None or agreement.residual < best[2].residual or _is_explained(agreement):
            best = (hypothesis, frame, agreement)
        pulled = None if _is_explained(agreement) else pull(cv2, hypothesis, frame)
        if pulled is None:
            break
        hypothesis = pulled
    return best


def _moved(x: float, y: float) -> Warp:
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def _area(features: PictureFeatures) -> int:
    return features.size[0] * features.size[1]


# From aligned pixels to a verdict.


# Nearly all copies stay below CERTAIN_RESIDUAL. Above are JPEG and WebP of quality 30 and less, and neighbouring
# slices of a fine volume: compression changes detail and keeps the mean of its blocks, anatomy that moves on does not.
CERTAIN_RESIDUAL = 0.05
COPY_RESIDUAL = 0.11
COPY_SHADES = 4.2  # grey levels, where the residual is above CERTAIN_RESIDUAL
GLOWING = 1.4  # times as sharp: means change, too
DOUBTFUL_RESIDUAL = 0.22
DOUBTFUL_DETAIL = 0.97  # half of the windows agree so well: marks may cover the others
COPY_SPREAD = 0.4  # a scanner's table is the same in every slice; the patient must be, too
COPY_DETAIL = 0.7
WINDOWS = 12  # with detail; fewer prove nothing
OVERLAP = 0.5  # of at least one of the two pictures
FAR_WITNESSES = 8  # agreeing local features where the frames themselves do not correspond
VIEW_CORRELATION = 0.8  # aligned greys, or shadings of whole frames
VIEW_OVERLAP = 0.6
SAME_CORRELATION = 0.98
PLAIN_WINDOWS = 4
PLAIN_CORRELATION = 0.995
PLAIN_WITNESSES = 40
# Neighbouring slices that correlate as highly differ by 70 grey levels and more somewhere.
CLOSE_CORRELATION = 0.99
CLOSE = 20.0  # grey levels, at no dozen of pixels more
CLOSE_OVERLAP = 0.9
CLOSE_CONTRAST = 20.0
RULES = "registration-21"  # verdicts of other rules are other verdicts
BLANK = 2.0  # contrast, in grey levels, below which a picture shows nothing


def relation(
    query: PictureFeatures, candidate: PictureFeatures, alignment: Alignment | None
) -> tuple[Relation, str]:
    """Copy, look-alike, unrelated or undecided, and why it is undecided."""
    if min(query.contrast, candidate.contrast) < BLANK:
        return Relation.UNDECIDED, TOO_PLAIN
    if alignment is not None:
        agreement = alignment.agreement
        overlap = max(agreement.query_overlap, agreement.candidate_overlap)
        if alignment.small is not None:
            whole = min(agreement.query_overlap, agreement.candidate_overlap) >= COVERED
            if whole and alignment.small.is_copy:
                return Relation.TRANSFORMED_COPY, ""
            if alignment.small.detail >= ALIKE_DETAIL:
                return Relation.UNDECIDED, TOO_SMALL
        elif overlap >= OVERLAP:
            if (
                _proven(alignment)
                or _proven_plain(alignment)
                or _proven_close(alignment, min(query.contrast, candidate.contrast))
            ):
                return Relation.TRANSFORMED_COPY, ""
            many = agreement.windows >= WINDOWS
            if agreement.residual <= DOUBTFUL_RESIDUAL or (
                many and agreement.detail >= DOUBTFUL_DETAIL
            ):
                return Relation.UNDECIDED, IN_PART if many else TOO_PLAIN
        if (
            min(agreement.query_overlap, agreement.candidate_overlap) >= VIEW_OVERLAP
            and agreement.correlation >= VIEW_CORRELATION
        ):
            return Relation.LOOK_ALIKE, ""
    shading = float(np.max(candidate.shadings[0] @ query.shadings.T))
    return Relation.LOOK_ALIKE if shading >= VIEW_CORRELATION else Relation.UNRELATED, ""


def _proven(alignment: Alignment) -> bool:
    agreement = alignment.agreement
    return (
        agreement.windows >= WINDOWS
        and agreement.residual <= COPY_RESIDUAL
        and (
            agreement.residual <= CERTAIN_RESIDUAL
            or agreement.shades <= COPY_SHADES
            or agreement.sharpness > GLOWING
        )
        and agreement.spread <= COPY_SPREAD
        and agreement.detail >= COPY_DETAIL
        and (
            alignment.inliers == 0
            or alignment.inliers >= FAR_WITNESSES
            or agreement.residual <= CERTAIN_RESIDUAL
        )
    )


def _proven_plain(alignment: Alignment) -> bool:
    """A large plain film has few windows with detail; many witnesses and equal greys make up for them."""
    agreement = alignment.agreement
    return (
        agreement.windows >= PLAIN_WINDOWS
        and agreement.correlation >= PLAIN_CORRELATION
        and agreement.residual <= CERTAIN_RESIDUAL
        and agreement.spread <= COPY_RESIDUAL
        and agreement.detail >= COPY_DETAIL
        and alignment.inliers >= PLAIN_WITNESSES
    )


def _proven_close(alignment: Alignment, contrast: float) -> bool:
    """Whole frames that differ nowhere by more than a faint mark on plain ground does."""
    agreement = alignment.agreement
    return (
        agreement.windows >= WINDOWS
        and agreement.apart <= CLOSE
        and contrast >= CLOSE_CONTRAST
        and min(agreement.query_overlap, agreement.candidate_overlap) >= CLOSE_OVERLAP
    )


def register(
    query: Image.Image | PictureFeatures, candidate: Image.Image | PictureFeatures
) -> Registration:
    """Compare two pictures; give ``cheap_features`` of one that meets many."""
    ours = query if isinstance(query, PictureFeatures) else cheap_features(query)
    theirs = candidate if isinstance(candidate, PictureFeatures) else cheap_features(candidate)
    alignment = align(ours, theirs)
    verdict, reason = relation(ours, theirs, alignment)
    if verdict == Relation.UNDECIDED and _identical(ours, theirs):
        same = Relation.SAME_IMAGE
        return Registration(same, "none", 1.0, 0.0, 1.0, (1.0, 1.0), 0, IDENTITY, POSES[0], False)
    if alignment is None:
        nowhere = (0.0, 0.0)
        return Registration(
            verdict, "", 0.0, 1.0, 0.0, nowhere, 0, IDENTITY, POSES[0], False, reason
        )
    agreement = alignment.agreement
    shape = geometry(alignment.warp, ours.size)
    transform = ""
    if verdict == Relation.TRANSFORMED_COPY:
        words = transform_words(ours, theirs, alignment, shape)
        transform = ", ".join(words) or "none"
        if words in SAID_OF_THE_SAME and agreement.correlation >= SAME_CORRELATION:
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
        reason=reason,
    )


def _identical(ours: PictureFeatures, theirs: PictureFeatures) -> bool:
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
