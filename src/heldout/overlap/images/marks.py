"""Marks on a copy (a watermark, a label): what differs is set aside or undone, the rest compared.

A mark is told from a changed object. Under a veil the picture still shows, and is compared. Opaque words
are thin strokes of one colour in a row, several of them, and everything between and around them agrees; a
lesion that was painted in is one blob.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.agreement import (
    Frame,
    PixelAgreement,
    compare,
    explained,
    without_margin,
)
from heldout.overlap.images.features import Floats

STRONG = 24.0  # grey levels that no compression changes
WEAK = 7.0  # where it continues what is strong, it belongs to the mark, too
OPAQUE = 0.15  # share of the frame that opaque marks may cover
VEILED = 0.3  # … and veils: what they cover is still compared
ONE_SIDED = 0.97
ONE_COLOUR = 0.8
VEIL = (0.15, 0.9)  # share of the picture that shines through
VEIL_ERROR = 8.0  # grey levels a veil leaves unexplained
WHITE_OR_BLACK = 32.0  # grey levels a veil's own may be from either
STROKE = 0.014  # of the longer side of the frame: half the width that a stroke has at most
BLOB = 0.2  # share of a mark that may be wider than a stroke
LETTERS = 4  # strokes of a word that stand apart
IN_A_ROW = 2.5  # times as long as it is high


@dataclass(frozen=True, eq=False)
class _Difference:
    """Where two aligned pictures differ strongly, the candidate brought to the query's tone."""

    fitted: Floats
    core: NDArray[np.bool_]  # without softened rims
    near: NDArray[np.bool_]  # with them
    share: float  # of the frame
    one_sided: bool  # lighter throughout, or darker


def without_marks(cv2: Any, frame: Frame, inverted: bool) -> PixelAgreement | None:
    """The comparison with marks set aside or lifted; None where what differs is no mark.

    ``marked`` is the share under something opaque that is no row of letters: it may hide what the
    picture shows. ``veiled`` is the share under a veil or under words.
    """
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return None
    difference = _difference(cv2, frame, theirs, mask)
    if difference is None:
        return None
    near, core, share = difference.near, difference.core, difference.share
    lettered = share <= OPAQUE and _is_lettering(cv2, core | _thin(cv2, near), near.shape)
    if not difference.one_sided and not lettered:
        return None
    for marked, clean, step in (
        (frame.query, difference.fitted, frame.query_step),
        (difference.fitted, frame.query, frame.candidate_step),
    ):
        cleaned = np.where(near, clean, marked).astype(np.float32)
        colour = float(np.median(marked[core]))
        opaque = float((np.abs(marked[core] - colour) < 16).mean()) >= ONE_COLOUR
        hidden = opaque and share <= OPAQUE
        veil = None
        if not hidden and difference.one_sided:
            veil = _veil(clean[core], marked[core])
        if veil is not None:
            cleaned[core] = (marked[core] - veil[1]) / veil[0]
        elif not hidden and not lettered:
            continue
        explanation = explained(cv2, cleaned, clean, mask, step)
        whole = compare(cv2, frame, inverted)
        covering = veil is None and not lettered
        return replace(
            whole,
            residual=explanation.residual,
            spread=explanation.spread,
            worst=whole.worst if covering else explanation.worst,
            detail=explanation.detail,
            windows=explanation.windows,
            marked=share if covering else 0.0,
            veiled=0.0 if covering else share,
        )
    return None


def _difference(
    cv2: Any, frame: Frame, theirs: Floats, mask: NDArray[np.bool_]
) -> _Difference | None:
    gain, offset = _tone(theirs[mask], frame.query[mask])
    fitted = (gain * theirs + offset).astype(np.float32)
    difference = frame.query - fitted
    strong = ((np.abs(difference) > STRONG) & mask).astype(np.uint8)
    core = cv2.erode(strong, np.ones((3, 3), np.uint8)) > 0
    share = float(strong.sum()) / float(mask.sum())
    if core.sum() < 8 or share > VEILED:
        return None
    lighter = float((difference[strong > 0] > 0).mean())
    return _Difference(
        fitted=fitted,
        core=core,
        near=_grown(cv2, strong, np.abs(difference) > WEAK),
        share=share,
        one_sided=lighter >= ONE_SIDED or lighter <= 1 - ONE_SIDED,
    )


def _grown(cv2: Any, strong: NDArray[np.uint8], weak: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The strong differences with their rims, and the weak ones that continue them."""
    near = cv2.dilate(strong, np.ones((7, 7), np.uint8)) > 0
    count, labels = cv2.connectedComponents((weak | near).astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels.ravel(), minlength=count)
    seeds = np.bincount(labels[strong > 0].ravel(), minlength=count)
    # A weak difference that is mostly not the mark's is the picture's own.
    of_mark = (seeds > 0) & (sizes < 6 * np.maximum(seeds, 1))
    of_mark[0] = False
    return np.asarray(near | of_mark[labels])


def _thin(cv2: Any, near: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The grown region less the rims it was given."""
    return np.asarray(cv2.erode(near.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0)


def _is_lettering(cv2: Any, region: NDArray[np.bool_], shape: tuple[int, ...]) -> bool:
    """Several thin strokes in a row."""
    ink = region.astype(np.uint8)
    total = int(ink.sum())
    if total < 24:
        return False
    radius = max(2, round(STROKE * max(shape)))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    if int(cv2.morphologyEx(ink, cv2.MORPH_OPEN, disc).sum()) > BLOB * total:
        return False
    _, _, statistics, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    areas = statistics[1:, cv2.CC_STAT_AREA]
    if int((areas >= max(4, 0.01 * total)).sum()) < LETTERS:
        return False
    points = np.argwhere(region).astype(np.float64)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(points.T)), 1e-6))
    return bool(spread[1] >= IN_A_ROW * spread[0])


def _veil(clean: Floats, marked: Floats) -> tuple[float, float] | None:
    """Gain and offset of a veil of black or white over the clean picture, if that is what it is."""
    if float(clean.std()) < VEIL_ERROR:
        return None  # over one grey, anything looks like a veil
    gain, offset = _tone(clean, marked, share=90)
    if not VEIL[0] <= gain <= VEIL[1]:
        return None
    error = np.abs(marked - (gain * clean + offset))
    level = offset / (1 - gain)
    if min(abs(level), abs(level - 255.0)) > WHITE_OR_BLACK:
        return None
    return (gain, offset) if float(np.percentile(error, 90)) <= VEIL_ERROR else None


def _tone(source: Floats, target: Floats, share: int = 70) -> tuple[float, float]:
    """Gain and offset, from the percentage of pixels that fits best."""
    gain, offset = _line(source, target)
    error = np.abs(target - (gain * source + offset))
    kept = error <= np.percentile(error, share)
    return _line(source[kept], target[kept]) if float(source[kept].std()) > 1.0 else (gain, offset)


def _line(source: Floats, target: Floats) -> tuple[float, float]:
    middle, aim = float(source.mean()), float(target.mean())
    power = float(((source - middle) ** 2).mean())
    gain = float(((source - middle) * (target - aim)).mean()) / power if power > 1e-6 else 0.0
    return gain, aim - gain * middle
