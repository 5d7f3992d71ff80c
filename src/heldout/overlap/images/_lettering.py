"""Is what differs between two aligned pictures lettering: thin strokes in a row, drawn in one ink?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.features import Floats

STROKE = 0.014  # of the longer side of the frame: half the width that a stroke has at most
BLOB = 0.2  # share of a mark that may be wider than a stroke
LETTERS = 4  # strokes of a word that stand apart
SHAPED = 30  # pixels, from which on a letter has a shape
SPECK = 40  # pixels of a letter that might be any small thing
SPECKS = 8  # such letters are a word
ALIKE = 0.2  # spread of the sizes of fewer, in shares of their mean, below which they are things of one kind
RULED = 0.8  # share of an outline that is upright or level where it is no lettering's
RULED_EDGE, RULED_SLANT = 0.5, 0.2  # of the strongest edge, of an edge's own height
FILLED, BOXES = 0.85, 0.6  # share of a piece's frame, and of the ink, from which on they are boxes
IN_A_ROW = 2.2  # times as long as it is high
BESIDE = 3.0  # times a letter's size, that the next stands from it at most
MOST = 0.8  # share of the letters that stand so
GAP = 0.4  # of its length, across which a row does not go on
INKS = 33  # greys that are tried for the ink of a mark
BEYOND_INK = 6.0  # grey levels: compression overshoots
ONE_SIDED = 0.97
THICK = 0.028  # the same of a watermark's large letters
REACH = 0.25  # of the longer side, that a watermark spans at least
WEAK = 7.0  # where it continues what is strong, it belongs to the mark, too
CORNER = 0.16  # of a side: where a letter names a panel
LABEL = 0.012  # share of the frame that it covers at most
TINY_LABEL = 0.001  # share of which no shape can be told


def is_lettering(cv2: Any, strong: NDArray[np.bool_], difference: Floats, one_sided: bool) -> bool:
    """Several strokes in a row; those of large letters reach far."""
    if not strong.any():
        return False
    ink = strong.astype(np.uint8)
    points = np.argwhere(strong).astype(np.float64)
    if not is_thin(cv2, ink):
        if not one_sided or np.ptp(points, axis=0).max() < REACH * max(strong.shape):
            return False
        if not is_thin(cv2, ink, THICK):
            return False
    variances, axes = np.linalg.eigh(np.cov(points.T))
    spread = np.sqrt(np.maximum(variances, 1e-6))
    if spread[1] < IN_A_ROW * spread[0]:
        return False
    most = _most_of_row(points @ axes[:, 1])
    if not most.all():
        # The letter that names a panel and a thing far from it lie in a row, as any two do.
        alone = np.zeros_like(strong)
        alone[tuple(points[most].astype(np.intp).T)] = True
        return is_lettering(cv2, alone, difference, one_sided)
    # The soft rims of small letters touch each other; their cores do not.
    apart = np.abs(difference)
    core = strong & (apart > np.percentile(apart[strong], 75) / 2)
    return any(_has_letters(cv2, part.astype(np.uint8)) for part in (strong, core))


def _most_of_row(along: Floats) -> NDArray[np.bool_]:
    """Which points lie on the side of the widest gap that has most of them; all where there is no such gap."""
    order = np.sort(along)
    steps = np.diff(order)
    widest = int(np.argmax(steps))
    if steps[widest] <= GAP * (order[-1] - order[0]):
        return np.ones(len(along), bool)
    first = along <= order[widest]
    return np.asarray(first if 2 * int(first.sum()) >= len(along) else ~first)


def _has_letters(cv2: Any, ink: NDArray[np.uint8]) -> bool:
    _, labels, statistics, middles = cv2.connectedComponentsWithStats(ink, connectivity=8)
    areas = statistics[1:, cv2.CC_STAT_AREA]
    letters = np.flatnonzero(areas >= max(4, 0.01 * int(ink.sum()))) + 1
    shaped = letters[areas[letters - 1] >= SHAPED]
    if len(letters) < LETTERS or _is_boxes(statistics[letters]):
        return False
    if len(letters) < SPECKS and _are_alike_specks(areas[letters - 1]):
        return False
    if not _stand_together(middles[letters], statistics[letters]):
        return False
    return not len(shaped) or not _is_ruled(cv2, np.isin(labels, shaped).astype(np.uint8))


def _are_alike_specks(areas: NDArray[np.int32]) -> bool:
    """Whether they might be any small things of one kind, as windows of a house are; letters differ."""
    return bool(np.median(areas) < SPECK and areas.std() < ALIKE * areas.mean())


def _stand_together(middles: Floats, statistics: NDArray[np.int32]) -> bool:
    """Whether letters stand beside letters. Things that lie about, as the points of a plot do, may form a row, too."""
    size = np.median(statistics[:, 2:4].max(axis=1))
    apart = np.linalg.norm(middles[:, None] - middles[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    return float((apart.min(axis=1) <= BESIDE * size).mean()) >= MOST


def _is_boxes(statistics: NDArray[np.int32]) -> bool:
    """Whether most of the ink is in pieces that fill their frame, as the ends of bars do and letters do not."""
    _, _, width, height, areas = statistics.T
    boxes = areas >= FILLED * width * height
    return float(areas[boxes].sum()) > BOXES * float(areas.sum())


def _is_ruled(cv2: Any, ink: NDArray[np.uint8]) -> bool:
    """Whether nearly all of the outline is upright or level, as that of bars in a chart is."""
    soft = cv2.GaussianBlur(ink.astype(np.float32), (0, 0), 1.0)
    across, down = (np.abs(cv2.Sobel(soft, cv2.CV_32F, *way)) for way in ((1, 0), (0, 1)))
    least, most = np.minimum(across, down), np.maximum(across, down)
    outline = most > RULED_EDGE * most.max()
    return float((least <= RULED_SLANT * most)[outline].mean()) >= RULED


def has_one_ink(marked: Floats, clean: Floats) -> bool:
    """Whether all of it was drawn towards one grey, from above and from below, and not beyond it."""
    moved = marked - clean
    for ink in np.linspace(0.0, 255.0, INKS):
        way = ink - clean
        towards = (moved * way > 0) & (np.abs(moved) <= np.abs(way) + BEYOND_INK)
        if float(towards.mean()) >= ONE_SIDED:
            return True
    return False


def is_thin(cv2: Any, ink: NDArray[np.uint8], stroke: float = STROKE) -> bool:
    radius = max(2, round(stroke * max(ink.shape)))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    wide = int(cv2.morphologyEx(ink, cv2.MORPH_OPEN, disc).sum())
    return wide <= BLOB * max(1, int(ink.sum()))


def corners(cv2: Any, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The corners of a frame nearly to its rim: letters are often that close to it."""
    down, across = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    tall, wide = (round(CORNER * len(axis)) for axis in (down, across))
    rows, columns = np.zeros(inside.shape[0], bool), np.zeros(inside.shape[1], bool)
    rows[down[:tall]] = rows[down[-tall:]] = True
    columns[across[:wide]] = columns[across[-wide:]] = True
    rim = cv2.erode(inside.astype(np.uint8), np.ones((5, 5), np.uint8), borderValue=0) > 0
    return np.asarray(rim & rows[:, None] & columns)


