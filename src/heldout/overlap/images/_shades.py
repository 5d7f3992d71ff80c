"""Places of a copy that are lighter or darker without an edge: detail alone does not show them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images._agreement import BLURS, Frame, without_margin
from heldout.overlap.images._tone import in_tone_of
from heldout.overlap.images.features import Floats

SOFT = 8.0  # pixels: what is softer than this has no edge, as an opacity on a film
SHADED_PIXELS = 60
HATS = 9  # knots of the tone curve that shades are compared through
MEANS = 9  # pixels a side that are averaged: a block of JPEG and its edge
MOST = 99  # per cent of the means that may differ by as much at most


def is_shaded(cv2: Any, first: Floats, second: Floats, mask: NDArray[np.bool_], bar: float) -> bool:
    """Whether some place is lighter or darker without an edge: detail alone does not show it."""
    inside = mask.astype(np.float32)
    # The mask softened: what a soft value near its edge is divided by.
    weights = {sigma: np.maximum(_soft(cv2, inside, sigma), 1e-3) for sigma in (SOFT, 1.5 * SOFT)}
    left = np.minimum(
        _unexplained_shade(cv2, first, second, mask, weights),
        _unexplained_shade(cv2, second, first, mask, weights),
    )
    return float(np.partition(left, -SHADED_PIXELS)[-SHADED_PIXELS]) > bar


def _unexplained_shade(
    cv2: Any,
    target: Floats,
    source: Floats,
    mask: NDArray[np.bool_],
    weights: dict[float, Floats],
) -> NDArray[np.float64]:
    """Grey levels of the softened target that one tone curve and one blur of the source leave."""
    inside = mask.astype(np.float32)

    def soft(values: Floats, sigma: float = SOFT) -> NDArray[np.float64]:
        return np.asarray((_soft(cv2, values * inside, sigma) / weights[sigma])[mask], np.float64)

    places = source / np.float32(255.0 / (HATS - 1))
    hats = [np.maximum(0, 1 - np.abs(places - np.float32(knot))) for knot in range(HATS)]
    near = soft(source)
    parts = [*(soft(hat) for hat in hats), (soft(source, 1.5 * SOFT) - near) / 64.0]
    columns = np.stack(parts + _nudges(cv2, source, inside, mask, weights[SOFT]), 1)
    wanted = soft(target) - near
    left = np.abs(wanted)
    kept = np.arange(0, len(wanted), 5)
    for _ in range(3):
        some = columns[kept]
        normal = some.T @ some + 1e-4 * len(kept) * np.eye(some.shape[1])
        left = np.abs(wanted - columns @ np.linalg.solve(normal, some.T @ wanted[kept]))
        kept = np.flatnonzero(left <= np.percentile(left[::5], 85))[::4]
    return np.asarray(left)


def _nudges(
    cv2: Any, source: Floats, inside: Floats, mask: NDArray[np.bool_], weight: Floats
) -> list[NDArray[np.float64]]:
    """What the softened source changes by where it is laid a little off: six ways to move a plane."""
    down, across = (_soft(cv2, slope * inside, SOFT) / weight for slope in np.gradient(source))
    height, width = source.shape
    y, x = (axis[mask] for axis in np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j])
    slopes = (np.asarray(slope[mask], np.float64) for slope in (across, down))
    return [slope * place for slope in slopes for place in (np.ones_like(x), x, y)]


def _soft(cv2: Any, values: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma))


# Means of small blocks: compression changes the detail of a block and keeps its mean.


def shades_apart(cv2: Any, frame: Frame, inverted: bool) -> float:
    """Grey levels by which the means of small blocks differ in the hundredth that differs most.

    A tone curve, a filter for the whole frame and a slight bend of it are allowed for.
    """
    theirs = 255.0 - frame.candidate if inverted else frame.candidate
    mask = without_margin(cv2, frame.inside)
    if mask.sum() < 256:
        return 255.0
    return min(
        _means_apart(cv2, frame.query, theirs, mask), _means_apart(cv2, theirs, frame.query, mask)
    )


def _means_apart(cv2: Any, target: Floats, source: Floats, mask: NDArray[np.bool_]) -> float:
    source = in_tone_of(source, target, mask)
    filtered = [cv2.GaussianBlur(source, (0, 0), sigma) if sigma else source for sigma in BLURS]
    height, width = source.shape
    y, x = (axis[mask] for axis in np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j])
    places = (np.ones_like(x), x, y, x * x, x * y, y * y)
    slopes = (slope[mask] for slope in np.gradient(cv2.GaussianBlur(source, (0, 0), 1.0)))
    bends = [slope * place for slope in slopes for place in places]
    columns = np.stack([*(values[mask] for values in filtered), *bends, np.ones_like(x)], 1)
    wanted = target[mask].astype(np.float64)
    left = wanted
    kept = np.arange(0, len(wanted), 3)
    for _ in range(2):  # the second time without what the first leaves most of
        some = columns[kept]
        normal = some.T @ some + 1e-3 * len(kept) * np.eye(some.shape[1])
        left = wanted - columns @ np.linalg.solve(normal, some.T @ wanted[kept])
        kept = np.flatnonzero(np.abs(left) <= np.percentile(np.abs(left), 85))[::3]
    apart = np.zeros(source.shape, np.float32)
    apart[mask] = left
    return float(np.percentile(np.abs(cv2.blur(apart, (MEANS, MEANS)))[mask], MOST))
