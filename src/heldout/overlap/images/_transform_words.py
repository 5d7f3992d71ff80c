"""Name what was done to one picture to get the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heldout.overlap.images._agreement import Geometry, PixelAgreement, box_in
from heldout.overlap.images._small import SmallAgreement
from heldout.overlap.images.features import PictureFeatures, Warp
from heldout.overlap.relations import CHANGED

WHOLE = 0.965  # share of a picture that counts as all of it
SAME_SCALE = 0.02
BLURRED = 0.6  # fine detail left
SHARPENED = 1.7
NOISY = 0.06  # of the contrast
CHANGED_WINDOW = 0.3  # residual in the worst window
BLOCK = 8  # pixels a side, of JPEG
BLOCKY = 1.08  # steps of the difference between blocks, against those inside
WATERMARKED = "watermarked"
TONED = "tone changed"
SHADES = 4  # parts of a picture by their lightness
SHIFTED = 6.0  # grey levels by which one of them is lighter or darker: compression and noise move none so far
RECOMPRESSED, SLIGHTLY = "re-compressed", "slightly changed"
SAID_OF_THE_SAME: tuple[list[str], ...] = ([], [RECOMPRESSED], [SLIGHTLY])
FRAMED = 0.01  # of the picture: a border is at least as large


@dataclass(frozen=True, eq=False)
class Alignment:
    """The best way found to lay the query on the candidate, and how well pixels then agree."""

    warp: Warp  # query to candidate, native pixels
    inverted: bool
    inliers: int
    agreement: PixelAgreement
    panel_of_query: bool = False
    panel_of_candidate: bool = False
    small: SmallAgreement | None = None  # of pictures that are too small for windows


def transform_words(
    query: PictureFeatures, candidate: PictureFeatures, alignment: Alignment, shape: Geometry
) -> list[str]:
    """Words such as "rotated 90°", "cropped", "inverted"; empty where nothing was done."""
    agreement = alignment.agreement
    words = shape.words
    words += _extent(query, candidate, alignment, shape)
    if max(abs(value - 1.0) for value in shape.scale) > SAME_SCALE:
        words.append("resized")
    if alignment.inverted:
        words.append("inverted")
    if query.coloured and candidate.monochrome:
        words.append("grey")
    elif candidate.coloured and query.monochrome:
        words.append("coloured")
    words += _detail(agreement)
    if not words and not np.array_equal(query.grey, candidate.grey):
        words.append(TONED if _is_shifted(query, candidate) else _slight(query, candidate))
    return words


def _is_shifted(query: PictureFeatures, candidate: PictureFeatures) -> bool:
    """Whether the dark, the light or what is between became lighter or darker as a whole."""
    if query.grey.shape != candidate.grey.shape:
        return False
    difference = candidate.grey.astype(np.float32) - query.grey
    bounds = np.quantile(query.grey, np.linspace(0, 1, SHADES + 1)[1:-1])
    shade = np.searchsorted(bounds, query.grey)
    means = [difference[shade == k].mean() for k in range(SHADES) if (shade == k).any()]
    return bool(np.abs(means).max() > SHIFTED)


def _slight(query: PictureFeatures, candidate: PictureFeatures) -> str:
    """What changed the pixels of an upright whole frame a little: compression leaves its blocks."""
    if query.grey.shape != candidate.grey.shape or query.size != query.grey.shape[::-1]:
        return SLIGHTLY
    difference = candidate.grey.astype(np.float32) - query.grey
    steps = [np.abs(np.diff(difference, axis=axis)).mean(axis=1 - axis) for axis in (0, 1)]
    ratios = []
    for step in steps:
        if len(step) < 24:
            continue
        between = np.arange(1, len(step) + 1) % BLOCK == 0
        ratios.append(float(step[between].mean()) / max(float(step[~between].mean()), 1e-3))
    return RECOMPRESSED if ratios and max(ratios) >= BLOCKY else SLIGHTLY


def _detail(agreement: PixelAgreement) -> list[str]:
    noisy = agreement.noise > NOISY
    words = []
    if agreement.sharpness > SHARPENED:
        words.append("noise added" if noisy and not agreement.noisy_query else "sharpened")
    elif agreement.sharpness < BLURRED:
        words.append("noise removed" if noisy and agreement.noisy_query else "blurred")
    if agreement.toned:
        words.append(TONED)
    if agreement.veiled:
        words.append(WATERMARKED)
    if agreement.marked or agreement.worst > CHANGED_WINDOW:
        words.append(CHANGED)
    return words


def _extent(
    query: PictureFeatures, candidate: PictureFeatures, alignment: Alignment, shape: Geometry
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


def _plain_around(candidate: PictureFeatures, box: tuple[int, int, int, int]) -> bool:
    height, width = candidate.grey.shape
    across, down = width / candidate.size[0], height / candidate.size[1]
    x, y, wide, tall = box
    outside = np.ones((height, width), bool)
    top, bottom = max(0, int(y * down) - 2), int((y + tall) * down) + 3
    left, right = max(0, int(x * across) - 2), int((x + wide) * across) + 3
    outside[top:bottom, left:right] = False
    values = candidate.grey[outside].astype(np.float32)
    if values.size < FRAMED * outside.size:
        return False
    return float((np.abs(values - np.median(values)) <= 10.0).mean()) >= 0.97
