"""Panels of a compound figure: cut a page along its white gutters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PAGE = 232  # a gutter is at least this light
SMALLEST = 72  # pixels; smaller pieces are labels and legends
SMALLEST_SHARE = 0.02  # of the page
MOST = 12
WHITE = 250  # or it is this light but for a few
STRAY = 0.02  # of its pixels: letters and arrows reach into gutters

Box = tuple[int, int, int, int]  # left, top, right, bottom


def panel_boxes(grey: NDArray[np.uint8]) -> list[Box]:
    """Boxes of the panels of a page, or none where the picture is no page with gutters."""
    height, width = grey.shape
    boxes: list[Box] = []
    _cut(grey, (0, 0, width, height), boxes, 0)
    large = [
        box
        for box in boxes
        if min(box[2] - box[0], box[3] - box[1]) >= SMALLEST
        and (box[2] - box[0]) * (box[3] - box[1]) >= SMALLEST_SHARE * height * width
    ]
    if large == [(0, 0, width, height)]:
        return []
    large.sort(key=lambda box: (box[0] - box[2]) * (box[3] - box[1]))
    return sorted(large[:MOST], key=lambda box: (box[1], box[0]))


def _cut(grey: NDArray[np.uint8], box: Box, boxes: list[Box], depth: int) -> None:
    left, top, right, bottom = box
    part = grey[top:bottom, left:right]
    if min(part.shape) < SMALLEST // 2:
        return
    for axis in (0, 1):
        white = (part < WHITE).mean(axis=axis) <= STRAY
        spans = _spans((part.min(axis=axis) >= PAGE) | white)
        length = part.shape[1 - axis]
        if depth < 6 and spans != [(0, length)]:
            for start, end in spans:
                inner = (
                    (left + start, top, left + end, bottom)
                    if axis == 0
                    else (left, top + start, right, top + end)
                )
                _cut(grey, inner, boxes, depth + 1)
            return
    boxes.append(box)


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
