"""Bring one of two aligned pictures to the tone of the other, whatever marks lie on them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images._agreement import Frame, lay, without_margin
from heldout.overlap.images.features import SIDE, Floats, Hypothesis, PictureFeatures

LEVELS = 16  # of a tone curve
OFF_CURVE = 45.0  # grey levels: a gamma of .6 bends the curve by less
TONES = 256
FINE_LEVELS = 40  # of one that bends: whether they lie in several places is told of so many
FEWEST = 8  # pixels of a level that count
LAST = 16  # levels, by which a curve is drawn on
CELLS = 8  # across and down, with equal shares of the picture's edges
PLACE = 3  # cells across and down
IN_ONE_PLACE = 0.75  # share of a level's pixels, from which on it may belong to one thing
CURVED = 4  # levels that a tone curve is drawn through at least
CURVED_RANGE = 48.0  # grey levels that they span
BENT = 4.0  # grey levels off a line; less is brightness and contrast
ON_CURVE = 6.0  # grey levels that half of the pixels lie within
OTHER_TONE = 8.0  # grey levels by which most of what is neither black nor white differs
BETWEEN = 120.0  # grey levels from the middle
FALL = 6.0  # grey levels: a tone curve never falls by more


def in_tone_of(source: Floats, target: Floats, mask: NDArray[np.bool_]) -> Floats:
    """``source`` through the rising tone curve that brings it closest to ``target``.

    Level by level the median of the other counts, so a mark decides nothing as long as most of what
    has its level lies outside it, and black ground is one level among others.
    """
    ours, theirs = source[mask], target[mask]
    place = np.clip(ours / 256.0 * LEVELS, 0, LEVELS - 1).astype(np.intp)
    least = max(24, len(ours) // 2000)
    knots = _knots(ours, theirs, place, least)
    if len(knots) < 3:
        gain, offset = tone_line(ours, theirs)
        return np.asarray(gain * source + offset, np.float32)
    levels, values = np.array(knots).T
    rise = (values[:, None] - values) / np.where(
        levels[:, None] == levels, 1.0, levels[:, None] - levels
    )
    gain = float(np.median(rise[np.triu_indices(len(levels), 1)]))
    offset = float(np.median(values - gain * levels))
    # A level that is mostly the mark's lies far off the line through the others: what else has it counts.
    near = np.abs(theirs - (gain * ours + offset)) <= OFF_CURVE
    knots = _knots(ours[near], theirs[near], place[near], least)
    if len(knots) < 2:
        return np.asarray(gain * source + offset, np.float32)
    levels, values = np.array(knots).T
    curve = np.maximum.accumulate(values)
    # Few pixels are lighter or darker than the outermost knots: for them the line goes on.
    rising = max(gain, 0.0)
    below = float(curve[0]) - rising * float(levels[0])
    above = float(curve[-1]) + rising * (255.0 - float(levels[-1]))
    brought = np.interp(source, [0.0, *levels, 255.0], [below, *curve, above])
    return np.asarray(brought, np.float32)


def tone_curve(source: Floats, target: Floats, mask: NDArray[np.bool_]) -> Floats | None:
    """The tone curve of the whole picture that leads from ``source`` to ``target``, level by level, if there is one.

    Gamma, windowing, clipped highlights and equalised histograms bend it. Only levels that occur in several
    places count: a thing that was made lighter or removed is no tone curve. None where brightness and
    contrast are enough, and where most pixels lie off the curve, as those of another picture do.
    """
    from scipy.optimize import isotonic_regression  # a quarter of a second, which few pairs need

    ours, theirs = (
        np.clip(np.rint(values[mask]), 0, TONES - 1).astype(np.intp) for values in (source, target)
    )
    place = ours * FINE_LEVELS // TONES
    joint = np.bincount(ours * TONES + theirs, minlength=TONES**2).reshape(TONES, TONES)
    counts = joint.sum(axis=1)
    spread = _is_spread(source, mask, place)[np.arange(TONES) * FINE_LEVELS // TONES]
    levels = np.flatnonzero(spread & (counts >= max(FEWEST, len(ours) // 20_000)))
    if len(levels) < CURVED or np.ptp(levels) < CURVED_RANGE:
        return None
    values = _middles(joint[levels])
    rising = isotonic_regression(values, weights=counts[levels]).x
    common = counts[levels] >= max(24, len(ours) // 4000)
    if float(np.abs(rising - values)[common].max(initial=0.0)) > FALL:
        return None
    if np.abs(rising - np.polyval(np.polyfit(levels, rising, 1), levels)).max() < BENT:
        return None
    ends = [_beyond(levels, rising, end) for end in (0.0, TONES - 1.0)]
    curve = np.interp(
        np.arange(TONES), [-1e-3, *levels, TONES - 1 + 1e-3], [ends[0], *rising, ends[1]]
    )
    curve = np.clip(curve, 0, 255)
    if float(np.median(np.abs(curve[ours] - theirs))) > ON_CURVE:
        return None
    return np.asarray(curve, np.float32)


def _middles(joint: NDArray[np.intp]) -> NDArray[np.float64]:
    """Of every row the mean of the middle half of what it counts: half a level counts, a mark does not."""
    total = joint.sum(axis=1, keepdims=True)
    so_far = np.clip(joint.cumsum(axis=1), total / 4, total * 3 / 4)
    share = np.diff(so_far, axis=1, prepend=total / 4)
    return np.asarray(share @ np.arange(TONES) / share.sum(axis=1))


def _beyond(levels: NDArray[np.intp], values: NDArray[np.float64], end: float) -> float:
    """Where the curve goes on to ``end``, beyond the last level that is known."""
    last = 0 if end < levels[0] else -1
    near = np.abs(levels - levels[last]) <= LAST
    if near.sum() < 2:
        return float(values[last])
    rise = max(float(np.polyfit(levels[near], values[near], 1)[0]), 0.0)
    return float(values[last] + rise * (end - levels[last]))


def _is_spread(
    source: Floats, mask: NDArray[np.bool_], place: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Of every level, whether its pixels lie in more than one place of the picture."""
    edges = np.zeros(source.shape, bool)
    edges[1:] = np.abs(np.diff(source, axis=0)) > 2
    y, x = np.nonzero(edges & mask) if (edges & mask).any() else np.nonzero(mask)
    steps = np.arange(1, CELLS) / CELLS
    down, across = (np.quantile(axis, steps) for axis in (y, x))
    rows, columns = np.nonzero(mask)
    cell = np.searchsorted(down, rows) * CELLS + np.searchsorted(across, columns)
    counts = np.bincount(place * CELLS**2 + cell, minlength=FINE_LEVELS * CELLS**2)
    grid = counts.reshape(FINE_LEVELS, CELLS, CELLS)
    places = np.lib.stride_tricks.sliding_window_view(grid, (PLACE, PLACE), axis=(1, 2))
    most = places.sum(axis=(3, 4)).max(axis=(1, 2))
    return np.asarray(most < IN_ONE_PLACE * np.maximum(grid.sum(axis=(1, 2)), 1))


