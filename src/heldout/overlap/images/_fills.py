"""Fills that were exchanged for others of equal lightness: registration compares greys and sees none of it.

Compression changes the colour of a pixel and keeps that of a fill. So what counts is the mean over a window,
after one map of colours for the whole picture: saturation, white balance and tone curves make no other picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap.images._hues import SIDE
from heldout.overlap.images._registration import Rows

WINDOW = 12  # pixels of SIDE: a fill that is smaller is diluted by what is around it
OTHER_FILL = 6.0  # chroma levels; copies leave 5, the nearest colours of a map or table differ by 7
OF_THE_MAP = 0.35  # of what the map moves colours by: so much more it may leave, as where it clips
MOST_MOVED = 95  # per cent of the cells are moved by no more than that
CELL = 4  # pixels a side: one value of the map is fitted to each
EXPLAINED = (
    2.0  # levels: what is explained so well is trusted in full, the rest the less the further off
)
SHADE = 16  # levels within which colours count as one
KNOTS = 17  # of a tone curve
ROUNDS = 8
MARKED = 12.0  # levels of light by which a mark stands out
CHROMA = np.array([[-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32)
LIGHT = np.array([0.299, 0.587, 0.114], np.float32)

Pixels = NDArray[np.float32]
Mask = NDArray[np.bool_]


def has_other_fill(
    query: Image.Image, candidate: Image.Image, warp: Rows, *, marked: bool = False
) -> bool:
    """Whether the mean colour of some window differs by more than a copy's, under any one map.

    What a map loses (clipped highlights, colours of what was turned grey) it cannot bring back: both ways
    are tried. Of a ``marked`` picture the places that are lighter or darker are left out.
    """
    import cv2

    ours, theirs, inside = _laid_evenly(query, candidate, warp)
    seen = cv2.erode(inside.astype(np.uint8), np.ones((5, 5), np.uint8), borderValue=1) > 0
    if marked:
        light = np.abs((ours - theirs) @ LIGHT)
        around = cv2.dilate(cv2.blur(light, (3, 3)), np.ones((9, 9), np.uint8))
        seen &= around <= float(np.median(around)) + MARKED
    chroma = ours @ CHROMA.T, theirs @ CHROMA.T
    if _most_apart(cv2, *chroma, seen) <= OTHER_FILL:
        return False
    whole = _cells(seen.astype(np.float32)[..., None])[:, 0] > 0.99
    if not whole.any():
        return False
    maps = [_mapped(chroma[0], theirs, whole), _mapped(chroma[1], ours, whole)]
    moved = min(_moved(maps[0], chroma[1]), _moved(maps[1], chroma[0]))
    bar = OTHER_FILL + OF_THE_MAP * moved
    if (
        min(_most_apart(cv2, wanted, own, seen) for wanted, own in zip(chroma, maps, strict=True))
        <= bar
    ):
        return False
    maps = [
        _mapped(chroma[0], _in_tone(ours, theirs, whole), whole),
        _mapped(chroma[1], _in_tone(theirs, ours, whole), whole),
    ]
    return (
        min(_most_apart(cv2, wanted, own, seen) for wanted, own in zip(chroma, maps, strict=True))
        > bar
    )


def _laid_evenly(
    query: Image.Image, candidate: Image.Image, warp: Rows
) -> tuple[Pixels, Pixels, Mask]:
    """Both in the query's frame, ``SIDE`` pixels a side, each averaged down to that before it is laid."""
    ours, theirs = to_rgb(query), to_rgb(candidate)
    matrix = np.array(warp) @ np.diag([ours.width / SIDE, ours.height / SIDE, 1.0])
    matrix /= matrix[2, 2]
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:2, :2]))))
    if scale > 1:
        size = max(1, round(theirs.width / scale)), max(1, round(theirs.height / scale))
        matrix = np.diag([size[0] / theirs.width, size[1] / theirs.height, 1.0]) @ matrix
        theirs = theirs.resize(size, Image.Resampling.BILINEAR)
    values = tuple(float(value) for value in (matrix / matrix[2, 2]).ravel()[:8])
    frame, way = (SIDE, SIDE), Image.Transform.PERSPECTIVE
    shown = theirs.transform(frame, way, values, resample=Image.Resampling.BILINEAR)
    inside = Image.new("L", theirs.size, 255).transform(frame, way, values, fillcolor=0)
    small = ours.resize(frame, Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32), np.asarray(shown, np.float32), np.asarray(inside) > 0