def letter_in_corner(
    cv2: Any, strong: NDArray[np.bool_], apart: Floats, inside: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float] | None:
    """The letter in a corner, as panels of a figure have it, if there is one; with its rim, and its share."""
    down, across = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    top, left = float(down[0]), float(across[0])
    tall, wide = float(down[-1]) - top, float(across[-1]) - left
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(
        strong.astype(np.uint8), connectivity=8
    )
    levels = np.abs(apart)
    x, y, width, height, _ = statistics.T
    from_top, from_left = (y - top) / tall, (x - left) / wide
    to_bottom, to_right = (y + height - top) / tall, (x + width - left) / wide
    for high in (to_bottom < CORNER, from_top > 1 - CORNER):
        for aside in (to_right < CORNER, from_left > 1 - CORNER):
            cornered = high & aside
            cornered[0] = False
            letter = cornered[labels]
            share = float(letter.sum()) / float(inside.sum())
            if letter.any() and share <= LABEL:
                ink = letter & (levels > levels[letter].max() / 2)
                if share <= TINY_LABEL or is_thin(cv2, ink.astype(np.uint8)):
                    return letter, with_rims(cv2, letter.astype(np.uint8), levels > WEAK), share
    return None


def with_rims(cv2: Any, strong: NDArray[np.uint8], weak: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The strong differences with their rims, and the weak ones that continue them."""
    near = cv2.dilate(strong, np.ones((7, 7), np.uint8)) > 0
    count, labels = cv2.connectedComponents((weak | near).astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels.ravel(), minlength=count)
    seeds = np.bincount(labels[strong > 0].ravel(), minlength=count)
    # A weak difference that is mostly not the mark's is the picture's own.
    of_mark = (seeds > 0) & (sizes < 6 * np.maximum(seeds, 1))
    of_mark[0] = False
    return np.asarray(near | of_mark[labels])
