"""The grey picture both hashes start from, made once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import grey_plane, to_rgb


def grey_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Pillow's "L" of the picture as 8-bit RGB: what ``imagehash`` sees."""
    plane = grey_plane(image)
    return grey_of_colours(image) if plane is None else plane


def grey_of_colours(image: Image.Image) -> NDArray[np.uint8]:
    """The same for a picture that is known to have no single plane."""
    plane = grey_plane(to_rgb(image).convert("L"))
    assert plane is not None  # its mode is "L"
    return plane


def centred(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Greys around 0: half the magnitude, so half the rounding error of every sum over them."""
    # With the highest bit turned over, the byte of v reads as v - 128: cheaper than a subtraction.
    return np.bitwise_xor(grey, 128).view(np.int8).astype(np.float32)
