"""One picture: where its bytes are, how to decode them safely, what identifies it."""

from heldout.image.buffer import grey_jpeg, grey_plane
from heldout.image.decode import decode, decode_shrunk, native_size, to_rgb
from heldout.image.digest import (
    PIXEL_DIGEST,
    Digests,
    byte_digest,
    decoded_digest,
    digest_bytes,
    digest_image,
    grey_digest,
    pixel_digest,
)
from heldout.image.location import (
    ArrowCell,
    EncodedText,
    FileOnDisk,
    ImageRef,
    InlineBytes,
    Location,
    Nowhere,
    ParquetCell,
    TarMember,
    TextField,
)
from heldout.image.problem import MAX_BYTES, MAX_PIXELS, ImageError, image_error

__all__ = [
    "MAX_BYTES",
    "MAX_PIXELS",
    "PIXEL_DIGEST",
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
    "decode_shrunk",
    "decoded_digest",
    "digest_bytes",
    "digest_image",
    "grey_digest",
    "grey_jpeg",
    "grey_plane",
    "image_error",
    "native_size",
    "pixel_digest",
    "to_rgb",
]
