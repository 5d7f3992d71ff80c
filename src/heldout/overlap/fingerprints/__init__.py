"""Fingerprints of one picture: digests that are equal for copies, hashes that are close for them."""

from heldout.overlap.fingerprints.batch import fingerprint_all
from heldout.overlap.fingerprints.fingerprint import (
    QUALITY_FLOOR,
    Fingerprint,
    fingerprint,
    fingerprint_image,
)
from heldout.overlap.fingerprints.grey import grey_pixels
from heldout.overlap.fingerprints.pdq import hash_bytes, pdq, pdq_coefficients, pdq_poses
from heldout.overlap.fingerprints.phash import phash
from heldout.overlap.fingerprints.screening import screen

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
