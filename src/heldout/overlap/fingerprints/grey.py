"""The grey picture both hashes start from, made once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb

GREY_MIDDLE = np.float32(128)


def grey_image(image: Image.Image) -> Image.Image:
    """Pillow's "L" of the picture as 8-bit RGB: what ``imagehash`` sees."""
    if image.mode == "L":
        return image
    return to_rgb(image).convert("L")


def grey_pixels(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(grey_image(image))


def centred(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Greys around 0: half the magnitude, so half the rounding error of every sum over them."""
    result: NDArray[np.float32] = np.subtract(grey, GREY_MIDDLE, dtype=np.float32)
    return result
