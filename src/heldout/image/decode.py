"""Decode an untrusted image into its native pixels, or raise an error with the reason.

"Native" means the pixels as a viewer shows them at full resolution: EXIF rotation applied, palettes
expanded, an alpha channel that hides nothing dropped. Bit depth and colour model are kept (16-bit
stays 16-bit, CMYK stays CMYK), because a digest of a converted copy identifies the converter. Colours
of more than 8 bits are shown in 8, and the image is marked (``REDUCED``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import warnings
from typing import Any

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from heldout.image._dicom import decode_dicom, dicom_size, is_dicom
from heldout.image.problem import MAX_BYTES, MAX_PIXELS, ImageError, check_scans
from heldout.store import OUT_OF_MEMORY

# Whether decoding keeps every bit: Pillow shows colours of more than 8 bits in 8.


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


# Only raster formats that decode in process. EPS would start Ghostscript on untrusted input.
FORMATS = (
    "JPEG",
    "PNG",
    "GIF",
    "BMP",
    "DIB",
    "WEBP",
    "TIFF",
    "PPM",
    "JPEG2000",
    "AVIF",
    "ICO",
    "TGA",
    "PCX",
)

PIECE = 1 << 24  # bytes a decoder is handed at a time; Pillow copies them once

ORIENTATION = 0x0112  # the EXIF tag of the camera's orientation

# Under this key of a decoded image's ``info`` stands the digest of its file, where decoding lost bits.
REDUCED = "heldout reduced"


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Native pixels of the first frame of ``data``; raises ImageError on anything else."""
    if is_dicom(data):
        return decode_dicom(data, max_pixels)
    image = open_image(data, max_pixels)
    try:
        reduced = is_reduced(image, data)
        image.load()
        image = _native(image)
        image.info.pop(REDUCED, None)  # a file may carry any text under any key
        if reduced:
            image.info[REDUCED] = hashlib.sha256(data).hexdigest()
        return image
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds of errors on hostile bytes
        raise _explain(error, len(data)) from error


def decode_shrunk(
    data: bytes, least: int, *, max_pixels: int = MAX_PIXELS
) -> tuple[Image.Image, int]:
    """The picture at 1/1, 1/2, 1/4 or 1/8 of its size, and which: for looking at, never for a digest.

    JPEG alone can be decoded small, and as greys, for less; no side becomes shorter than ``least``.
    Every other format comes as ``decode`` gives it.
    """
    if is_dicom(data):
        return decode_dicom(data, max_pixels), 1
    image = open_image(data, max_pixels)
    if image.format != "JPEG":
        return decode(data, max_pixels=max_pixels), 1
    width, height = image.size
    shrunk = 1
    while shrunk < 8 and min(width, height) // (2 * shrunk) >= least:
        shrunk *= 2
    try:
        image.draft("L", (width // shrunk, height // shrunk))
        image.load()
        return _native(image), shrunk
    except ImageError:
        raise
    except Exception as error:  # decoders raise many kinds of errors on hostile bytes
        raise _explain(error, len(data)) from error


def native_size(data: bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height as ``decode`` would return them, from the header alone."""
    if is_dicom(data):
        return dicom_size(data, max_pixels)
    image = open_image(data, max_pixels)
    try:
        quarter_turn = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    except Exception:  # a broken EXIF block does not make the picture unreadable
        quarter_turn = False
    return (image.height, image.width) if quarter_turn else image.size


def to_rgb(image: Image.Image) -> Image.Image:
    """An 8-bit RGB view of any decoded image: wide greys are stretched, alpha lies on white.

    White ink on nothing lies on black: on white nothing of it would be left.
    """
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I") or image.mode == "F":
        grey = np.asarray(image, dtype=np.float64)
        finite = grey[np.isfinite(grey)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        span = high - low if high > low else 1.0
        scaled = np.nan_to_num((grey - low) / span * 255.0, nan=0.0, posinf=255.0, neginf=0.0)
        return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        with_alpha = image.convert("RGBA")
        shown = _on_ground(with_alpha, 255)
        return _on_ground(with_alpha, 0) if _vanishes(with_alpha, shown) else shown
    return image.convert("RGB")


_SEEN = 24  # grey levels by which ink has to differ from its ground


def _on_ground(with_alpha: Image.Image, grey: int) -> Image.Image:
    ground = Image.new("RGBA", with_alpha.size, (grey, grey, grey, 255))
    return Image.alpha_composite(ground, with_alpha).convert("RGB")


def _vanishes(with_alpha: Image.Image, on_white: Image.Image) -> bool:
    """Whether nothing can be seen on white of a picture that hides something: white ink, made for dark pages."""
    if int(np.asarray(on_white).min(initial=255)) <= 255 - _SEEN:
        return False
    alpha = np.asarray(with_alpha.getchannel("A"))
    return bool(np.ptp(alpha) >= _SEEN)


def open_image(data: bytes, max_pixels: int) -> Image.Image:
    """Read the header without decoding; raises ImageError if it is not a picture or would be too large."""
    if not data:
        raise ImageError("empty image", "0 bytes")
    if len(data) > MAX_BYTES:
        raise ImageError("image file too large", f"{len(data):,} bytes, the limit is {MAX_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the limit below is used instead
            image = Image.open(io.BytesIO(data), formats=_formats())
            if isinstance(image, ImageFile.ImageFile):
                # The bytes are in memory: in one piece, the decoder need not stop and start again.
                image.decodermaxblock = max(image.decodermaxblock, min(len(data), PIECE))
    except Exception as error:
        raise _explain(error, len(data), head=data[:16]) from error
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            "decompression bomb",
            f"{width} x {height} = {width * height:,} pixels in {len(data):,} bytes, "
            f"the limit is {max_pixels:,}",
        )
    if width == 0 or height == 0:
        raise ImageError("empty image", f"{width} x {height} pixels")
    if image.format in ("JPEG", "MPO"):
        check_scans(data)
    return image


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those of FORMATS that this build of Pillow opens; asking it for another one raises."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _native(image: Image.Image) -> Image.Image:
    with contextlib.suppress(Exception):  # a broken EXIF block: show the pixels as they are stored
        # exif_transpose copies what lies straight, too: the price of letting go of the file's reader,
        # which has nothing left to read in these two formats.
        if image.format not in ("JPEG", "PNG") or image.getexif().get(ORIENTATION, 1) != 1:
            image = ImageOps.exif_transpose(image) or image
    if image.mode in ("P", "PA"):
        transparent = image.mode == "PA" or "transparency" in image.info
        image = image.convert("RGBA" if transparent else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    if image.mode in ("RGBA", "LA") and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert(image.mode[:-1])
    if image.mode == "F" and not np.isfinite(np.asarray(image)).any():
        raise ImageError(
            "no finite pixel", "every pixel is NaN or infinite: there is nothing to see"
        )
    return image


def _explain(error: Exception, size: int, head: bytes = b"") -> ImageError:
    text = " ".join(str(error).split())
    if isinstance(error, Image.DecompressionBombError):
        return ImageError("decompression bomb", text)
    # Pillow's C decoders report it only as text.
    if isinstance(error, MemoryError) or "out of memory" in text:
        return ImageError(OUT_OF_MEMORY, f"a file of {size:,} bytes: {text or 'MemoryError'}")
    if isinstance(error, UnidentifiedImageError):
        return ImageError("not an image", f"{size:,} bytes starting with {head!r}")
    lowered = text.lower()
    if "truncated" in lowered or "broken data stream" in lowered or "unexpected end" in lowered:
        return ImageError("truncated image", text)
    return ImageError("unreadable image", f"{type(error).__name__}: {text}")
