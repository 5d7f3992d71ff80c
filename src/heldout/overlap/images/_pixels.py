"""``pixels``: a descriptor without weights, so that everything works offline.

A row is the picture's layout and its words side by side: what keeps the layout (noise, blur, a smaller
size) is found by the one, what keeps the pieces (a crop, a turn, a page around it) by the other.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import require
from heldout.image import to_rgb
from heldout.overlap.images.encoder import (
    HALF,
    MANY,
    Aspect,
    Encoder,
    Floats,
    View,
    trimmed,
    unit,
)
from heldout.overlap.images.features import pose_array, stretched

# Layout of a picture: where it is light and dark, and where edges of which direction lie.
#
# Half of it is the picture's coarse shading (low frequencies, evened out so that the few lowest do not
# decide alone), half is where edges of which direction lie (unsigned, so that a negative has the same).
# Both are blind to brightness and contrast; size, compression, noise and blur change them little.


LAYOUT_SIDE = 64
FREQUENCIES = 16
GRID = 8
DIRECTIONS = 4
LAYOUT_DIMENSION = FREQUENCIES * FREQUENCIES + GRID * GRID * DIRECTIONS
_TOGETHER = 8
_FLAT = 1.0  # grey levels: texture below this is noise, and is not blown up


def small_greys(grey: Image.Image) -> Floats:
    """A grey picture squeezed into a small square."""
    small = grey.resize((LAYOUT_SIDE, LAYOUT_SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(small, dtype=np.float32)


def layout(batch: Floats) -> Floats:
    """Unit rows for a batch of small greys."""
    # A few at a time: what lies between then stays in the processor's cache.
    edges = [_edges(batch[start : start + _TOGETHER]) for start in range(0, len(batch), _TOGETHER)]
    return unit(np.concatenate([unit(_shading(batch)), unit(np.concatenate(edges))], axis=1))


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
    place = np.arctan2(down, across)
    place *= np.float32(DIRECTIONS / math.pi)
    place += np.float32(DIRECTIONS) * (place < 0)  # unsigned: half a turn is no turn
    pool = _pooling()
    cells = []
    for direction in range(DIRECTIONS):
        apart = np.abs(place - np.float32(direction))
        share = np.abs(apart - np.float32(DIRECTIONS / 2))  # how far from at a right angle
        share -= np.float32(DIRECTIONS / 2 - 1)
        np.maximum(share, 0, out=share)
        share *= strength
        cells.append(pool @ share @ pool.T)
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
        shifted = padded.swapaxes(1, axis)  # views: nothing is copied
        parts = [shifted[:, k : k + LAYOUT_SIDE] * kernel[k] for k in range(5)]
        batch = sum(parts[1:], start=parts[0]).swapaxes(1, axis)
    return np.ascontiguousarray(batch)


@functools.cache
def _cosines() -> tuple[Floats, Floats]:
    frequency = np.arange(FREQUENCIES)
    angle = math.pi / (2 * LAYOUT_SIDE) * frequency[:, None] * (2 * np.arange(LAYOUT_SIDE) + 1)
    height = np.hypot(frequency[:, None], frequency[None, :])
    weight = height * np.exp(-((height / FREQUENCIES) ** 2))
    return np.cos(angle).astype(np.float32), weight.astype(np.float32)


@functools.cache
def _pooling() -> NDArray[np.float32]:
    """(GRID, LAYOUT_SIDE): overlapping triangles, so that a shift by a pixel moves nothing by a whole cell."""
    centre = (np.arange(GRID) + 0.5) * LAYOUT_SIDE / GRID
    distance = np.abs(np.arange(LAYOUT_SIDE) + 0.5 - centre[:, None]) / (LAYOUT_SIDE / GRID)
    return np.maximum(0, 1 - distance).astype(np.float32)


# Words of a picture: which small pieces of texture it holds, wherever they lie, as one vector.
#
# A crop, a turn, a frame or a page around it changes the layout of a picture and keeps its pieces.
# Local features (SIFT) find the same pieces again at any place, size and angle. The signs of a few sums
# over a feature's descriptor make its word, and all words of a picture are hashed into one row of fixed
# length whose products are about the share of words two pictures have in common. Nothing is learnt: the
# sums are of low frequencies that mirroring or inverting a picture turns round, so their mean is zero in
# any collection, and a mirrored picture's words follow from the picture's own.


# Pixels of the larger side pieces are found in: with fewer small crops lose their pieces, more cost time.
WORDS_SIDE = 128
COUNT = 200
WORDS_DIMENSION = 1536
WORDS_FREQUENCIES = 24
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
    signs: Floats  # (n, WORDS_FREQUENCIES): sums over their descriptors
    words: NDArray[np.uint64]  # (n, TABLES)

    def chosen(self, mask: NDArray[np.bool_], count: int = COUNT) -> Pieces:
        kept = np.flatnonzero(mask)[:count]
        return Pieces(self.points[kept], self.sizes[kept], self.signs[kept], self.words[kept])

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
    zoom = min(2.0, WORDS_SIDE * closer / max(grey.shape))
    size = tuple(max(1, round(side * zoom)) for side in (grey.shape[1], grey.shape[0]))
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC)
    finder = finding.SIFT_create(
        nfeatures=round(COUNT * closer**2),
        contrastThreshold=_LOCAL_CONTRAST,
        enable_precise_upscale=True,
    )
    keypoints, raw = finder.detectAndCompute(stretched(cv2, small), None)
    if raw is None or not len(keypoints):
        nothing = np.zeros((0, WORDS_FREQUENCIES), np.float32)
        return Pieces(nothing[:, :2], nothing[:, 0], nothing, words_of(nothing))
    order = np.argsort([-point.response for point in keypoints], kind="stable")
    points = finding.KeyPoint_convert(keypoints)[order]
    sizes = np.array([point.size for point in keypoints], np.float32)[order]
    basis, _, _ = _frequencies()
    # Square roots of shares: a few strong gradients do not decide alone (RootSIFT).
    shares = raw[order] / np.maximum(raw[order].sum(axis=1, keepdims=True), 1e-6)
    scale = np.array(size, np.float32)
    signs = np.sqrt(shares) @ basis
    return Pieces((points + np.float32(0.5)) / scale, sizes, signs, words_of(signs))


def words_of(signs: Floats) -> NDArray[np.uint64]:
    """(n, TABLES): the words of each piece."""
    bits = (signs @ _directions() > 0).reshape(-1, TABLES, BITS)
    words = (bits @ (1 << np.arange(BITS))).astype(np.uint64)
    return np.asarray(words + (np.arange(TABLES, dtype=np.uint64) << np.uint64(BITS)))


def row_of_words(pieces: Pieces, *, mirrored: bool = False, inverted: bool = False) -> Floats:
    """A unit row for the pieces of a picture, or of its mirror image, its negative, or both."""
    every = pieces.words
    if mirrored or inverted:
        _, when_mirrored, when_inverted = _frequencies()
        turned = when_mirrored if mirrored else np.float32(1)
        every = words_of(pieces.signs * turned * (when_inverted if inverted else np.float32(1)))
    words = np.unique(every)  # once each, however often: a grid on a film repeats itself
    hashed = _mixed(words if len(words) else np.array([_NONE]))
    place = (hashed % np.uint64(WORDS_DIMENSION)).astype(np.intp)
    sign = np.where(hashed >> np.uint64(63), 1.0, -1.0)
    row = np.bincount(place, weights=sign, minlength=WORDS_DIMENSION)
    return np.asarray(row / max(float(np.linalg.norm(row)), 1e-6), dtype=np.float32)


@functools.cache
def _frequencies() -> tuple[Floats, Floats, Floats]:
    """(128, WORDS_FREQUENCIES) waves over a descriptor; what mirroring and inverting do to each.

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
    lowest = sorted(waves, key=lambda wave: wave[:2])[:WORDS_FREQUENCIES]
    return (
        np.stack([wave[2] for wave in lowest], axis=1).astype(np.float32),
        np.array([wave[3] for wave in lowest], np.float32),
        np.array([wave[4] for wave in lowest], np.float32),
    )


