"""Fingerprints of one picture: digests that are equal for copies, hashes that are close for them."""

from heldout.overlap.fingerprints.fingerprint import (
    QUALITY_FLOOR,
    Fingerprint,
    fingerprint,
    fingerprint_all,
    fingerprint_image,
    screen,
)
from heldout.overlap.fingerprints.lanczos import grey_pixels
from heldout.overlap.fingerprints.pdq import hash_bytes, pdq, pdq_coefficients, pdq_poses
from heldout.overlap.fingerprints.phash import phash

__all__ = [
    "QUALITY_FLOOR",
    "Fingerprint",
    "fingerprint",
    "fingerprint_all",
    "fingerprint_image",
    "grey_pixels",
    "hash_bytes",
    "pdq",
    "pdq_coefficients",
    "pdq_poses",
    "phash",
    "screen",
]
