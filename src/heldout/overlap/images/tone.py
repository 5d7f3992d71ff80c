"""Bring one of two aligned pictures to the tone of the other, whatever marks lie on them."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.features import Floats

LEVELS = 16  # of a tone curve
OFF_CURVE = 45.0  # grey levels: a gamma of .6 bends the curve by less


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


def _knots(
    ours: Floats, theirs: Floats, place: NDArray[np.intp], least: int
) -> list[tuple[float, float]]:
    """Of every level that enough pixels have, its median and that of the other picture there."""
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(LEVELS + 1))
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
