"""Panels of a compound figure: cut a page along its gutters, whatever their colour."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

SMALLEST = 72  # pixels; smaller pieces are labels and legends
SMALLEST_SHARE = 0.02  # of the page
MOST = 12
PAGE = 232  # white paper is at least this light
WHITE = 250  # or it is this light but for a few
STRAY = 0.02  # of the pixels of a line: letters and arrows reach into gutters
UNSEEN = 0.004  # of the pixels of a line that nothing reaches into: JPEG leaves some specks
BAND = 2  # lines on either side of where cells of a regular grid meet
MOST_CELLS = 4  # a side
INK = 10  # grey levels within which a gutter is of one colour: JPEG softens its edges
SPARSE = 5  # every so manieth pixel of a line tells whether it may be of one colour
APART = 24  # grey levels between two colours of gutters that are tried
COLOURS = 3  # tried beside white

Box = tuple[int, int, int, int]  # left, top, right, bottom


def panel_boxes(grey: NDArray[np.uint8]) -> list[Box]:
    """Boxes of the panels of a page, or none where the picture is no page with gutters."""
    best = _large(grey, _cut_along(grey, None))
    if len(best) < 2:
        for colour in _gutter_colours(grey):
            for pieces in (_cut_along(grey, colour), _cells(grey, colour)):
                boxes = _large(grey, pieces)
                # A single piece is what a frame holds, or a film without its black margins: no panel.
                if len(boxes) > max(1, len(best)) and _looks_like_panels(boxes):
                    best = boxes
    return best


def _large(grey: NDArray[np.uint8], boxes: list[Box]) -> list[Box]:
    height, width = grey.shape
    large = [
        box
        for box in boxes
        if min(box[2] - box[0], box[3] - box[1]) >= SMALLEST
        and _area(box) >= SMALLEST_SHARE * height * width
    ]
    if large == [(0, 0, width, height)]:
        return []
    large.sort(key=lambda box: -_area(box))
    return sorted(large[:MOST], key=lambda box: (box[1], box[0]))


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _looks_like_panels(boxes: list[Box]) -> bool:
    """Panels are of a size; what black ground leaves of one film is an organ and some crumbs."""
    areas = sorted((_area(box) for box in boxes), reverse=True)
    return areas[1] >= 0.25 * areas[0]


def _gutter_colours(grey: NDArray[np.uint8]) -> list[int]:
    """Greys of the lines that are of one colour from end to end, the most frequent first."""
    levels: list[int] = []
    for axis in (0, 1):
        some = grey[::SPARSE] if axis == 0 else grey[:, ::SPARSE]
        lowest, highest = some.min(axis=axis), some.max(axis=axis)
        plain = highest - lowest <= INK
        levels += ((lowest[plain].astype(np.int64) + highest[plain]) // 2).tolist()
    counts = np.bincount(np.array(levels, np.int64), minlength=256)
    colours: list[int] = []
    for level in np.argsort(-counts, kind="stable").tolist():
        if counts[level] < 2 or len(colours) == COLOURS:
            break
        if level < PAGE and all(abs(level - other) >= APART for other in colours):
            colours.append(level)
    return colours


def _cut_along(grey: NDArray[np.uint8], colour: int | None) -> list[Box]:
    """Pieces between gutters of one colour, None for white paper."""
    height, width = grey.shape
    if colour is None and not _has_white_lines(grey):
        return [(0, 0, width, height)]
    boxes: list[Box] = []
    if colour is None:
        inked, tinted = grey < WHITE, grey < PAGE
    else:
        inked = outside(grey, colour - INK, colour + INK)
        tinted = inked
    _cut(inked, tinted, (0, 0, width, height), boxes, 0)
    return boxes


def _has_white_lines(grey: NDArray[np.uint8]) -> bool:
    """Whether a look at every fifth pixel leaves a line that may be a gutter; most pictures have none."""
    for axis, some in ((0, grey[::SPARSE]), (1, grey[:, ::SPARSE])):
        few = count_along(some < WHITE, axis) <= STRAY * grey.shape[axis]
        if few.any() or (count_along(some < PAGE, axis) == 0).any():
            return True
    return False


def outside(grey: NDArray[np.uint8], low: int, high: int) -> NDArray[np.bool_]:
    """Where greys are lower or higher, by one comparison: what lies below ``low`` wraps round."""
    least = max(0, low)
    return np.asarray(grey - np.uint8(least) > np.uint8(min(255, high) - least))


def _cut(
    inked: NDArray[np.bool_], tinted: NDArray[np.bool_], box: Box, boxes: list[Box], depth: int
) -> None:
    left, top, right, bottom = box
    if min(right - left, bottom - top) < SMALLEST // 2:
        return
    part, dark = inked[top:bottom, left:right], tinted[top:bottom, left:right]
    for axis in (0, 1):
        few = count_along(part, axis) <= STRAY * part.shape[axis]
        spans = _spans(few | ~dark.any(axis=axis))
        length = part.shape[1 - axis]
        if depth < 6 and spans != [(0, length)]:
            for start, end in spans:
                inner = (
                    (left + start, top, left + end, bottom)
                    if axis == 0
                    else (left, top + start, right, top + end)
                )
                _cut(inked, tinted, inner, boxes, depth + 1)
            return
    boxes.append(box)


def _cells(grey: NDArray[np.uint8], colour: int) -> list[Box]:
    """What the cells of a regular grid show, without their margins, where nothing reaches from one into the next.

    Beside black gutters a film on black ground has no edge, and falls into a head, a table and the lines of a couch.
    """
    inked = outside(grey, colour - INK, colour + INK)
    height, width = grey.shape
    columns, rows = (
        [count for count in range(MOST_CELLS, 0, -1) if _is_parted(inked, axis, count)]
        for axis in (0, 1)
    )
    for across, down in sorted(
        itertools.product(columns, rows), key=lambda grid: -grid[0] * grid[1]
    ):
        cells = [
            _shown(
                inked,
                (
                    column * width // across,
                    row * height // down,
                    (column + 1) * width // across,
                    (row + 1) * height // down,
                ),
            )
            for row in range(down)
            for column in range(across)
        ]
        boxes = [box for box in cells if box is not None]
        if len(boxes) == len(cells) > 1:
            return boxes
    return []


def _is_parted(inked: NDArray[np.bool_], axis: int, count: int) -> bool:
    """Whether so many cells of one size have nothing between them."""
    for edge in range(1, count):
        middle = edge * inked.shape[1 - axis] // count
        band = np.s_[middle - BAND : middle + BAND + 1]
        lines = inked[:, band] if axis == 0 else inked[band]
        if (count_along(lines, axis) > UNSEEN * inked.shape[axis]).any():
            return False
    return True


def _shown(inked: NDArray[np.bool_], cell: Box) -> Box | None:
    """The part of a cell that shows something; None where that is less than a panel."""
    left, top, right, bottom = cell
    part = inked[top:bottom, left:right]
    across, down = (
        np.flatnonzero(count_along(part, axis) > UNSEEN * part.shape[axis]) for axis in (0, 1)
    )
    if not len(across) or not len(down):
        return None
    box = (
        left + int(across[0]),
        top + int(down[0]),
        left + int(across[-1]) + 1,
        top + int(down[-1]) + 1,
    )
    return box if min(box[2] - box[0], box[3] - box[1]) >= SMALLEST // 2 else None


def count_along(mask: NDArray[np.bool_], axis: int) -> NDArray[np.unsignedinteger]:
    """How many are true, line by line; several times as fast as ``np.count_nonzero`` with an axis."""
    enough = np.uint16 if mask.shape[axis] < 1 << 16 else np.uint64
    return np.asarray(np.add.reduce(mask.view(np.uint8), axis=axis, dtype=enough))


def _spans(gutter: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of anything but gutter; a gutter of a single line is part of a picture."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], gutter, [True]]).astype(np.int8)))
    runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    joined: list[tuple[int, int]] = []
    for start, end in runs:
        if joined and start - joined[-1][1] < 2:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