@functools.cache
def _directions() -> Floats:
    """(WORDS_FREQUENCIES, TABLES x BITS) of ±1, the same on every machine and for ever."""
    count = WORDS_FREQUENCIES * TABLES * BITS
    drawn = _mixed(np.arange(1, count + 1, dtype=np.uint64) << np.uint64(32))
    return np.where(drawn >> np.uint64(63), 1, -1).reshape(WORDS_FREQUENCIES, -1).astype(np.float32)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Splitmix64: neighbouring numbers come out unrelated."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


WORDS = 1.5  # weight of the words' similarity, the layout's is 1
SHARED_WORDS = 0.5  # of the area, from which on a part has the words of the whole
LOOKS = (1.0, 1 / HALF, 2.0, 2.6)  # how many times as large a query is looked at
FINEST = 1.9  # pixels: the smallest pieces there are


def _grid(share: float, steps: int) -> Iterator[View]:
    places = [step / (steps - 1) for step in range(steps)]
    for down, across in itertools.product(places, places):
        yield View(
            f"crop {share:.0%} at {across:.2f},{down:.2f}", share=share, place=(across, down)
        )


VIEWS = (*MANY, *_grid(0.5, 3), *_grid(0.4, 4))
_GREYS = LAYOUT_SIDE**2


class PixelsEncoder(Encoder):
    identity = (
        f"pixels-3 | squash {LAYOUT_SIDE} grey, {FREQUENCIES}² frequencies, "
        f"{GRID}²x{DIRECTIONS} edges; {COUNT} SIFT at {WORDS_SIDE} as words of "
        f"{BITS} bits x {TABLES} in {WORDS_DIMENSION}, weight {WORDS}"
    )
    dimension = LAYOUT_DIMENSION + WORDS_DIMENSION
    # A crop of a radiograph has the layout of many others: its words alone tell it.
    aspects = (
        Aspect("whole", slice(None), least=0.44, least_small=0.3, sure=0.6, outstanding=1.12),
        Aspect(
            "words",
            slice(LAYOUT_DIMENSION, None),
            least=0.17,
            least_small=0.17,
            sure=0.33,
            outstanding=1.04,
            worth=0.2,
        ),
        Aspect("layout", slice(0, LAYOUT_DIMENSION), least=0.85, least_small=0.7, outstanding=1.12),
    )

    def __init__(self) -> None:
        require("cv2", "vision", "the encoder pixels")
        importlib.import_module("cv2")  # by one thread: while it loads, others find half of it

    def prepare(self, image: Image.Image) -> Floats:
        picture = to_rgb(image).convert("L")
        return _side_by_side(picture, row_of_words(find_pieces(picture)))

    def prepare_parts(self, images: Sequence[Image.Image]) -> list[Floats]:
        """A part that is most of the picture has its words: what a frame holds is not searched again."""
        whole, *parts = [to_rgb(image).convert("L") for image in images]
        words = row_of_words(find_pieces(whole))
        most = SHARED_WORDS * whole.width * whole.height
        prepared = [_side_by_side(whole, words)]
        for part in parts:
            shared = part.width * part.height >= most
            own = words if shared else row_of_words(find_pieces(part))
            prepared.append(_side_by_side(part, own))
        return prepared

    def _forward(self, batch: Floats) -> Floats:
        greys = batch[:, :_GREYS].reshape(-1, LAYOUT_SIDE, LAYOUT_SIDE)
        weighted = np.float32(WORDS**0.5) * batch[:, _GREYS:]
        return np.concatenate([layout(greys), weighted], axis=1)

    def encode_views(self, image: Image.Image) -> tuple[list[str], Floats]:
        """Many views, for pieces are looked for only twice: a view's words follow from them."""
        picture = to_rgb(image).convert("L")
        closest = find_pieces(picture, closer=LOOKS[-1])
        looks = (find_pieces(picture), *(_farther(closest, look) for look in LOOKS[1:-1]), closest)
        greys = small_greys(picture)
        reduced = _reduced(picture)
        names, prepared = [], []
        for view in VIEWS:
            names.append(view.name)
            seen = _view_greys(view, reduced, greys)
            prepared.append(np.concatenate([seen.ravel(), _view_words(view, looks)]))
        names.append("large pieces alone")
        prepared.append(np.concatenate([greys.ravel(), row_of_words(looks[0].large())]))
        inside = trimmed(picture)  # corpus pictures lose their frames, too
        names.append("trimmed")
        prepared.append(prepared[0] if inside is None else self.prepare(inside))
        return names, self.embed(np.stack(prepared))


