"""Parts of a corpus picture that may be somebody's picture: panels of a page, what a frame holds.

A copy inside a compound figure, or with a border around it, looks nothing like its original as a
whole. Cutting along gutters and frames is cheap next to encoding, and most pictures have neither.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.overlap.registration.features import Box, panel_boxes

_SIDE = 768  # pixels gutters and margins are looked for in
_LEVELS = 14  # grey levels within which a margin is one colour: JPEG makes noise of a flat border
_WORTH = 0.9  # of the area; a frame that takes less hides nothing
_SMALLEST = 48  # pixels a side


def parts(image: Image.Image) -> list[Image.Image]:
    """The picture itself first, then its panels, then what is inside its frame."""
    grey = _small(image)
    boxes = panel_boxes(grey)
    inside = _inside(grey)
    if inside is not None:
        boxes = [*boxes, inside]
    return [image, *(image.crop(_native(box, image, grey)) for box in boxes)]


def trimmed(image: Image.Image) -> Image.Image | None:
    """The picture without margins of one colour, or None if it has none worth cutting."""
    grey = _small(image)
    inside = _inside(grey)
    return None if inside is None else image.crop(_native(inside, image, grey))


def _small(image: Image.Image) -> NDArray[np.uint8]:
    step = max(image.size) // _SIDE
    return np.asarray(image.convert("L") if step < 2 else image.convert("L").reduce(step))


def _native(box: Box, image: Image.Image, grey: NDArray[np.uint8]) -> Box:
    across, down = image.width / grey.shape[1], image.height / grey.shape[0]
    left, top, right, bottom = box
    return (round(left * across), round(top * down), round(right * across), round(bottom * down))


def _inside(grey: NDArray[np.uint8]) -> Box | None:
    corners = np.array([grey[0, 0], grey[0, -1], grey[-1, 0], grey[-1, -1]])
    margin = int(np.median(corners))
    shown = (grey > margin + _LEVELS) | (grey < margin - _LEVELS)
    # A line belongs to the margin unless something shows in a noticeable part of it.
    rows = np.flatnonzero(shown.mean(axis=1) > 0.02)
    columns = np.flatnonzero(shown.mean(axis=0) > 0.02)
    if not len(rows) or not len(columns):
        return None
    box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    width, height = box[2] - box[0], box[3] - box[1]
    if width * height > _WORTH * grey.size or min(width, height) < _SMALLEST:
        return None
    return box
