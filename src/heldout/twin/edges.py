"""Edges: the outlines of a picture, which keep the layout of its twin."""

from __future__ import annotations

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.image import to_rgb

LOW, HIGH = 100, 200  # size of the gradient at an edge: what Canny ControlNets were trained on


def canny(picture: Image.Image, low: int = LOW, high: int = HIGH) -> Image.Image:
    """White outlines on black, mode "L", of the picture's size.

    A gradient above ``high`` is an edge; one above ``low`` is, too, where it touches such an edge.
    """
    require("cv2", "vision", "finding edges")
    import cv2

    check_thresholds(low, high)
    # Of the colours, not of their greys: red on green of one lightness has an outline, too.
    pixels = np.ascontiguousarray(np.asarray(to_rgb(picture)))
    return Image.fromarray(cv2.Canny(pixels, low, high))


def check_thresholds(low: int, high: int) -> None:
    if not 0 <= low <= high or high == 0:
        raise InputError(
            f"edge thresholds {low} and {high}: expected 0 <= low <= high and high > 0, "
            f"for example {LOW} and {HIGH}"
        )
