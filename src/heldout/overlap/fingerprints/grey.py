"""The grey picture both hashes start from, made once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import grey_plane, to_rgb
from heldout.overlap.scratch import Scratch

_scratch = Scratch()


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
    """Greys around 0: half the magnitude, so half the rounding error of every sum over them.

    Overwritten by the next call.
    """
    # With the highest bit turned over, the byte of v reads as v - 128: cheaper than a subtraction.
    turned = np.bitwise_xor(grey, 128, out=_scratch.take("turned", grey.shape, np.uint8))
    floats: NDArray[np.float32] = _scratch.take("floats", grey.shape, np.float32)
    np.copyto(floats, turned.view(np.int8))
    return floats
