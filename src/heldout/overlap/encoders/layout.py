"""Layout of a picture: where it is light and dark, and where edges of which direction lie.

Half of it is the picture's coarse shading (low frequencies, evened out so that the few lowest do not
decide alone), half is where edges of which direction lie (unsigned, so that a negative has the same).
Both are blind to brightness and contrast; size, compression, noise and blur change them little.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.overlap.encoders.encoder import Floats, unit

SIDE = 64
FREQUENCIES = 16
GRID = 8
DIRECTIONS = 4
DIMENSION = FREQUENCIES * FREQUENCIES + GRID * GRID * DIRECTIONS
_FLAT = 1.0  # grey levels: texture below this is noise, and is not blown up


def small_greys(grey: Image.Image) -> Floats:
    """A grey picture squeezed into a small square."""
    small = grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(small, dtype=np.float32)


def layout(batch: Floats) -> Floats:
    """Unit rows for a batch of small greys."""
    return unit(np.concatenate([unit(_shading(batch)), unit(_edges(batch))], axis=1))


def _shading(batch: Floats) -> Floats:
    """Low frequencies but the mean, each weighted by how high it is: natural spectra fall likewise."""
    basis, weight = _cosines()
    array = (basis @ batch @ basis.T * weight).astype(np.float32, copy=False)
    return array.reshape(len(batch), -1)


def _edges(batch: Floats) -> Floats:
    """Strength of edges per direction and place, relative to what is strong nearby."""
    smooth = _blur(batch)
    down = np.zeros_like(smooth)
    across = np.zeros_like(smooth)
    down[:, 1:-1] = smooth[:, 2:] - smooth[:, :-2]
    across[:, :, 1:-1] = smooth[:, :, 2:] - smooth[:, :, :-2]
    strength = np.hypot(down, across)
    angle = np.arctan2(down, across) % math.pi
    place = angle / math.pi * DIRECTIONS
    pool = _pooling()
    cells = []
    for direction in range(DIRECTIONS):
        apart = np.abs(place - direction)
        share = np.maximum(0, 1 - np.minimum(apart, DIRECTIONS - apart))
        cells.append(pool @ (strength * share) @ pool.T)
    array = np.stack(cells, axis=-1)
    around = np.sqrt((array**2).sum(axis=-1, keepdims=True))
    level = around.mean(axis=(1, 2), keepdims=True)
    evened = array / (around + 0.5 * level + _FLAT)
    rows: Floats = np.sqrt(evened).reshape(len(batch), -1)
    return rows


def _blur(batch: Floats) -> Floats:
    kernel = np.array([1, 4, 6, 4, 1], np.float32) / 16
    for axis in (1, 2):
        padded = np.pad(batch, [(2, 2) if a == axis else (0, 0) for a in range(3)], mode="edge")
        parts = [np.take(padded, range(k, k + SIDE), axis=axis) * kernel[k] for k in range(5)]
        batch = sum(parts[1:], start=parts[0])
    return batch


@functools.cache
def _cosines() -> tuple[Floats, Floats]:
    frequency = np.arange(FREQUENCIES)
    angle = math.pi / (2 * SIDE) * frequency[:, None] * (2 * np.arange(SIDE) + 1)
    height = np.hypot(frequency[:, None], frequency[None, :])
    weight = height * np.exp(-((height / FREQUENCIES) ** 2))
    return np.cos(angle).astype(np.float32), weight.astype(np.float32)


@functools.cache
def _pooling() -> NDArray[np.float32]:
    """(GRID, SIDE): overlapping triangles, so that a shift by a pixel moves nothing by a whole cell."""
    centre = (np.arange(GRID) + 0.5) * SIDE / GRID
    distance = np.abs(np.arange(SIDE) + 0.5 - centre[:, None]) / (SIDE / GRID)
    return np.maximum(0, 1 - distance).astype(np.float32)
