"""Whether decoding keeps every bit: Pillow shows colours of more than 8 bits in 8."""

from __future__ import annotations

from typing import Any

from PIL import Image

_PNG_WITH_SEVERAL_CHANNELS = (2, 4, 6)  # colour, grey with alpha, colour with alpha
_TIFF_BITS = 258


def is_reduced(image: Image.Image, data: bytes) -> bool:
    """True if an image that is opened and not yet loaded will lose the lower bits of its samples."""
    if image.mode.startswith("I") or image.mode == "F":
        return image.format == "TIFF" and _tiff_bits(image) > 32
    if image.format == "PNG":
        # The header comes first in every PNG: its depth is byte 24, its kind byte 25.
        return data[24] == 16 and data[25] in _PNG_WITH_SEVERAL_CHANNELS
    if image.format == "TIFF":
        return _tiff_bits(image) > 8
    if image.format == "PPM":
        tiles: Any = getattr(image, "tile", ())
        return any(isinstance(part, int) and part > 255 for tile in tiles for part in tile.args)
    if image.format == "JPEG2000":
        start = data.find(b"\xff\x4f\xff\x51")  # the codestream; its first sample's depth
        return start >= 0 and len(data) > start + 42 and (data[start + 42] & 0x7F) + 1 > 8
    if image.format == "AVIF":
        start = data.find(b"av1C")
        return start >= 0 and len(data) > start + 6 and bool(data[start + 6] & 0x40)
    return False


def _tiff_bits(image: Image.Image) -> int:
    bits: Any = getattr(image, "tag_v2", {}).get(_TIFF_BITS, 1)
    listed = bits if isinstance(bits, tuple) else (bits,)
    return max((int(part) for part in listed if isinstance(part, int)), default=1)