def _knots(
    ours: Floats, theirs: Floats, place: NDArray[np.intp], least: int
) -> list[tuple[float, float]]:
    """Of every level that enough pixels have, its median and that of the other picture there."""
    order = np.argsort(
        place.astype(np.uint8), kind="stable"
    )  # of bytes: in one pass, no comparisons
    bounds = np.searchsorted(place[order], np.arange(int(place.max(initial=0)) + 2))
    return [
        (float(np.median(ours[order[start:end]])), float(np.median(theirs[order[start:end]])))
        for start, end in itertools.pairwise(bounds.tolist())
        if end - start >= least
    ]


def tone_line(source: Floats, target: Floats, share: int = 70) -> tuple[float, float]:
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


# Aligned pictures in one tone.


def in_other_tones(frame: Frame, inverted: bool) -> bool:
    """Whether most of what is neither black nor white is so much lighter or darker that a change may hide in it."""
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    between = frame.inside & (np.abs(frame.query - 127.5) < BETWEEN)
    apart = np.abs(theirs - frame.query)[between]
    return bool(len(apart)) and float(np.median(apart)) > OTHER_TONE


def in_one_tone(
    cv2: Any, query: PictureFeatures, candidate: PictureFeatures, hypothesis: Hypothesis
) -> Frame | None:
    """The two with one of them in the tone of the other: what was clipped or became darker cannot be brought
    back, so that the way that leads closer is the one that was gone.

    The curve is drawn, and the picture led through it, before it is made smaller: the mean of what a curve
    made darker is not what it makes of the mean.
    """
    full = lay(cv2, query, candidate, hypothesis.warp, SIDE)
    if full is None:
        return None
    theirs = 255.0 - full.candidate if hypothesis.inverted else full.candidate
    mask = without_margin(cv2, full.inside)
    if mask.sum() < 256:
        return None
    pairs = []
    if (curve := tone_curve(full.query, theirs, mask)) is not None:
        pairs.append((_through(query, curve), candidate))
    if (curve := tone_curve(theirs, full.query, mask)) is not None:
        curve = 255.0 - curve[::-1] if hypothesis.inverted else curve
        pairs.append((query, _through(candidate, curve)))
    frames = (lay(cv2, *pair, hypothesis.warp) for pair in pairs)

    def apart(frame: Frame) -> float:
        theirs = 255.0 - frame.candidate if hypothesis.inverted else frame.candidate
        contrast = max(float(frame.query[frame.inside].std()), 1.0)
        return float(np.abs(frame.query - theirs)[frame.inside].mean()) / contrast

    return min((frame for frame in frames if frame is not None), key=apart, default=None)


def _through(features: PictureFeatures, curve: Floats) -> PictureFeatures:
    return replace(features, grey=np.rint(curve).astype(np.uint8)[features.grey])
