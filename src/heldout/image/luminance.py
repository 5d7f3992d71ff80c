"""The one plane of a JPEG that was saved in colour and holds none, without making its colours.

The compiled part (``_jpeg.c``) is there where the package was built with a C compiler and the headers of
libjpeg-turbo; it calls the decoder that Pillow has loaded. What it gives up, and everything where it is
missing, ``decode`` does.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, _imaging

from heldout.image.decode import ORIENTATION, open_image
from heldout.image.dicom import is_dicom
from heldout.image.kinds import JPEG
from heldout.image.problem import MAX_PIXELS


def grey_jpeg(data: bytes, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8] | None:
    """``grey_plane(decode(data))`` of such a file; None of any other, and where nothing is compiled.

    Raises ImageError where a JPEG cannot be opened at all or is too large, as ``decode`` does.
    """
    luminance = compiled() if data.startswith(JPEG) and not is_dicom(data) else None
    if luminance is None:
        return None
    image = open_image(data, max_pixels)
    if image.format != "JPEG" or image.mode != "RGB" or not _lies_straight(image):
        return None
    try:
        plane = luminance(data, image.width, image.height)
    except MemoryError:  # decode says it as of any picture
        return None
    if plane is None:
        return None
    return np.frombuffer(plane, np.uint8).reshape(image.height, image.width)


@functools.cache
def compiled() -> Callable[[bytes, int, int], bytes | None] | None:
    """The compiled decoder, if it was built and gives the same greys as this build of Pillow."""
    try:
        from heldout.image._jpeg import luminance, use_library
    except ImportError:
        return None
    if not use_library(str(_imaging.__file__)):
        return None
    greys = np.random.default_rng(0).integers(0, 256, (5, 7), dtype=np.uint8)
    picture = Image.fromarray(greys).resize((75, 43), Image.Resampling.BICUBIC).convert("RGB")
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    with Image.open(file) as opened:
        expected = opened.getchannel("R").tobytes()
    return luminance if luminance(file.getvalue(), 75, 43) == expected else None


def _lies_straight(image: Image.Image) -> bool:
    try:
        return bool(image.getexif().get(ORIENTATION, 1) == 1)
    except Exception:  # a broken EXIF block: decode knows what to do with it
        return False
