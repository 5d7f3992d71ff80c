"""Pictures: where their bytes are, how they are decoded safely, and what identifies them."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.image._parquet import BoundedParquet
    from heldout.image.decode import decode, decode_shrunk, native_size, to_rgb
    from heldout.image.digest import (
        BLANK_RANGE,
        PIXEL_DIGEST,
        Digests,
        byte_digest,
        compiled,
        decoded_digest,
        digest_bytes,
        digest_image,
        grey_digest,
        grey_jpeg,
        grey_plane,
        is_blank,
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
        arrow_table,
        dicom_ids,
        split_list,
    )
    from heldout.image.ocr import picture_lines, require_ocr
    from heldout.image.problem import (
        HEAD,
        IMAGE_ENDINGS,
        JPEG,
        MAX_BYTES,
        MAX_PIXELS,
        TEXT_ENDINGS,
        ImageError,
        ending,
        image_error,
        is_sidecar,
        looks_like_image,
        readable,
        unsafe,
    )

__all__ = [
    "BLANK_RANGE",
    "HEAD",
    "IMAGE_ENDINGS",
    "JPEG",
    "MAX_BYTES",
    "MAX_PIXELS",
    "PIXEL_DIGEST",
    "TEXT_ENDINGS",
    "ArrowCell",
    "BoundedParquet",
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
    "arrow_table",
    "byte_digest",
    "compiled",
    "decode",
    "decode_shrunk",
    "decoded_digest",
    "dicom_ids",
    "digest_bytes",
    "digest_image",
    "ending",
    "grey_digest",
    "grey_jpeg",
    "grey_plane",
    "image_error",
    "is_blank",
    "is_sidecar",
    "looks_like_image",
    "native_size",
    "picture_lines",
    "pixel_digest",
    "readable",
    "require_ocr",
    "split_list",
    "to_rgb",
    "unsafe",
]

__getattr__ = load_on_first_use(__name__, __file__)
