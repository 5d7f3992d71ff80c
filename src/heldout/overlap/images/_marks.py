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

from heldout.overlap.images._agreement import (
    Frame,
    PixelAgreement,
    compare,
    explained,
    shading,
    unexplained,
    without_margin,
)
from heldout.overlap.images._edits import EDITED, edited_in_tone, edited_levels
from heldout.overlap.images._lettering import (
    ONE_SIDED,
    REACH,
    THICK,
    WEAK,
    corners,
    has_one_ink,
    is_lettering,
    is_thin,
    letter_in_corner,
    with_rims,
)
from heldout.overlap.images._shades import is_shaded
from heldout.overlap.images._tone import in_tone_of, tone_line
from heldout.overlap.images.features import Floats

STRONG = 24.0  # grey levels that no compression changes
OPAQUE = 0.15  # share of the frame that opaque marks may cover
VEILED = 0.3  # … and veils: what they cover is still compared
SHOWN = 6.0  # grey levels a pixel, from which on an edge is something shown
SAME_GREY = 3.0  # grey levels within which one plain grey is another
BESIDE = 0.15  # share of what is around a mark, from which on a piece of its grey lies beside it
HIDDEN = 0.5  # share of such edges that opaque marks may cover
ONE_COLOUR = 0.8
LARGE_PIECE = 0.1  # of all that differs
ONE_SIDE = 0.05  # share of it that is lighter, or darker, from which on it is more than a rim
OF_COLOUR = 48.0  # grey levels: compression softens thin strokes
VEIL = (0.15, 0.9)  # share of the picture that shines through
VEIL_ERROR = 8.0  # grey levels a veil leaves unexplained
FAINT = 12.0  # grey levels
WHITE_OR_BLACK = 32.0  # grey levels a veil's own may be from either
SPECK = 6  # pixels
SOFT_PIECE = 0.9  # share of a piece that is a softened edge of both pictures, from which on it is no stroke of a mark
ALTERED = (
    22.0  # grey levels of detail that compression leaves unexplained at no spot of a dozen pixels
)
ALTERED_NOISE = 8.0  # times the median, where there is noise
ALTERED_PIXELS = 12
ASTRAY = 0.75  # pixels that a warp may be off
LEAST_FREE = 4  # pixels around a letter that stands by itself; or half its height
TEXTURED = 1.5  # grey levels a pixel, from which on compression would leave its traces
FEW_TEXTURED = 256  # pixels, from which on they stand for the picture
UNTOUCHED = 0.5  # grey levels by which most of what is textured differs: it never was compressed
# Grey levels, above which a picture without grain was resized or turned: it may lie a fraction of a pixel off.
EXACT = 0.05
GRAIN = 12.0  # times what most of the textured pixels differ by, a mark differs by more
SHADED = 6.5  # grey levels by which a copy is nowhere lighter or darker than one tone curve says
SHADED_CHANGE = 2.0  # times what the picture changed as a whole: sharpening moves light, too
SHADED_TONED = 1.25  # times that, where a tone curve made the steps of compression larger


@dataclass(frozen=True, eq=False)
class _Difference:
    """Where two aligned pictures differ strongly, the candidate brought to the query's tone."""

    fitted: Floats
    apart: Floats  # grey levels
    strong: NDArray[np.bool_]
    core: NDArray[np.bool_]  # without softened rims
    near: NDArray[np.bool_]  # with them
    share: float  # of the frame
    untouched: bool  # most of both is the same to the last level
    one_sided: bool  # lighter throughout, or darker


def without_marks(cv2: Any, frame: Frame, inverted: bool) -> PixelAgreement | None:
    """The comparison with marks set aside or lifted; None where what differs is no mark.

    ``marked`` is the share under something opaque that is no lettering: it may hide what the picture
    shows. ``veiled`` is the share under a veil or under letters.
    """
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return None
    difference = _difference(cv2, frame, theirs, mask)
    if difference is None:
        return None
    whole = compare(cv2, frame, inverted)
    cleaned = _without_letters(cv2, frame, mask, difference, whole)
    if cleaned is None or cleaned.worst > 0 or cleaned.marked > 0:
        letter = letter_in_corner(cv2, difference.strong, difference.apart, frame.inside)
        if letter is not None:
            strong, near, share = letter
            corner = replace(difference, strong=strong, near=near, share=share)
            labelled = _without_label(cv2, frame, mask, corner, whole)
            elsewhere = difference.strong & ~corner.near & ~_softened(cv2, frame, corner, mask)
            altered = int(elsewhere.sum()) >= ALTERED_PIXELS or stand_for_others(
                corner.strong, frame.query, corner.fitted
            )
            return replace(labelled, worst=max(labelled.worst, float(altered)))
    return cleaned


