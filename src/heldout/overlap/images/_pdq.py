"""256-bit PDQ with its quality, and the hashes of all eight poses from one transform.

The reference smooths the whole picture with two box filters and keeps 64 x 64 of its pixels. Both
steps are linear along each axis, so they are two thin matrices here and nothing that is not kept
is computed. (PDQ: https://github.com/facebook/ThreatExchange/tree/main/pdq)
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_array

from heldout.overlap.images.lanczos import (
    PRECISION,
    Band,
    Floats,
    Windows,
    across,
    centred,
    grey_pixels,
    is_compiled,
    product,
    remembered,
    row_sums,
    weights,
    windows_of,
)

# PDQ's smoothing and thinning along one axis, as a matrix.


SIDE = 64
GROUP = 8  # neighbouring outputs share samples: few enough to waste little, enough for one product
_NOTHING = 1e-9  # what the differences of running sums leave outside the windows


@remembered
def smoothing(length: int, shrunk: int = 1) -> tuple[Band, ...]:
    """Of (64, length): two running means of length/128 samples, at 64 evenly spaced places.

    For a picture that was ``shrunk`` from ``length``, each of whose samples is the mean of that many,
    the weights of those add up.
    """
    first, windows = _windows(length, shrunk)
    taps = windows.shape[1]
    bands = []
    for start in range(0, SIDE, GROUP):
        low, high = int(first[start]), int(first[start + GROUP - 1]) + taps
        block = np.zeros((GROUP, high - low), np.float32)
        places = first[start : start + GROUP, None] - low + np.arange(taps)
        np.put_along_axis(block, places, windows[start : start + GROUP], 1)
        bands.append(Band(start, start + GROUP, low, high, block))
    return tuple(bands)


@remembered
def whole_smoothing(length: int, shrunk: int = 1) -> Windows:
    """The same matrix in whole numbers, of which 2^22 are one."""
    first, windows = _windows(length, shrunk)
    whole = np.rint(windows * (1 << PRECISION)).astype(np.int32)
    return windows_of(first, whole, -(-length // shrunk))


@remembered
def thinning(length: int, shrunk: int = 1) -> csr_array:
    """The same matrix for products with whole rows of a picture.

    Nearly every row goes into one output only. Adding it there takes less than half the time of a dense
    product, which copies all rows into an order of its own first.
    """
    first, windows = _windows(length, shrunk)
    used = windows != 0
    columns = first[:, None] + np.arange(windows.shape[1])
    ends = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    shape = (SIDE, -(-length // shrunk))
    return csr_array((windows[used], columns[used], ends), shape=shape)


def _windows(length: int, shrunk: int) -> tuple[NDArray[np.int64], Floats]:
    """The first sample of each place's window, and the weights from there: (64, widest window)."""
    mean = -(-length // (2 * SIDE))
    ahead = (mean + 2) // 2 - 1
    behind = mean - ahead - 1
    place = np.arange(length)
    low, high = np.maximum(place - behind, 0), np.minimum(place + ahead + 1, length)
    kept = ((np.arange(SIDE) + 0.5) * length / SIDE).astype(np.int64)
    # The second mean is over places from low to high, the first one around each over as many samples.
    low_kept, high_kept = low[kept][:, None], high[kept][:, None]
    begin = np.maximum(low[kept] - behind, 0)[:, None]
    sample = begin + np.arange(2 * mean)
    # Sample l is in the window of place j when j is within [l - ahead, l + behind].
    total = np.concatenate([[0.0], np.cumsum(1.0 / (high - low))])
    last = np.clip(sample + behind + 1, low_kept, high_kept)
    weights = total[last] - total[np.clip(sample - ahead, low_kept, last)]
    weights /= high_kept - low_kept
    # Samples of a shrunk picture stand for several: their weights add up.
    group = sample // shrunk - begin // shrunk
    width = min(int(group.max()) + 1, -(-length // shrunk))
    first = np.minimum(begin[:, 0] // shrunk, -(-length // shrunk) - width)
    folded = np.zeros((SIDE, width))
    inside = sample < length
    row = np.broadcast_to(np.arange(SIDE)[:, None], sample.shape)
    column = sample // shrunk - first[:, None]
    np.add.at(folded, (row[inside], column[inside]), weights[inside])
    folded[np.abs(folded) < _NOTHING] = 0
    return first, folded.astype(np.float32)


# One walk over a grey picture for both hashes, a stripe at a time.
#
# Only a stripe is ever there as floats: four times the memory of the picture would be, for a very
# large one, more than a worker has.


STRIPE = 1 << 22  # pixels of a stripe: most pictures are one


def reduce_rows(
    grey: NDArray[np.uint8],
    sums: Floats | None = None,
    *,
    down: csr_array,
    stripe: int = STRIPE,
) -> Floats:
    """(64, width): rows smoothed and thinned for PDQ by ``down``.

    Into ``sums``, if given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    step = max(1, stripe // width)
    rows: Floats | None = None
    for start in range(0, height, step):
        stop = min(start + step, height)
        floats = centred(grey[start:stop])
        part = (down if step >= height else down[:, start:stop]) @ floats
        rows = part if rows is None else rows + part
        if sums is not None:
            across(floats, weights(width, len(sums)), sums[:, start:stop])
    assert rows is not None  # the picture has rows
    return rows


# PDQ's 64 x 64 smoothed samples of a grey picture: compiled where it can be, by products elsewhere.


MINIMUM_SIDE = 5  # PDQ hashes nothing thinner
_STEP = np.float32(2.0**-PRECISION)


def pdq_samples(
    grey: NDArray[np.uint8],
    sums: Floats | None = None,
    *,
    native: tuple[int, int] | None = None,
    shrunk: int = 1,
) -> Floats:
    """(64, 64) around 0; nothing of a picture too thin for it.

    ``native`` is the width and height of the picture that this one was ``shrunk`` from. Into ``sums``, if
    given, go the sums along every row that pHash starts from (``lanczos.across``).
    """
    height, width = grey.shape
    if min(height, width) < MINIMUM_SIDE:
        return np.zeros((0, 0), np.float32)
    wide, high = native or (width, height)
    samples = np.empty((SIDE, SIDE), np.float32)
    if sums is None and is_compiled():
        across = row_sums(grey, whole_smoothing(wide, shrunk)).astype(np.float32)
        product(smoothing(high, shrunk), across.T, samples)
        return samples * _STEP
    rows = reduce_rows(grey, sums, down=thinning(high, shrunk))
    product(smoothing(wide, shrunk), rows.T, samples)
    return samples.T


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
