"""A picture as the numbers a vision tower reads, as transformers' Pillow processors make them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.model.onnx.card import Preparation

Floats = NDArray[np.float32]


def prepare(picture: Image.Image, how: Preparation) -> Floats:
    """An RGB picture as (3, height, width)."""
    resized = picture.resize(_size(picture, how), Image.Resampling(how.resample))
    pixels = _cropped(np.asarray(resized), how.height, how.width)
    scaled = (pixels.astype(np.float64) * how.rescale_factor).astype(np.float32)
    mean, std = np.asarray(how.mean, np.float32), np.asarray(how.std, np.float32)
    normal = (scaled - mean) / std
    return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)


def _size(picture: Image.Image, how: Preparation) -> tuple[int, int]:
    """(width, height) to resize to."""
    if how.shortest_edge is None:
        return how.width, how.height
    short = min(picture.size)
    width, height = (
        how.shortest_edge if side == short else int(how.shortest_edge * side / short)
        for side in picture.size
    )
    return width, height


def _cropped(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The middle of a picture; black around one that is smaller."""
    short = [
        max(0, wanted - had) for wanted, had in zip((height, width), pixels.shape, strict=False)
    ]
    if any(short):
        around = [((missing + 1) // 2, missing // 2) for missing in short]
        pixels = np.pad(pixels, [*around, (0, 0)])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]