def _without_letters(
    cv2: Any,
    frame: Frame,
    mask: NDArray[np.bool_],
    difference: _Difference,
    whole: PixelAgreement,
) -> PixelAgreement | None:
    near, core, share = difference.near, difference.core, difference.share
    strokes = _own_strokes(cv2, frame, difference, mask)
    lettered = share <= OPAQUE and is_lettering(
        cv2, strokes, difference.apart, difference.one_sided
    )
    if not difference.one_sided and not lettered:
        return None
    directions = (
        (frame.query, difference.fitted, (frame.query_step, frame.candidate_step)),
        (difference.fitted, frame.query, (frame.candidate_step, frame.query_step)),
    )
    # An opacity that was made denser and the dots on a thing look like a veil, too; but the one is no
    # stroke of any pen, and the others lie in one place.
    stroked = lettered or is_thin(cv2, difference.strong.astype(np.uint8), THICK)
    stroked = stroked and float(np.ptp(np.argwhere(difference.strong), axis=0).max()) >= (
        REACH * max(difference.strong.shape)
    )
    veils = [
        _veil(clean[core], marked[core]) if stroked else None for marked, clean, _ in directions
    ]
    veiled = any(veil is not None for veil in veils)
    for (marked, clean, steps), veil in zip(directions, veils, strict=True):
        colour = float(np.median(marked[core]))
        opaque = float((np.abs(marked[core] - colour) < 16).mean()) >= ONE_COLOUR
        hidden = opaque and share <= OPAQUE and _has_colour(cv2, difference, marked, colour)
        hidden = hidden and not veiled  # under a veil, a thing of one colour still has one colour
        inked = lettered and has_one_ink(marked[difference.strong], clean[difference.strong])
        if not (hidden or inked or difference.one_sided) or (veiled and veil is None):
            continue  # letters in the place of others; or the veil lies on the other picture
        if veil is None and _continues(cv2, marked, mask, near, colour):
            continue
        cleaned = np.where(near, clean, marked).astype(np.float32)
        if veil is not None:
            cleaned[core] = (marked[core] - veil[1]) / veil[0]
            faint = _is_faint_veil(marked, clean, *veil) & ~near
            cleaned[faint] = clean[faint]
        elif (not hidden and not lettered) or _hides_most(cv2, clean, mask, near):
            continue
        covering = veil is None and not lettered
        agreement = _compared(cv2, cleaned, clean, mask, mask & ~near, steps, whole)
        if covering:
            return replace(agreement, worst=whole.worst, marked=share)
        return replace(agreement, veiled=share)
    return None


