"""Pillow's 8-bit Lanczos reduction to a few columns and rows, value for value, by matrix products.

Pillow sums integer products one pixel at a time; that takes longer than decoding the JPEG did. Here
single-precision products give every sum with a known largest error, and the few sums that lie so
close to a rounding edge that the error could matter are taken again in integers.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PRECISION = 22  # bits of Pillow's fixed-point weights
_SUPPORT = 3.0
_GROUP = 8  # neighbouring outputs share most of their inputs: one product for all of them
_UNIT = 2.0**-24  # rounding unit of single precision


@dataclass(frozen=True, slots=True)
class Weights:
    """Fixed-point weights from ``length`` samples to a few outputs."""

    start: NDArray[np.int64]  # first sample of each output's window
    window: NDArray[np.int64]  # (outputs, widest window), zero where narrower
    offset: NDArray[
        np.float32
    ]  # what the middle grey, taken out before, contributes; plus one half
    margin: float  # largest error of a single-precision sum, in grey levels
    bands: tuple[tuple[int, int, NDArray[np.float32]], ...]  # from, to, (samples, outputs)


@functools.lru_cache(maxsize=256)
def weights(length: int, outputs: int) -> Weights:
    scale = length / outputs
    stretch = max(scale, 1.0)
    reach = _SUPPORT * stretch
    centre = (np.arange(outputs) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), length)
    width = int((last - first).max())
    # A window at the right edge begins earlier instead of running over it; the weights move along.
    start = np.minimum(first, length - width)
    sample = start[:, None] + np.arange(width)
    inside = (sample >= first[:, None]) & (sample < last[:, None])
    place = (sample - centre[:, None] + 0.5) * (1.0 / stretch)
    raw = np.where(inside, _lanczos(place), 0.0)
    share = raw / raw.sum(axis=1, keepdims=True) * (1 << _PRECISION)
    window = np.trunc(share + np.copysign(0.5, share)).astype(np.int64)
    window[~inside] = 0
    total = window.sum(axis=1)
    error = (width + 2) * _UNIT * 128 * float(np.abs(window).sum(axis=1).max()) / (1 << _PRECISION)
    return Weights(
        start=start,
        window=window,
        offset=(total * 128 / (1 << _PRECISION) + 0.5).astype(np.float32),
        margin=error + 2 * 256 * _UNIT * 2,  # and the two operations that follow the sum
        bands=tuple(_bands(start, window, outputs)),
    )


def across(shifted: NDArray[np.float32], fit: Weights) -> NDArray[np.float32]:
    """Unrounded sums along every row of ``centred`` greys, right to within ``fit.margin``."""
    sums = np.empty((len(shifted), len(fit.start)), np.float32)
    for number, (low, high, matrix) in enumerate(fit.bands):
        first = number * _GROUP
        np.matmul(shifted[:, low:high], matrix, out=sums[:, first : first + matrix.shape[1]])
    return sums


def reduce_grey(grey: NDArray[np.uint8], sums: NDArray[np.float32], side: int) -> NDArray[np.uint8]:
    """``Image.resize((side, side), LANCZOS)`` of a grey picture; ``sums`` are its ``across``."""
    height, width = grey.shape
    rows = grey if width == side else _settled(grey, sums, weights(width, side))
    if height == side:
        return rows
    # Few enough numbers for double precision, in which sums of these integers are exact.
    return _rounded(_matrix(height, side) @ rows.astype(np.float64) * 2.0**-_PRECISION + 0.5)


def _settled(grey: NDArray[np.uint8], sums: NDArray[np.float32], fit: Weights) -> NDArray[np.uint8]:
    """Sums rounded as Pillow rounds them."""
    sums = sums * np.float32(2.0**-_PRECISION)
    sums += fit.offset
    row, column = np.nonzero(np.abs(sums - np.rint(sums)) < fit.margin)
    result = _rounded(sums)
    if len(row):
        sample = fit.start[column][:, None] + np.arange(fit.window.shape[1])
        exact = np.einsum(
            "ij,ij->i", grey[row[:, None], sample].astype(np.int64), fit.window[column]
        )
        exact = (exact + (1 << (_PRECISION - 1))) >> _PRECISION
        result[row, column] = np.clip(exact, 0, 255)
    return result


@functools.lru_cache(maxsize=256)
def _matrix(length: int, outputs: int) -> NDArray[np.float64]:
    fit = weights(length, outputs)
    full = np.zeros((outputs, length))
    np.put_along_axis(full, fit.start[:, None] + np.arange(fit.window.shape[1]), fit.window, 1)
    return full


def _bands(
    start: NDArray[np.int64], window: NDArray[np.int64], outputs: int
) -> list[tuple[int, int, NDArray[np.float32]]]:
    bands = []
    for first in range(0, outputs, _GROUP):
        group = range(first, min(first + _GROUP, outputs))
        low, high = int(start[group[0]]), int(start[group[-1]]) + window.shape[1]
        matrix = np.zeros((high - low, len(group)), np.float32)
        for column, output in enumerate(group):
            begin = int(start[output]) - low
            matrix[begin : begin + window.shape[1], column] = window[output]
        bands.append((low, high, matrix))
    return bands


def _rounded(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    result: NDArray[np.uint8] = np.clip(np.floor(values), 0, 255).astype(np.uint8)
    return result


def _lanczos(place: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = (place >= -_SUPPORT) & (place < _SUPPORT)
    return np.where(inside, _sinc(place) * _sinc(place / _SUPPORT), 0.0)


def _sinc(place: NDArray[np.float64]) -> NDArray[np.float64]:
    angle = place * math.pi
    at_zero = angle == 0.0
    return np.where(at_zero, 1.0, np.sin(angle) / np.where(at_zero, 1.0, angle))
