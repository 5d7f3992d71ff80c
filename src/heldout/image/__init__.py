"""One picture: where its bytes are, how to decode them safely, what identifies it."""

from heldout.image.decode import decode, native_size, to_rgb
from heldout.image.digest import Digests, byte_digest, digest_bytes, digest_image, pixel_digest
from heldout.image.location import (
    ArrowCell,
    EncodedText,
    FileOnDisk,
    InlineBytes,
    Location,
    Nowhere,
    ParquetCell,
    TarMember,
    TextField,
)
from heldout.image.problem import MAX_BYTES, MAX_PIXELS, ImageError
from heldout.image.reference import ImageRef

__all__ = [
    "MAX_BYTES",
    "MAX_PIXELS",
    "ArrowCell",
    "Digests",
    "EncodedText",
    "FileOnDisk",
    "ImageError",
    "ImageRef",
    "InlineBytes",
    "Location",
    "Nowhere",
    "ParquetCell",
    "TarMember",
    "TextField",
    "byte_digest",
    "decode",
    "digest_bytes",
    "digest_image",
    "native_size",
    "pixel_digest",
    "to_rgb",
]
