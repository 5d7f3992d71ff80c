"""Parts of a corpus picture that may be somebody's picture: panels of a page, what a frame holds.

A copy inside a compound figure, or with a border around it, looks nothing like its original as a
whole. Cutting along gutters and frames is cheap next to encoding, and most pictures have neither.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.overlap.registration.panels import panel_boxes

_LEVELS = 14  # grey levels within which a margin is one colour: JPEG makes noise of a flat border
_WORTH = 0.97  # of the area; a frame that takes less is no frame
_SMALLEST = 48  # pixels a side


def parts(image: Image.Image) -> list[Image.Image]:
    """The picture itself first, then its panels, then what is inside its frame."""
    grey = np.asarray(image.convert("L"))
    found = [image]
    found += [image.crop(box) for box in panel_boxes(grey)]
    inside = trimmed(image, grey)
    return found if inside is None else [*found, inside]


def trimmed(image: Image.Image, grey: NDArray[np.uint8] | None = None) -> Image.Image | None:
    """The picture without margins of one colour, or None if it has none worth cutting."""
    grey = np.asarray(image.convert("L")) if grey is None else grey
    margin = int(np.median([grey[0, 0], grey[0, -1], grey[-1, 0], grey[-1, -1]]))
    shown = np.abs(grey.astype(np.int16) - margin) > _LEVELS
    # A line belongs to the margin unless something shows in a noticeable part of it.
    rows = np.flatnonzero(shown.mean(axis=1) > 0.02)
    columns = np.flatnonzero(shown.mean(axis=0) > 0.02)
    if not len(rows) or not len(columns):
        return None
    box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    width, height = box[2] - box[0], box[3] - box[1]
    if width * height > _WORTH * grey.size or min(width, height) < _SMALLEST:
        return None
    return image.crop(box)