def _side_by_side(picture: Image.Image, row: Floats) -> Floats:
    return np.concatenate([small_greys(picture).ravel(), row])


def _reduced(picture: Image.Image) -> Image.Image:
    """Small enough that dozens of views cost little, large enough for the layout of a crop."""
    step = min(picture.size) // (4 * LAYOUT_SIDE)
    return picture if step < 2 else picture.reduce(step)


def _farther(closest: Pieces, look: float) -> Pieces:
    """What a look from farther away shows are the larger of the pieces that a closer one shows."""
    coarse = closest.sizes >= FINEST * LOOKS[-1] / look
    return closest.chosen(coarse, len(coarse))


def _view_greys(view: View, picture: Image.Image, greys: Floats) -> Floats:
    """The small greys of a view; ``greys`` are those of the whole picture, upright."""
    if view.degrees:
        return small_greys(view.of(picture))
    if view.share < 1:
        size = (LAYOUT_SIDE, LAYOUT_SIDE)
        box = view.box(picture.size)
        small = picture.resize(size, Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)
        greys = np.asarray(small, dtype=np.float32)
    return pose_array(255 - greys if view.inverted else greys, view.pose)


def _view_words(view: View, looks: tuple[Pieces, ...]) -> Floats:
    pieces = looks[0]
    if view.share < 1:
        # A crop is shown larger in the corpus: its pieces are those of a closer look.
        closest = max(n for n, closer in enumerate(LOOKS) if closer * view.share < 1.15)
        pieces = looks[closest].inside(view.share, view.place)
    return row_of_words(pieces, mirrored=view.pose >= 4, inverted=view.inverted)