def _most_apart(cv2: Any, first: Pixels, second: Pixels, seen: Mask) -> float:
    """Chroma levels between the means of the two in the window where they differ most.

    A pixel differs by what it lies outside of the colours around it in the other picture: edges are laid
    half a pixel off, and thin lines lose their colour.
    """
    there, back = _outside(cv2, first, second), -_outside(cv2, second, first)
    apart = np.where(np.abs(there) < np.abs(back), there, back) * seen[..., None]
    means = cv2.blur(apart, (WINDOW, WINDOW), borderType=cv2.BORDER_CONSTANT)
    share = cv2.blur(seen.astype(np.float32), (WINDOW, WINDOW), borderType=cv2.BORDER_CONSTANT)
    within = share > 0.97
    return float(np.hypot(means[..., 0], means[..., 1])[within].max()) if within.any() else 0.0


def _outside(cv2: Any, values: Pixels, other: Pixels) -> Pixels:
    around = np.ones((3, 3), np.uint8)
    above = np.maximum(values - cv2.dilate(other, around), 0)
    return np.asarray(above + np.minimum(values - cv2.erode(other, around), 0))


def _mapped(wanted: Pixels, source: Pixels, whole: Mask) -> Pixels:
    """The chroma that one linear map makes of the source's colours; what was exchanged counts little."""
    columns = np.concatenate([source, np.full((*source.shape[:2], 1), 255.0, np.float32)], axis=2)
    cells, target = _cells(columns)[whole], _cells(wanted)[whole]
    rare = _rarity(cells[:, :3])
    trust = rare
    for _ in range(ROUNDS):
        weights = _solved(cells, target, trust, np.eye(4))
        trust = rare * _trusted(np.abs(target - cells @ weights).max(axis=1))
    return np.asarray(columns @ weights.astype(np.float32))


def _in_tone(wanted: Pixels, source: Pixels, whole: Mask) -> Pixels:
    """The source under one rising curve for all three colours: a curve for each could exchange fills, too."""
    levels = np.linspace(0.0, 255.0, KNOTS)
    cells, target = _cells(source)[whole], _cells(wanted)[whole]
    hats = np.maximum(0, 1 - np.abs(cells[..., None] - levels) / levels[1])
    bends = np.diff(np.eye(KNOTS), 2, axis=0)
    rare = _rarity(cells)
    trust = rare
    for _ in range(ROUNDS):
        each = np.repeat(trust, 3)
        curve = _solved(hats.reshape(-1, KNOTS), target.ravel(), each, bends.T @ bends)
        curve = np.maximum.accumulate(curve)
        trust = rare * _trusted(np.abs(target - hats @ curve).max(axis=1))
    return np.asarray(np.interp(source, levels, curve).clip(0, 255), np.float32)


def _solved(
    columns: NDArray[np.float64],
    target: NDArray[np.float64],
    trust: NDArray[np.float64],
    calm: NDArray[np.float64],
) -> NDArray[np.float64]:
    weighted = columns.T * trust
    return np.asarray(
        np.linalg.solve(weighted @ columns + 1e-3 * trust.sum() * calm, weighted @ target)
    )


def _rarity(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Less for each cell of a colour that fills much: the ground alone would not tell what becomes of the rest."""
    _, colour, count = np.unique(
        (cells // SHADE).astype(np.int64) @ np.array([1, 256, 65536]),
        return_inverse=True,
        return_counts=True,
    )
    return np.asarray(1.0 / np.sqrt(count[colour]))


def _trusted(left: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.minimum(1.0, (EXPLAINED / np.maximum(left, 1e-9)) ** 2))


def _moved(mapped: Pixels, chroma: Pixels) -> float:
    return float(np.percentile(np.abs(_cells(mapped) - _cells(chroma)).max(axis=1), MOST_MOVED))


def _cells(values: Pixels) -> NDArray[np.float64]:
    step = SIDE // CELL
    means = values.reshape(step, CELL, step, CELL, -1).mean(axis=(1, 3), dtype=np.float64)
    return np.asarray(means.reshape(step * step, -1))