def _continues(
    cv2: Any, marked: Floats, mask: NDArray[np.bool_], near: NDArray[np.bool_], colour: float
) -> bool:
    """Whether what would be a mark has the very ``colour`` of what lies beside it: a bar that became longer, or the
    ground where its end and its figure were."""
    around = (cv2.dilate(near.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0) & ~near & mask
    beside = around & (np.abs(marked - colour) <= SAME_GREY)
    if not beside.any():
        return False
    _, _, statistics, _ = cv2.connectedComponentsWithStats(beside.astype(np.uint8), connectivity=8)
    return int(statistics[1:, cv2.CC_STAT_AREA].max()) >= BESIDE * int(around.sum())


def _hides_most(cv2: Any, clean: Floats, mask: NDArray[np.bool_], near: NDArray[np.bool_]) -> bool:
    """Whether too little of what the picture shows is left to be compared: then nothing is proven."""
    shown = mask & (steepness(cv2, clean) >= SHOWN)
    return float(near[shown].mean()) > HIDDEN if shown.any() else False


def _without_label(
    cv2: Any, frame: Frame, mask: NDArray[np.bool_], label: _Difference, whole: PixelAgreement
) -> PixelAgreement:
    cleaned = np.where(label.near, frame.query, label.fitted).astype(np.float32)
    seen = mask & ~label.near
    steps = (frame.candidate_step, frame.query_step)
    agreement = _compared(cv2, cleaned, frame.query, mask, seen, steps, whole)
    return replace(agreement, veiled=label.share)


def _softened(
    cv2: Any, frame: Frame, label: _Difference, mask: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Where both show a sharp edge and one filter for the whole frame explains how they differ: burnt-in words of
    which one picture was made smaller. What only one of them shows is no edge of both."""
    if label.untouched:
        return np.zeros(mask.shape, bool)
    cleaned = np.where(label.near, frame.query, label.fitted).astype(np.float32)
    return _is_softened(cv2, cleaned, frame.query, mask)


def _is_softened(
    cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    steep = np.minimum(steepness(cv2, first), steepness(cv2, second))
    return np.asarray((steep >= STRONG) & (left_unexplained(cv2, first, second, mask) <= FAINT))


def _own_strokes(
    cv2: Any, frame: Frame, difference: _Difference, mask: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """What differs, without the pieces that are edges of both and became softer: beside a changed object, they
    would pass for the letters of a word."""
    if difference.untouched:
        return difference.strong
    softened = _is_softened(cv2, difference.fitted, frame.query, mask)
    count, labels = cv2.connectedComponents(difference.strong.astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels.ravel(), minlength=count)
    own = np.bincount(labels[softened].ravel(), minlength=count) < SOFT_PIECE * sizes
    own[0] = False
    return np.asarray(own[labels])


def _compared(
    cv2: Any,
    cleaned: Floats,
    clean: Floats,
    mask: NDArray[np.bool_],
    seen: NDArray[np.bool_],
    steps: tuple[float, float],
    whole: PixelAgreement,
) -> PixelAgreement:
    """The agreement of what is left; ``worst`` is 1 if it differs where no mark was ``seen``."""
    shades = shading(cv2, cleaned, clean)
    explanation = min(
        explained(cv2, cleaned, clean, mask, steps[0], shades),
        explained(cv2, clean, cleaned, mask, steps[1], shades[::-1]),
        key=lambda each: each.residual,
    )
    return replace(
        whole,
        residual=explanation.residual,
        spread=explanation.spread,
        worst=float(_is_altered(cv2, cleaned, clean, seen)),
        detail=explanation.detail,
        windows=explanation.windows,
    )


def _difference(
    cv2: Any, frame: Frame, theirs: Floats, mask: NDArray[np.bool_]
) -> _Difference | None:
    grain = _grain(cv2, frame.query, theirs, mask)
    untouched = grain <= UNTOUCHED
    fitted = theirs if untouched else in_tone_of(theirs, frame.query, mask)
    difference = frame.query - fitted
    if untouched:
        level, weak = edited_levels(difference, mask), EDITED
    else:
        level = min(max(GRAIN * _grain(cv2, frame.query, fitted, mask), FAINT), STRONG)
        weak = WEAK
    bar: Floats = np.full_like(difference, level)
    if not _lies_exactly(frame, grain):
        bar += _astray(cv2, frame.query, fitted)
    strong = _without_specks(cv2, (np.abs(difference) > bar) & (mask | corners(cv2, frame.inside)))
    core = cv2.erode(strong, np.ones((3, 3), np.uint8)) > 0
    share = float(strong.sum()) / float(mask.sum())
    if share > VEILED or strong.sum() < ALTERED_PIXELS:
        return None
    lighter = float((difference[strong > 0] > 0).mean())
    return _Difference(
        fitted=fitted,
        apart=difference,
        strong=strong > 0,
        core=core if core.sum() >= 8 else strong > 0,  # strokes may be all rim
        near=with_rims(cv2, strong, np.abs(difference) > weak),
        share=share,
        untouched=untouched,
        one_sided=lighter >= ONE_SIDED or lighter <= 1 - ONE_SIDED,
    )


def _without_specks(cv2: Any, strong: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Compression makes single strong pixels at sharp edges; no mark consists of them."""
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(
        strong.astype(np.uint8), connectivity=8
    )
    large = statistics[:, cv2.CC_STAT_AREA] >= SPECK
    large[0] = False
    return np.asarray(large[labels], np.uint8)


def _has_colour(cv2: Any, difference: _Difference, marked: Floats, colour: float) -> bool:
    """Whether every large piece of what differs has the mark's colour: one that has not is no mark."""
    strong = difference.strong
    if _is_of_two_greys(strong, difference.apart, marked):
        return False
    count, labels = cv2.connectedComponents(strong.astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels[strong], minlength=count)
    large = np.flatnonzero(sizes >= LARGE_PIECE * sizes.sum())
    pieces = (marked[labels == number] for number in large)
    return all(abs(float(np.median(piece)) - colour) <= OF_COLOUR for piece in pieces)


def _is_of_two_greys(strong: NDArray[np.bool_], apart: Floats, shown: Floats) -> bool:
    """Whether what is lighter in the query and what is darker differ as much as the pictures do.

    A mark has its own grey on lighter and on darker ground. Where letters stand in the place of others,
    either picture shows ink where the other shows the ground.
    """
    sides = [strong & (apart > 0), strong & (apart < 0)]
    if min(side.sum() for side in sides) <= ONE_SIDE * strong.sum():
        return False
    lighter, darker = (float(np.median(shown[side])) for side in sides)
    return abs(lighter - darker) > min(OF_COLOUR, float(np.median(np.abs(apart[strong]))) / 2)


def stand_for_others(strong: NDArray[np.bool_], ours: Floats, theirs: Floats) -> bool:
    """Whether both pictures have letters there, each its own: "L" for "R" is no label that was added."""
    return all(_is_of_two_greys(strong, ours - theirs, shown) for shown in (ours, theirs))


def added_label(
    cv2: Any, ours: Floats, theirs: Floats, inside: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Where one of two pictures in one tone has a letter in a corner and the other plain ground; None where none has.

    To the rim: the letters of panels reach over it. By itself: among other print, a stroke that was added makes an 8
    of a 3.
    """
    apart = ours - theirs
    far = np.abs(apart) > STRONG + _astray(cv2, ours, theirs)
    in_corner = letter_in_corner(cv2, _without_specks(cv2, far & inside) > 0, apart, inside)
    if in_corner is None or stand_for_others(in_corner[0], ours, theirs):
        return None
    letter, near, _ = in_corner
    down, across = (np.flatnonzero(letter.any(axis=axis)) for axis in (1, 0))
    free = max(LEAST_FREE, len(down) // 2)
    around = np.zeros_like(inside)
    around[
        max(0, int(down[0]) - free) : int(down[-1]) + free + 1,
        max(0, int(across[0]) - free) : int(across[-1]) + free + 1,
    ] = True
    plain = [np.where(near, np.median(each[around & ~near]), each) for each in (ours, theirs)]
    # One of the two shows nothing there, letter and all; the other nothing but the letter.
    shown = [
        float(steepness(cv2, each.astype(np.float32))[around & inside].max()) for each in plain
    ]
    clean = min(float(steepness(cv2, each)[around & inside].max()) for each in (ours, theirs))
    return near if max(*shown, clean) < STRONG else None


def is_untouched(cv2: Any, frame: Frame, inverted: bool) -> bool:
    """Whether most of the two is the same to the last level: then they lie right, whatever differs."""
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    return mask.sum() >= 256 and _grain(cv2, frame.query, theirs, mask) <= UNTOUCHED


def is_altered(cv2: Any, frame: Frame, inverted: bool, toned: bool = False) -> bool:
    """Whether some spot shows something else: a copy is explained everywhere but for compression.

    ``toned``: one was brought to the tone of the other, and with it what compression had left of it.
    """
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return False
    apart = np.abs(frame.query - theirs)
    grain = _grain(cv2, frame.query, theirs, mask)
    if toned or not _lies_exactly(frame, grain):
        apart = np.maximum(apart - _astray(cv2, frame.query, theirs), 0)
    if grain <= UNTOUCHED and not toned:
        return _most(cv2, apart, mask) > edited_levels(frame.query - theirs, mask)
    if toned and _most(cv2, apart, mask) > edited_in_tone(cv2, apart, mask):
        return True
    if _is_altered(cv2, in_tone_of(theirs, frame.query, mask), frame.query, mask):
        return True
    changed = float(np.percentile(np.abs(theirs - frame.query)[mask], 90))
    least = SHADED * (SHADED_TONED if toned else 1.0)
    return is_shaded(cv2, theirs, frame.query, mask, max(least, SHADED_CHANGE * changed))


def levels_apart(cv2: Any, frame: Frame, inverted: bool) -> float:
    """Grey levels by which the two differ where they differ most, in one tone, over spots of 3 x 3."""
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return 255.0
    return _apart(cv2, in_tone_of(theirs, frame.query, mask), frame.query, mask)


def _apart(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]) -> float:
    return _most(cv2, np.abs(first - second), mask)


def _most(cv2: Any, apart: Floats, mask: NDArray[np.bool_]) -> float:
    """The grey levels of the dozen spots that differ most."""
    spots = cv2.blur(apart, (3, 3))[mask]
    return float(np.partition(spots, -ALTERED_PIXELS)[-ALTERED_PIXELS])


def _lies_exactly(frame: Frame, grain: float) -> bool:
    """Whether pixel lies on pixel: none of the two was made smaller or larger, and most of them is the same."""
    steps = (frame.query_step, frame.candidate_step)
    return grain <= EXACT and all(abs(step - 1) < 1e-3 for step in steps)


def _astray(cv2: Any, first: Floats, second: Floats) -> Floats:
    """Where both have an edge, laying one a fraction of a pixel off leaves a part of its height."""
    return np.float32(ASTRAY) * np.minimum(steepness(cv2, first), steepness(cv2, second))


def _grain(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]) -> float:
    """Grey levels by which most of what is textured differs: what compression left, marks aside."""
    steep = np.minimum(steepness(cv2, first), steepness(cv2, second))
    textured = mask & (steep >= TEXTURED)
    if textured.sum() < FEW_TEXTURED:
        return 255.0
    return float(np.percentile(np.abs(first - second)[textured], 60))


def _is_altered(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]) -> bool:
    spots = left_unexplained(cv2, first, second, mask)[mask]
    if len(spots) <= ALTERED_PIXELS:
        return False
    bar = max(ALTERED, ALTERED_NOISE * float(np.median(spots)))
    return float(np.partition(spots, -ALTERED_PIXELS)[-ALTERED_PIXELS]) > bar


def left_unexplained(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Grey levels that neither explains of the other, a fraction of a pixel at edges allowed for."""
    left = unexplained_by_either(cv2, first, second, mask)
    return np.asarray(np.maximum(left - _astray(cv2, first, second), 0.0))


def unexplained_by_either(
    cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_]
) -> Floats:
    shades = shading(cv2, first, second)
    return np.minimum(
        unexplained(cv2, first, second, mask, shades),
        unexplained(cv2, second, first, mask, shades[::-1]),
    )


def steepness(cv2: Any, picture: Floats) -> Floats:
    """Grey levels a pixel, the most within a spot; a point has half its height."""
    spot = np.ones((3, 3), np.uint8)
    half = (cv2.dilate(picture, spot) - cv2.erode(picture, spot)) / np.float32(2)
    return np.asarray(cv2.dilate(half, spot))


def _veil(clean: Floats, marked: Floats) -> tuple[float, float] | None:
    """Gain and offset of a veil of black or white over the clean picture, if that is what it is."""
    if float(clean.std()) < VEIL_ERROR:
        return None  # over one grey, anything looks like a veil
    gain, offset = tone_line(clean, marked, share=90)
    if not VEIL[0] <= gain <= VEIL[1]:
        return None
    error = np.abs(marked - (gain * clean + offset))
    level = offset / (1 - gain)
    if min(abs(level), abs(level - 255.0)) > WHITE_OR_BLACK:
        return None
    return (gain, offset) if float(np.percentile(error, 90)) <= VEIL_ERROR else None


def _is_faint_veil(marked: Floats, clean: Floats, gain: float, offset: float) -> NDArray[np.bool_]:
    """Where the same veil lies on nearly its own grey and changes next to nothing."""
    full = (1 - gain) * (offset / (1 - gain) - clean)
    changed = marked - clean
    most = np.minimum(np.abs(full) + FAINT / 3, FAINT)
    return np.asarray((changed * np.sign(full) >= 0) & (np.abs(changed) <= most))
