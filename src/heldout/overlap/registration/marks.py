"""Marks on a copy (a watermark, a label): what differs is set aside or undone, the rest compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heldout.overlap.registration.agreement import Agreement, compare, explained, without_margin
from heldout.overlap.registration.features import Floats
from heldout.overlap.registration.frame import Frame

STRONG = 24.0  # grey levels that no compression changes
OPAQUE = 0.15  # share of the frame that opaque marks may cover
VEILED = 0.3  # … and veils: what they cover is still compared
ONE_SIDED = 0.97
ONE_COLOUR = 0.8
VEIL = (0.15, 0.9)  # share of the picture that shines through
VEIL_ERROR = 8.0  # grey levels a veil leaves unexplained
WHITE_OR_BLACK = 32.0  # grey levels a veil's own may be from either


def without_marks(cv2: Any, frame: Frame, inverted: bool) -> Agreement | None:
    """The comparison with marks of one colour (a watermark, a label) set aside.

    None unless what differs strongly is lighter or darker throughout, small, and either of one
    colour or the other picture under a veil of black or white. Differences of anatomy have many
    greys and go both ways.
    """
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return None
    gain, offset = _tone(theirs[mask], frame.query[mask])
    fitted = (gain * theirs + offset).astype(np.float32)
    difference = frame.query - fitted
    strong = ((np.abs(difference) > STRONG) & mask).astype(np.uint8)
    core = cv2.erode(strong, np.ones((3, 3), np.uint8)) > 0  # without softened rims
    near = cv2.dilate(strong, np.ones((7, 7), np.uint8)) > 0
    share = float(strong.sum()) / float(mask.sum())
    if core.sum() < 8 or share > VEILED:
        return None
    lighter = float((difference[strong > 0] > 0).mean())
    if ONE_SIDED > lighter > 1 - ONE_SIDED:
        return None
    for marked, clean, step in (
        (frame.query, fitted, frame.query_step),
        (fitted, frame.query, frame.candidate_step),
    ):
        cleaned = np.where(near, clean, marked).astype(np.float32)
        colour = float(np.median(marked[core]))
        opaque = float((np.abs(marked[core] - colour) < 16).mean()) >= ONE_COLOUR
        hidden = opaque and share <= OPAQUE
        if not hidden:
            veil = _veil(clean[core], marked[core])
            if veil is None:
                continue
            cleaned[core] = (marked[core] - veil[1]) / veil[0]
        found = explained(cv2, cleaned, clean, mask, step)
        whole = compare(cv2, frame, inverted)
        return replace(
            whole,
            residual=found.residual,
            spread=found.spread,
            worst=whole.worst if hidden else found.worst,
            detail=found.detail,
            windows=found.windows,
            marked=share if hidden else 0.0,
            veiled=0.0 if hidden else share,
        )
    return None


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
