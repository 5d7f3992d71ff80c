"""Bring one of two aligned pictures to the tone of the other, whatever marks lie on them."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.features import Floats

LEVELS = 16  # of a tone curve
OFF_CURVE = 45.0  # grey levels: a gamma of .6 bends the curve by less
FINE_LEVELS = 40  # of one that bends: gamma is steep near black
CELLS = 8  # across and down, with equal shares of the picture's edges
PLACE = 3  # cells across and down
IN_ONE_PLACE = 0.75  # share of a level's pixels, from which on it may belong to one thing
CURVED = 4  # levels that a tone curve is drawn through at least
CURVED_RANGE = 48.0  # grey levels that they span
BENT = 4.0  # grey levels off a line; less is brightness and contrast
ON_CURVE = 6.0  # grey levels that half of the pixels lie within
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


def through_tone_curve(source: Floats, target: Floats, mask: NDArray[np.bool_]) -> Floats | None:
    """``source`` through the tone curve of the whole picture that leads to ``target``, if there is one.

    Gamma, windowing, clipped highlights and equalised histograms bend it. Only levels that occur in several
    places count: a thing that was made lighter or removed is no tone curve. None where brightness and
    contrast are enough, and where most pixels lie off the curve, as those of another picture do.
    """
    ours, theirs = source[mask], target[mask]
    place = np.clip(ours / 256.0 * FINE_LEVELS, 0, FINE_LEVELS - 1).astype(np.intp)
    spread = _is_spread(source, mask, place)[place]
    knots = _knots(ours[spread], theirs[spread], place[spread], max(24, len(ours) // 4000))
    if len(knots) < CURVED:
        return None
    levels, values = np.array(knots).T
    curve = np.maximum.accumulate(values)
    if np.ptp(levels) < CURVED_RANGE or float((curve - values).max()) > FALL:
        return None
    if np.abs(values - np.polyval(np.polyfit(levels, values, 1), levels)).max() < BENT:
        return None
    ends = [
        curve[inner]
        + (curve[inner] - curve[next_]) / (levels[inner] - levels[next_]) * (end - levels[inner])
        for inner, next_, end in ((0, 1, 0.0), (-1, -2, 255.0))
    ]
    brought = np.interp(source, [-1e-3, *levels, 255.001], [ends[0], *curve, ends[1]])
    if float(np.median(np.abs(brought[mask] - theirs))) > ON_CURVE:
        return None
    return np.asarray(np.clip(brought, 0, 255), np.float32)


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
    order = np.argsort(place, kind="stable")
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
