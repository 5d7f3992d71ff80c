"""Decode an untrusted image into its native pixels, or say in one sentence why not.

"Native" means the pixels as a viewer shows them at full resolution: EXIF rotation applied, palettes
expanded, an alpha channel that hides nothing dropped. Bit depth and colour model are kept (16-bit
stays 16-bit, CMYK stays CMYK), because a digest of a converted copy identifies the converter.
"""

from __future__ import annotations

import contextlib
import functools
import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from heldout.errors import HeldoutError, require

# Pillow's own "this is an attack" limit (twice its warning limit), made ours so that it is stable.
MAX_PIXELS = 178_956_970
MAX_BYTES = 512 * 1024 * 1024

# Only raster formats that decode in process. EPS would start Ghostscript on untrusted input.
FORMATS = (
    "JPEG", "PNG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF", "ICO",
    "TGA", "PCX",
)  # fmt: skip


class ImageError(HeldoutError):
    """An image that cannot be used: ``reason`` in few stable words, ``detail`` the facts."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return ImageError, (self.reason, self.detail)  # survives the trip between processes


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Native pixels of the first frame of ``data``; raises ImageError on anything else."""
    if _is_dicom(data):
        return _decode_dicom(data, max_pixels)
    image = _open(data, max_pixels)
    try:
        image.load()
        return _native(image)
    except ImageError:
        raise
    except Exception as error:  # any decoder may fail in its own way on hostile bytes
        raise _explain(error, len(data)) from error


def native_size(data: bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height as ``decode`` would return them, from the header alone."""
    if _is_dicom(data):
        return _decode_dicom(data, max_pixels).size
    image = _open(data, max_pixels)
    try:
        quarter_turn = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    except Exception:  # a broken EXIF block does not make the picture unreadable
        quarter_turn = False
    return (image.height, image.width) if quarter_turn else image.size


def to_rgb(image: Image.Image) -> Image.Image:
    """An 8-bit RGB view of any decoded image: wide greys are stretched, alpha lies on white."""
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
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, with_alpha).convert("RGB")
    return image.convert("RGB")


def _open(data: bytes, max_pixels: int) -> Image.Image:
    if not data:
        raise ImageError("empty image", "0 bytes")
    if len(data) > MAX_BYTES:
        raise ImageError("image file too large", f"{len(data):,} bytes, the limit is {MAX_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our own limit below speaks instead
            image = Image.open(io.BytesIO(data), formats=_formats())
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
    return image


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those of FORMATS that this build of Pillow opens; asking it for another one raises."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _native(image: Image.Image) -> Image.Image:
    with contextlib.suppress(Exception):  # a broken EXIF block: show the pixels as they are stored
        image = ImageOps.exif_transpose(image) or image
    if image.mode in ("P", "PA"):
        transparent = image.mode == "PA" or "transparency" in image.info
        image = image.convert("RGBA" if transparent else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    if image.mode in ("RGBA", "LA") and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert(image.mode[:-1])
    return image


def _explain(error: Exception, size: int, head: bytes = b"") -> ImageError:
    text = " ".join(str(error).split())
    if isinstance(error, Image.DecompressionBombError):
        return ImageError("decompression bomb", text)
    if isinstance(error, UnidentifiedImageError):
        return ImageError("not an image", f"{size:,} bytes starting with {head!r}")
    lowered = text.lower()
    if "truncated" in lowered or "broken data stream" in lowered or "unexpected end" in lowered:
        return ImageError("truncated image", text)
    return ImageError("unreadable image", f"{type(error).__name__}: {text}")


def _is_dicom(data: bytes) -> bool:
    return len(data) > 132 and data[128:132] == b"DICM"


def _decode_dicom(data: bytes, max_pixels: int) -> Image.Image:
    """Greys as a radiologist sees them: modality LUT, stored window, MONOCHROME1 inverted."""
    require("pydicom", "dicom", "reading a DICOM image")
    import pydicom
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    try:
        dataset = pydicom.dcmread(io.BytesIO(data))
        rows, columns = int(dataset.Rows), int(dataset.Columns)
        if rows * columns > max_pixels:
            raise ImageError("decompression bomb", f"DICOM of {columns} x {rows} pixels")
        pixels = dataset.pixel_array
        if int(getattr(dataset, "NumberOfFrames", 1) or 1) > 1:
            pixels = pixels[0]
        if pixels.ndim == 3:
            return Image.fromarray(np.ascontiguousarray(pixels[..., :3]).astype(np.uint8))
        shown = apply_voi_lut(apply_modality_lut(pixels, dataset), dataset).astype(np.float64)
    except ImageError:
        raise
    except Exception as error:
        raise ImageError("unreadable DICOM", f"{type(error).__name__}: {error}") from error
    low, high = float(shown.min()), float(shown.max())
    grey = (shown - low) / (high - low) * 255.0 if high > low else np.zeros_like(shown)
    if getattr(dataset, "PhotometricInterpretation", "") == "MONOCHROME1":
        grey = 255.0 - grey
    return Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
