"""Name what was done to the query to get the candidate."""

from __future__ import annotations

import numpy as np

from heldout.overlap.registration.agreement import Agreement
from heldout.overlap.registration.align import Alignment
from heldout.overlap.registration.features import Features
from heldout.overlap.registration.frame import Geometry, box_in

WHOLE = 0.965  # share of a picture that counts as all of it
SAME_SCALE = 0.02
BLURRED = 0.6  # fine detail left
SHARPENED = 1.7
NOISY = 0.06  # of the contrast
CHANGED = 0.3  # residual in the worst window


def transform_words(
    query: Features, candidate: Features, alignment: Alignment, shape: Geometry
) -> list[str]:
    """Words such as "rotated 90°", "cropped", "inverted"; empty where nothing was done."""
    agreement = alignment.agreement
    words = shape.words
    words += _extent(query, candidate, alignment, shape)
    if max(abs(value - 1.0) for value in shape.scale) > SAME_SCALE:
        words.append("resized")
    if alignment.inverted:
        words.append("inverted")
    if query.coloured and not candidate.coloured:
        words.append("grey")
    elif candidate.coloured and not query.coloured:
        words.append("coloured")
    words += _detail(agreement)
    if not words and not np.array_equal(query.grey, candidate.grey):
        words.append("re-compressed")
    return words


def _detail(agreement: Agreement) -> list[str]:
    noisy = agreement.noise > NOISY
    words = []
    if agreement.sharpness > SHARPENED:
        words.append("noise added" if noisy and not agreement.noisy_query else "sharpened")
    elif agreement.sharpness < BLURRED:
        words.append("noise removed" if noisy and agreement.noisy_query else "blurred")
    if agreement.veiled:
        words.append("watermarked")
    if agreement.marked or agreement.worst > CHANGED:
        words.append("changed in part")
    return words


def _extent(
    query: Features, candidate: Features, alignment: Alignment, shape: Geometry
) -> list[str]:
    agreement = alignment.agreement
    ours = agreement.query_overlap >= WHOLE
    theirs = agreement.candidate_overlap >= WHOLE
    if ours and theirs:
        return []
    if ours:
        x, y, width, height = box_in(alignment.warp, query.size, candidate.size)
        if _plain_around(candidate, (x, y, width, height)):
            return ["with a border"]
        place = f"{x},{y},{width},{height}"
        if alignment.panel_of_candidate or len(candidate.panels) > 1:
            return [f"inside a compound figure (panel at {place})"]
        return [f"inside a larger picture (at {place})"]
    if theirs:
        if alignment.panel_of_query or len(query.panels) > 1:
            return ["cut out of a compound figure"]
        return [f"cropped to {round(100 * agreement.query_overlap)} %"]
    # A slanted picture loses its corners to the frame; that is no crop of its own.
    return [] if shape.slanted and agreement.query_overlap > 0.6 else ["cropped"]


def _plain_around(candidate: Features, box: tuple[int, int, int, int]) -> bool:
    height, width = candidate.grey.shape
    across, down = width / candidate.size[0], height / candidate.size[1]
    x, y, wide, tall = box
    outside = np.ones((height, width), bool)
    top, bottom = max(0, int(y * down) - 2), int((y + tall) * down) + 3
    left, right = max(0, int(x * across) - 2), int((x + wide) * across) + 3
    outside[top:bottom, left:right] = False
    values = candidate.grey[outside]
    return values.size == 0 or float(values.std()) < 6.0
