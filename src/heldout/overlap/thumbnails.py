"""Small pictures of matched images, kept in the run so that the report is rebuilt offline."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from heldout.image import to_rgb

SIDE = 256


def thumbnail(digest: str, image: Image.Image) -> dict[str, Any]:
    """A row of the thumbnails table; ``digest`` is the byte digest of the original file."""
    small = to_rgb(image).copy()  # thumbnail() works in place
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=82)
    return {
        "digest": digest,
        "width": image.width,
        "height": image.height,
        "webp": buffer.getvalue(),
    }
