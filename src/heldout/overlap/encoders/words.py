"""Words of a picture: which small pieces of texture it holds, wherever they lie, as one vector.

A crop, a turn, a frame or a page around it changes the layout of a picture and keeps its pieces.
Local features (SIFT) find the same pieces again at any place, size and angle. The signs of a few sums
over a feature's descriptor make its word, and all words of a picture are hashed into one row of fixed
length whose products are about the share of words two pictures have in common. Nothing is learnt: the
sums are of low frequencies that mirroring or inverting a picture turns round, so their mean is zero in
any collection, and a mirrored picture's words follow from the picture's own.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.overlap.encoders.encoder import Floats
from heldout.overlap.registration.features import stretched

SIDE = 192  # pixels of the larger side pieces are found in
COUNT = 300
DIMENSION = 1536
FREQUENCIES = 24
BITS = 14  # of a word
TABLES = 4  # words of one piece: two looks at it may differ in one of them
LARGE = 5.0  # pixels across; noise and blur leave larger pieces alone
_LOCAL_CONTRAST = 0.008  # radiographs are smooth: a fifth of OpenCV's default
_NONE = np.uint64(TABLES << BITS)  # the word of a picture without words


@dataclass(frozen=True, eq=False)
class Pieces:
    """Local features of one picture, the strongest first."""

    points: Floats  # (n, 2), as shares of width and height
    sizes: Floats  # (n,), pixels of the enlarged or reduced picture
    signs: Floats  # (n, FREQUENCIES): sums over their descriptors

    def chosen(self, mask: NDArray[np.bool_], count: int = COUNT) -> Pieces:
        kept = np.flatnonzero(mask)[:count]
        return Pieces(self.points[kept], self.sizes[kept], self.signs[kept])

    def inside(self, share: float, place: tuple[float, float]) -> Pieces:
        """Those in a window: ``share`` of each side, ``place`` where the rest falls."""
        start = np.array(place, np.float32) * (1 - share)
        within = (self.points >= start) & (self.points < start + share)
        return self.chosen(within[:, 0] & within[:, 1])

    def large(self) -> Pieces:
        return self.chosen(self.sizes > LARGE)


def find_pieces(picture: Image.Image, *, closer: float = 1.0) -> Pieces:
    """Pieces of a grey picture at a fixed size, or so many times as large."""
    import cv2

    finding: Any = cv2  # its type stubs know no SIFT
    grey = np.asarray(picture)
    # Tiny pictures are enlarged, or they have no features at all, but not beyond all measure.
    zoom = min(2.0, SIDE * closer / max(grey.shape))
    size = tuple(max(1, round(side * zoom)) for side in (grey.shape[1], grey.shape[0]))
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC)
    finder = finding.SIFT_create(
        nfeatures=round(COUNT * closer**2),
        contrastThreshold=_LOCAL_CONTRAST,
        enable_precise_upscale=True,
    )
    found, raw = finder.detectAndCompute(stretched(cv2, small), None)
    if raw is None or not len(found):
        nothing = np.zeros((0, FREQUENCIES), np.float32)
        return Pieces(nothing[:, :2], nothing[:, 0], nothing)
    order = np.argsort([-point.response for point in found], kind="stable")
    points = np.array([found[index].pt for index in order], np.float32)
    sizes = np.array([found[index].size for index in order], np.float32)
    basis, _, _ = _frequencies()
    # Square roots of shares: a few strong gradients do not decide alone (RootSIFT).
    shares = raw[order] / np.maximum(raw[order].sum(axis=1, keepdims=True), 1e-6)
    scale = np.array(size, np.float32)
    return Pieces((points + np.float32(0.5)) / scale, sizes, np.sqrt(shares) @ basis)


def row_of_words(pieces: Pieces, *, mirrored: bool = False, inverted: bool = False) -> Floats:
    """A unit row for the pieces of a picture, or of its mirror image, its negative, or both."""
    _, when_mirrored, when_inverted = _frequencies()
    signs = pieces.signs * (when_mirrored if mirrored else 1) * (when_inverted if inverted else 1)
    bits = (signs @ _directions() > 0).reshape(-1, TABLES, BITS)
    codes = (bits @ (1 << np.arange(BITS))).astype(np.uint64)
    codes += np.arange(TABLES, dtype=np.uint64) << np.uint64(BITS)
    words = np.unique(codes)  # once each, however often: a grid on a film repeats itself
    hashed = _mixed(words if len(words) else np.array([_NONE]))
    place = (hashed % np.uint64(DIMENSION)).astype(np.intp)
    sign = np.where(hashed >> np.uint64(63), 1.0, -1.0)
    row = np.bincount(place, weights=sign, minlength=DIMENSION)
    return np.asarray(row / max(float(np.linalg.norm(row)), 1e-6), dtype=np.float32)


@functools.cache
def _frequencies() -> tuple[Floats, Floats, Floats]:
    """(128, FREQUENCIES) waves over a descriptor; what mirroring and inverting do to each.

    A descriptor is 4 rows x 4 columns x 8 directions. Mirroring reverses rows and the sense of
    rotation; inverting turns the grid by half. Only waves that one of the two turns round are used.
    """
    along = np.cos(np.pi / 4 * np.arange(4)[:, None] * (np.arange(4) + 0.5))
    around = 2 * np.pi / 8 * np.arange(8)
    waves: list[tuple[int, int, Floats, float, float]] = []
    for down in range(4):
        for across in range(4):
            for turns in range(5):
                for phase in (0, 1):
                    if phase == 1 and turns in (0, 4):  # a sine without a wave
                        continue
                    mirror, invert = (-1.0) ** (down + phase), (-1.0) ** (down + across)
                    if mirror > 0 and invert > 0:
                        continue
                    circle = np.sin(turns * around) if phase else np.cos(turns * around)
                    wave = np.einsum("i,j,k->ijk", along[down], along[across], circle).ravel()
                    height = down**2 + across**2 + turns**2
                    waves.append((height, len(waves), wave / np.linalg.norm(wave), mirror, invert))
    lowest = sorted(waves, key=lambda wave: wave[:2])[:FREQUENCIES]
    return (
        np.stack([wave[2] for wave in lowest], axis=1).astype(np.float32),
        np.array([wave[3] for wave in lowest], np.float32),
        np.array([wave[4] for wave in lowest], np.float32),
    )


@functools.cache
def _directions() -> Floats:
    """(FREQUENCIES, TABLES x BITS) of ±1, the same on every machine and for ever."""
    count = FREQUENCIES * TABLES * BITS
    drawn = _mixed(np.arange(1, count + 1, dtype=np.uint64) << np.uint64(32))
    return np.where(drawn >> np.uint64(63), 1, -1).reshape(FREQUENCIES, -1).astype(np.float32)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Splitmix64: neighbouring numbers come out unrelated."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
