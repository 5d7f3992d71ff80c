"""256-bit PDQ with its quality, and the hashes of all eight poses from one transform.

The reference smooths the whole picture with two box filters and keeps 64 x 64 of its pixels. Both
steps are linear along each axis, so they are two thin matrices here and nothing that is not kept
is computed. (PDQ: https://github.com/facebook/ThreatExchange/tree/main/pdq)
"""

from __future__ import annotations

import functools
import math

import numpy as np
from PIL import Image

from heldout.overlap.fingerprints.bands import Floats
from heldout.overlap.fingerprints.grey import grey_pixels
from heldout.overlap.fingerprints.samples import pdq_samples
from heldout.overlap.fingerprints.smoothing import SIDE

HASH_SIDE = 16
# Frequencies of symmetric pictures tie at the median; rounding shall not say which of them lie above it.
TIE = np.float32(0.01)


def pdq(image: Image.Image) -> tuple[bytes, int]:
    """The 32 bytes of the hash, in the order of PDQ's hexadecimal form, and the quality 0 to 100."""
    coefficients, quality = pdq_coefficients(pdq_samples(grey_pixels(image)))
    return hash_bytes(coefficients), quality


def pdq_poses(image: Image.Image) -> tuple[list[bytes], int]:
    """Hashes of the picture's eight poses (see ``encoders.views.POSES``) for the price of one."""
    coefficients, quality = pdq_coefficients(pdq_samples(grey_pixels(image)))
    return [hash_bytes(pose_coefficients(coefficients, pose)) for pose in range(8)], quality


def pdq_coefficients(samples: Floats) -> tuple[Floats, int]:
    """Lowest 16 x 16 frequencies without the mean, and the quality, from ``pdq_samples``."""
    if not len(samples):
        return np.zeros((HASH_SIDE, HASH_SIDE), np.float32), 0
    basis = _basis()
    return (basis @ samples @ basis.T).astype(np.float32, copy=False), _quality(samples)


def hash_bytes(coefficients: Floats) -> bytes:
    flat = coefficients.ravel()
    middle = np.partition(flat, flat.size // 2 - 1)[flat.size // 2 - 1]
    return np.packbits((flat > middle + TIE)[::-1]).tobytes()


def pose_coefficients(coefficients: Floats, pose: int) -> Floats:
    """Coefficients of the picture mirrored left to right (poses 4 to 7), then turned pose % 4 times.

    A mirrored axis changes the sign of its odd frequencies, a transposed picture has a transposed
    transform. Index 0 is frequency 1, so the odd frequencies are the even indices.
    """
    flip = np.where(np.arange(HASH_SIDE) % 2 == 0, np.float32(-1), np.float32(1))
    turned = coefficients * flip[None, :] if pose >= 4 else coefficients
    for _ in range(pose % 4):
        turned = flip[:, None] * turned.T  # a quarter turn to the left: transpose, then upside down
    return turned


def _quality(small: Floats) -> int:
    steps = np.empty((2, SIDE - 1, SIDE), np.float32)
    np.subtract(small[1:], small[:-1], out=steps[0])
    np.subtract(small.T[1:], small.T[:-1], out=steps[1])
    steps *= np.float32(100)
    steps /= np.float32(255)
    total = int(np.abs(steps.astype(np.int32)).sum())  # towards 0, as the reference rounds
    return min(100, total // 90)


@functools.cache
def _basis() -> Floats:
    frequency, place = np.arange(1, HASH_SIDE + 1)[:, None], np.arange(SIDE)[None, :]
    angle = math.pi / (2 * SIDE) * frequency * (2 * place + 1)
    basis: Floats = (math.sqrt(2 / SIDE) * np.cos(angle)).astype(np.float32)
    return basis
