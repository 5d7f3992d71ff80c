"""The first frame of an untrusted DICOM file as a radiologist sees it, in bounded memory.

pydicom's own file reader inflates a deflated file whole and decodes every frame. Here the header is
read first, inflating stops at a limit, and one frame is decoded after its size was checked.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import PrerequisiteError, require
from heldout.image.problem import MAX_BYTES, ImageError, check_scans, image_error

MAX_INFLATED = 128 << 20  # bytes of a deflated file; such files hold one frame of a few megabytes
_START = 132  # after the preamble and its four letters
_STRIP = 1 << 22  # pixels that are windowed at once
# Only these are kept: a file full of other elements costs their bytes, not an object each.
_ELEMENTS = (
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "NumberOfFrames",
    "Rows",
    "Columns",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "WindowCenter",
    "WindowWidth",
    "VOILUTFunction",
    "VOILUTSequence",
    "RescaleIntercept",
    "RescaleSlope",
    "ModalityLUTSequence",
    "ExtendedOffsetTable",
    "ExtendedOffsetTableLengths",
    "PixelData",
    "FloatPixelData",
    "DoubleFloatPixelData",
)


def is_dicom(data: bytes) -> bool:
    return len(data) > _START and data[128:_START] == b"DICM"


def dicom_size(data: bytes, max_pixels: int) -> tuple[int, int]:
    """Width and height from the header."""
    dataset = _read(data, max_pixels)
    return int(dataset.Columns), int(dataset.Rows)


#: what names a picture's source, the widest first
_IDS = {"patient": "PatientID", "study": "StudyInstanceUID", "series": "SeriesInstanceUID"}
#: placeholders in place of a patient
_NOBODY = re.compile(r"[0x\s]*|anon\w*|unknown|none|patient|removed|deidentified", re.IGNORECASE)


def header_ids(data: bytes) -> dict[str, str]:
    """Patient, study and series as a DICOM file names them, the widest first; {} of any other file."""
    if not is_dicom(data):
        return {}
    try:
        require("pydicom", "dicom", "reading a DICOM file's ids")
        dataset = _dataset(data, tuple(_IDS.values()))
        named = {kind: str(dataset.get(name) or "").strip() for kind, name in _IDS.items()}
    except Exception:  # a file that cannot be read has no ids; decoding it raises the error
        return {}
    if _NOBODY.fullmatch(named["patient"]):
        named["patient"] = ""
    return {kind: value for kind, value in named.items() if value}


def decode_dicom(data: bytes, max_pixels: int) -> Image.Image:
    """Greys with modality LUT and stored window applied, MONOCHROME1 inverted; colours as stored."""
    dataset = _read(data, max_pixels)
    check_scans(data)
    from pydicom.pixels import pixel_array

    try:
        pixels = pixel_array(dataset, index=0)
        if pixels.ndim == 3:
            return Image.fromarray(_eight_bits(pixels[..., :3], int(dataset.BitsStored)))
        return Image.fromarray(_windowed(pixels, dataset))
    except MemoryError as error:
        raise image_error(error) from error
    except Exception as error:  # decoders raise many kinds of errors on hostile bytes
        raise ImageError("unreadable DICOM", f"{type(error).__name__}: {error}") from error


def _read(data: bytes, max_pixels: int) -> Any:
    """The elements that matter, once their numbers make sense."""
    try:
        require("pydicom", "dicom", "reading a DICOM image")
    except PrerequisiteError as error:  # one such file must not end a scan of millions
        raise ImageError("DICOM needs the dicom extra", str(error)) from error
    if len(data) > MAX_BYTES:
        raise ImageError("image file too large", f"{len(data):,} bytes, the limit is {MAX_BYTES:,}")
    try:
        dataset = _dataset(data)
        rows, columns = int(dataset.Rows), int(dataset.Columns)
        samples = int(dataset.get("SamplesPerPixel") or 1)
        frames = int(dataset.get("NumberOfFrames") or 1)
        depth = int(dataset.BitsAllocated)
    except ImageError:
        raise
    except Exception as error:
        raise ImageError("unreadable DICOM", f"{type(error).__name__}: {error}") from error
    # Four bytes a pixel: colours of 8 bits, greys of up to 32.
    if rows * columns > max_pixels or rows * columns * samples * depth > 32 * max_pixels:
        detail = f"DICOM of {columns} x {rows} pixels, {samples} x {depth} bits each"
        raise ImageError("decompression bomb", detail)
    if min(rows, columns, samples) < 1 or not 1 <= frames <= 8 * len(data):
        detail = f"{columns} x {rows} pixels, {samples} samples, {frames} frames"
        raise ImageError("unreadable DICOM", detail)
    return dataset


def _dataset(data: bytes, elements: Sequence[str] = _ELEMENTS) -> Any:
    from pydicom.filereader import read_dataset
    from pydicom.tag import Tag
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    meta, start = _meta(data)
    syntax = meta.TransferSyntaxUID
    if syntax == DeflatedExplicitVRLittleEndian:
        file = io.BytesIO(_inflated(data[start:]))
    else:
        file = io.BytesIO(data)
        file.seek(start)
    dataset = read_dataset(
        file,
        syntax.is_implicit_VR,
        syntax.is_little_endian,
        specific_tags=[Tag(name) for name in elements],
    )
    dataset.file_meta = meta
    dataset.set_original_encoding(syntax.is_implicit_VR, syntax.is_little_endian)
    return dataset


def _meta(data: bytes) -> tuple[Any, int]:
    """The file's own description (group 2) and where the rest begins."""
    from pydicom.dataset import FileMetaDataset
    from pydicom.filereader import read_dataset

    for implicit in (False, True):  # it should be explicit, but some writers use implicit
        file = io.BytesIO(data)
        file.seek(_START)
        dataset = read_dataset(file, implicit, True, stop_when=lambda tag, *_: tag >> 16 != 2)
        try:
            if "TransferSyntaxUID" in (meta := FileMetaDataset(dataset)):
                meta.TransferSyntaxUID.is_implicit_VR  # noqa: B018 - raises unless it is one
                return meta, file.tell()
        except (ValueError, NotImplementedError):
            continue
    raise ImageError("unreadable DICOM", "it does not say how it is encoded (Transfer Syntax UID)")


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflater.decompress(data, MAX_INFLATED + 1)
    if len(content) > MAX_INFLATED:
        detail = f"{len(data):,} deflated bytes hold more than {MAX_INFLATED:,}"
        raise ImageError("decompression bomb", detail)
    return content


def _windowed(pixels: NDArray[Any], dataset: Any) -> NDArray[np.uint8]:
    """Greys from the darkest to the brightest shown, strip by strip: the steps between are wide."""
    spans = [(float(strip.min()), float(strip.max())) for strip in _strips(pixels, dataset)]
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    inverted = dataset.get("PhotometricInterpretation", "") == "MONOCHROME1"
    grey = np.empty(pixels.shape, np.uint8)
    done = 0
    for strip in _strips(pixels, dataset):
        greys = (strip - low) / (high - low) * 255.0 if high > low else np.zeros_like(strip)
        if inverted:
            greys = 255.0 - greys
        grey[done : done + len(strip)] = np.clip(np.rint(greys), 0, 255).astype(np.uint8)
        done += len(strip)
    return grey


def _strips(pixels: NDArray[Any], dataset: Any) -> Iterator[NDArray[np.float64]]:
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    height = max(1, _STRIP // pixels.shape[1])
    for top in range(0, pixels.shape[0], height):
        values = apply_modality_lut(pixels[top : top + height], dataset)
        yield apply_voi_lut(values, dataset).astype(np.float64)


def _eight_bits(pixels: NDArray[Any], stored: int) -> NDArray[np.uint8]:
    """The upper eight of the stored bits; the lower ones alone would be another picture."""
    if pixels.dtype.itemsize > 1:
        pixels = pixels >> max(0, stored - 8)
    return np.ascontiguousarray(pixels).astype(np.uint8)
