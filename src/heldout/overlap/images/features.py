"""What registration needs of one picture, computed once: greys, an upright sketch, local features."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import require
from heldout.image import to_rgb
from heldout.overlap.images._panels import Box, panel_boxes

SIDE = 768  # of the greys that aligned pixels are compared in
LOCAL_SIDE = 512  # of the picture local features are found in
LOCAL_COUNT = 600
GLANCE_SIDE, GLANCE_COUNT = 256, 300  # of the picture that is asked first
LOCAL_CONTRAST = 0.008  # radiographs are smooth: a fifth of OpenCV's default
SKETCH_SIDE = 64
SHADING_SIDE = 16
TINT_SIDE = 48
COLOURED, GREY = 16.0, 8.0  # spread of the channels from which on and up to which it is called so

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """Small pieces of one picture that are found again wherever they lie."""

    points: Floats  # (n, 2), in pixels of the picture's greys, strongest first
    sizes: Floats  # (n,)
    angles: Floats  # (n,), radians, clockwise as the y axis points down
    descriptors: Floats  # (4, n, 32): parts that keep or change sign when mirrored or inverted


@dataclass(frozen=True, eq=False)
class PictureFeatures:
    """One picture, ready to be compared with many; about a megabyte."""

    size: tuple[int, int]  # native width and height
    grey: NDArray[np.uint8]  # at most SIDE on a side
    contrast: float  # standard deviation of ``grey``
    tint: tuple[float, float, float]  # mean deviation of each channel from grey
    chroma: float  # how far the channels lie apart, at the 95th percentile of its pixels
    sketches: Floats  # (8, SKETCH_SIDE²): detail of the whole frame in the eight poses, unit rows
    shadings: Floats  # (8, SHADING_SIDE²): its coarse light and dark, likewise
    panels: tuple[
        tuple[Box, PictureFeatures], ...
    ] = ()  # of a compound figure; boxes in native pixels

    @functools.cached_property
    def local(self) -> LocalFeatures:
        """Found when they are first asked for: frames that fit as they are need none."""
        import cv2

        return _local_features(cv2, self.grey, LOCAL_SIDE, LOCAL_COUNT)

    @functools.cached_property
    def glance(self) -> LocalFeatures:
        """Fewer, in the small."""
        import cv2

        return _local_features(cv2, self.grey, GLANCE_SIDE, GLANCE_COUNT)

    @property
    def coloured(self) -> bool:
        return self.chroma >= COLOURED

    @property
    def monochrome(self) -> bool:
        return self.chroma <= GREY

    @property
    def to_native(self) -> NDArray[np.float64]:
        """3 x 3: pixels of ``grey`` to native pixels, centre to centre."""
        across = self.size[0] / self.grey.shape[1]
        down = self.size[1] / self.grey.shape[0]
        return np.array(
            [[across, 0, across / 2 - 0.5], [0, down, down / 2 - 0.5], [0, 0, 1]], np.float64
        )


def cheap_features(image: Image.Image) -> PictureFeatures:
    """Everything ``register`` has to know of one picture; keep it where one picture meets many."""
    require("cv2", "vision", "registering two pictures")
    import cv2

    rgb = to_rgb(image)
    whole = _features(cv2, rgb)
    across, down = rgb.width / whole.grey.shape[1], rgb.height / whole.grey.shape[0]
    panels = []
    for left, top, right, bottom in panel_boxes(whole.grey):
        box = (round(left * across), round(top * down), round(right * across), round(bottom * down))
        panels.append((box, _features(cv2, rgb.crop(box))))
    return replace(whole, panels=tuple(panels))


def _features(cv2: Any, rgb: Image.Image) -> PictureFeatures:
    size = rgb.size
    scale = min(1.0, SIDE / max(size))
    shown = rgb.convert("L")
    if scale < 1.0:
        target = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        shown = shown.resize(target, Image.Resampling.BOX, reducing_gap=2.0)
    grey = np.asarray(shown)
    tiny = rgb.resize((TINT_SIDE, TINT_SIDE), Image.Resampling.BOX, reducing_gap=2.0)
    colours = np.asarray(tiny, np.float32)
    colours = colours.reshape(-1, 3)
    tint = colours.mean(axis=0) - colours.mean()
    return PictureFeatures(
        size=size,
        grey=grey,
        contrast=float(cv2.meanStdDev(grey)[1].item()),
        tint=(float(tint[0]), float(tint[1]), float(tint[2])),
        chroma=float(np.percentile(np.ptp(colours, axis=1), 95)),
        sketches=_sketches(cv2, grey),
        shadings=_shadings(cv2, grey),
    )


def _local_features(cv2: Any, grey: NDArray[np.uint8], side: int, count: int) -> LocalFeatures:
    """SIFT, square-rooted (Arandjelović and Zisserman 2012), the strongest ``count``."""
    zoom = min(side, max(GLANCE_SIDE, *grey.shape)) / max(grey.shape)
    small = grey
    if zoom < 1.0 or zoom > 1.5:  # tiny pictures are enlarged, or they have no features at all
        zoom = min(zoom, 2.0)
        way = cv2.INTER_AREA if zoom < 1.0 else cv2.INTER_CUBIC
        small = cv2.resize(grey, None, fx=zoom, fy=zoom, interpolation=way)
    else:
        zoom = 1.0
    # The precise upscale takes out a quarter-pixel shift that turned copies would double.
    finder = cv2.SIFT_create(
        nfeatures=count, contrastThreshold=LOCAL_CONTRAST, enable_precise_upscale=True
    )
    keypoints, raw = finder.detectAndCompute(stretched(cv2, small), None)
    if raw is None or not len(keypoints):
        empty = np.zeros(0, np.float32)
        nothing = np.zeros((4, 0, 32), np.float32)
        return LocalFeatures(np.zeros((0, 2), np.float32), empty, empty, nothing)
    strongest = np.argsort([-point.response for point in keypoints], kind="stable")
    keypoints, raw = [keypoints[index] for index in strongest], raw[strongest]
    points = np.array([point.pt for point in keypoints], np.float32)
    # Pixel centres, not corners, are what a resize scales about.
    points = (points + 0.5) / np.float32(zoom) - 0.5
    sizes = np.array([point.size for point in keypoints], np.float32) / np.float32(zoom)
    angles = np.deg2rad(np.array([point.angle for point in keypoints], np.float32))
    total = np.maximum(raw.sum(axis=1, keepdims=True), 1e-6)
    return LocalFeatures(points, sizes, angles, _parts(np.sqrt(raw / total, dtype=np.float32)))


def _parts(descriptors: Floats) -> Floats:
    """Descriptors on axes that mirroring and inverting a picture keep or turn round.

    A SIFT descriptor is 4 rows x 4 columns x 8 directions, relative to the feature's own direction.
    Mirroring the picture reverses the rows and the sense of rotation. Inverting it turns every
    gradient round, the feature's own too, so directions stay and the grid turns by 180°. Sums and
    differences over the four variants (even; odd when mirrored; odd when inverted; odd in both)
    make one product of matrices answer for all four.
    """
    grid = descriptors.reshape(-1, 4, 4, 8)
    mirrored = grid[:, ::-1, :, (-np.arange(8)) % 8]
    inverted, both = grid[:, ::-1, ::-1], mirrored[:, ::-1, ::-1]
    half = np.s_[:, :2, :2]  # one of each four bins that the variants exchange
    parts = [
        (grid + mirror * mirrored + invert * inverted + mirror * invert * both)[half]
        for invert in (1.0, -1.0)
        for mirror in (1.0, -1.0)
    ]
    return np.ascontiguousarray(
        np.stack(parts).reshape(4, len(descriptors), 32) * 0.5, dtype=np.float32
    )


def stretched(cv2: Any, grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Full contrast, so that a washed-out copy has the features of its original."""
    low, high = np.percentile(grey[::4, ::4], (1.0, 99.0))
    span = max(float(high - low), 8.0)
    stretched: NDArray[np.uint8] = cv2.convertScaleAbs(
        np.clip(grey.astype(np.float32) - low, 0, None), alpha=255.0 / span
    )
    return stretched


def _sketches(cv2: Any, grey: NDArray[np.uint8]) -> Floats:
    """The frame squeezed into a small square, without its coarse shading, in all eight poses."""
    small = cv2.resize(grey, (SKETCH_SIDE, SKETCH_SIDE), interpolation=cv2.INTER_AREA)
    small = small.astype(np.float32)
    detail = small - cv2.GaussianBlur(small, (0, 0), 3.0)
    return _eight_poses(detail)


def _shadings(cv2: Any, grey: NDArray[np.uint8]) -> Floats:
    small = cv2.resize(grey, (SHADING_SIDE, SHADING_SIDE), interpolation=cv2.INTER_AREA)
    return _eight_poses(small.astype(np.float32))


def _eight_poses(small: Floats) -> Floats:
    rows = np.stack([pose_array(small, pose).ravel() for pose in range(8)])
    rows -= rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6))


def pose_array(array: NDArray[Any], pose: int) -> NDArray[Any]:
    """Pose 0-3: turned by 0, 90, 180, 270 degrees counter-clockwise; 4-7: mirrored, then turned."""
    return np.ascontiguousarray(np.rot90(array[:, ::-1] if pose >= 4 else array, pose % 4))


# Where one picture may lie in the other: proposals from local features and from whole frames.


ALIKE = 0.84  # cosine of two descriptors of one spot, at least
RATIO = 0.92  # of distances, nearest against second nearest
POSITION = 0.025  # of the larger side: how far a match may lie from where the warp puts it
SCALE = 0.35  # in natural logarithm
ANGLE = 0.35  # radians
MAX_MATCHES = 160
FEWEST_WITNESSES = 3  # that must agree, at a glance and closely

Warp = NDArray[np.float64]  # 3 x 3, query to candidate, in pixels of their greys


@dataclass(frozen=True, eq=False)
class Hypothesis:
    warp: Warp
    inverted: bool
    inliers: int  # local features that agree; 0 where whole frames proposed it
    score: float  # inliers, or the correlation of the frames' detail


def from_local_features(query: PictureFeatures, candidate: PictureFeatures) -> Hypothesis | None:
    """The similarity most matches agree on, over upright/mirrored and positive/negative.

    A glance at both in the small is cheap: where not even FEWEST_WITNESSES agree on anything, as with
    nearly all pictures that are no copies, they are not looked at closely.
    """
    side = float(max(candidate.grey.shape))
    slack = max(1.0, side / GLANCE_SIDE)  # places are that much coarser at a glance
    if _agreed(query.glance, candidate.glance, side, slack) is None:
        return None
    return _agreed(query.local, candidate.local, side, 1.0)


def _agreed(
    ours: LocalFeatures, theirs: LocalFeatures, side: float, slack: float
) -> Hypothesis | None:
    if len(ours.points) < 3 or len(theirs.points) < 3:
        return None
    even, mirror, invert, both = (
        left @ right.T for left, right in zip(ours.descriptors, theirs.descriptors, strict=True)
    )
    plain, turned = even + mirror, invert + both
    odd = np.subtract(even, mirror, out=even)
    mixed = np.subtract(invert, both, out=invert)
    scratch = mirror
    best: Hypothesis | None = None
    for number, (first, second, combine) in enumerate(
        (
            (plain, turned, np.add),
            (odd, mixed, np.add),
            (plain, turned, np.subtract),
            (odd, mixed, np.subtract),
        )
    ):
        left, right = _matches(combine(first, second, out=scratch))
        if len(left) < 3:
            continue
        hypothesis = _consensus(
            ours, theirs, left, right, side, slack, number % 2 == 1, number >= 2
        )
        if (
            hypothesis is not None
            and hypothesis.inliers >= FEWEST_WITNESSES
            and (best is None or hypothesis.inliers > best.inliers)
        ):
            best = hypothesis
    return best


def _matches(similarity: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs that choose each other, and clearly; the surest first."""
    nearest = similarity.argmax(axis=1)
    first = similarity[np.arange(len(nearest)), nearest]
    left = np.flatnonzero(first > ALIKE)
    if len(left) < 3:
        return left, nearest[left]
    rest = similarity[left]
    rest[np.arange(len(left)), nearest[left]] = -1.0
    # Unit vectors: the squared distance is 2 - 2 cos.
    sure = (1.0 - first[left]) < RATIO**2 * (1.0 - rest.max(axis=1, initial=-1.0))
    left = left[sure]
    left = left[similarity[:, nearest[left]].argmax(axis=0) == left]
    left = left[np.argsort(-first[left], kind="stable")[:MAX_MATCHES]]
    return left, nearest[left]


def _consensus(
    ours: LocalFeatures,
    theirs: LocalFeatures,
    left: NDArray[np.intp],
    right: NDArray[np.intp],
    side: float,
    slack: float,
    mirrored: bool,
    inverted: bool,
) -> Hypothesis | None:
    """Each match alone proposes a similarity; keep the one the others agree with, then fit it."""
    start = ours.points[left].astype(np.float64)
    end = theirs.points[right].astype(np.float64)
    scale = np.log(theirs.sizes[right] / ours.sizes[left]).astype(np.float64)
    sense = -1.0 if mirrored else 1.0
    turn = (theirs.angles[right] - sense * ours.angles[left]).astype(np.float64)
    if inverted:
        turn = turn + np.pi
    # Complex numbers: a similarity is z -> a z + b, or a conj(z) + b when mirrored.
    source = start[:, 0] + 1j * start[:, 1]
    if mirrored:
        source = source.conj()
    target = end[:, 0] + 1j * end[:, 1]
    factor = np.exp(scale + 1j * turn)
    offset = target - factor * source
    apart = np.abs(factor[:, None] * source[None, :] + offset[:, None] - target[None, :])
    within = POSITION * side * np.clip(np.exp(scale), 0.25, 1.0)
    agree = apart < within[:, None]
    agree &= np.abs(scale[:, None] - scale[None, :]) < SCALE
    agree &= np.abs((turn[:, None] - turn[None, :] + np.pi) % (2 * np.pi) - np.pi) < ANGLE
    votes = agree.sum(axis=1)
    chosen = int(votes.argmax())
    kept = agree[chosen]
    if kept.sum() < 3:
        return None
    warp = _similarity_warp(source[kept], target[kept], mirrored)
    tolerance = 0.5 * POSITION * side
    for _ in range(4):
        error = np.abs(_apply(warp, start) - end).max(axis=1)
        kept = error < tolerance
        count = len(np.unique(np.round(end[kept]), axis=0))
        if count < 3:
            return None
        warp = (
            _affine_warp(start[kept], end[kept])
            if count >= 8
            else _similarity_warp(source[kept], target[kept], mirrored)
        )
        tolerance = max(0.6 * tolerance, 1.5 * slack)
    error = np.abs(_apply(warp, start) - end).max(axis=1)
    # One strong corner gives several features; it is one witness.
    inliers = len(np.unique(np.round(end[error < 3.0 * slack] / 3.0), axis=0))
    return Hypothesis(warp, inverted, inliers, float(inliers))


def _apply(warp: Warp, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points @ warp[:2, :2].T + warp[:2, 2])


def _similarity_warp(
    source: NDArray[np.complex128], target: NDArray[np.complex128], mirrored: bool
) -> Warp:
    middle, aim = source.mean(), target.mean()
    spread = source - middle
    power = float((np.abs(spread) ** 2).sum())
    a = (spread.conj() * (target - aim)).sum() / power if power > 1e-9 else 1.0 + 0j
    b = aim - a * middle
    sign = -1.0 if mirrored else 1.0
    return np.array([[a.real, -a.imag * sign, b.real], [a.imag, a.real * sign, b.imag], [0, 0, 1]])


def _affine_warp(start: NDArray[np.float64], end: NDArray[np.float64]) -> Warp:
    design = np.column_stack([start, np.ones(len(start))])
    solution = np.linalg.lstsq(design, end, rcond=None)[0]
    return np.vstack([solution.T, [0.0, 0.0, 1.0]])


def from_frames(query: PictureFeatures, candidate: PictureFeatures) -> Hypothesis:
    """The whole frame onto the whole frame in the pose whose sketch correlates best."""
    values = candidate.sketches[0] @ query.sketches.T
    pose = int(np.abs(values).argmax())
    warp = frame_warp(query.grey.shape, candidate.grey.shape, pose)
    return Hypothesis(warp, bool(values[pose] < 0), 0, float(abs(values[pose])))


def frame_warp(query: tuple[int, ...], candidate: tuple[int, ...], pose: int) -> Warp:
    """Query pixels to candidate pixels when the candidate is the query in ``pose``, resized."""
    # On the unit square with the origin in the middle, y downwards.
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])  # counter-clockwise as seen
    turn = np.linalg.matrix_power(quarter, pose % 4)
    if pose >= 4:
        turn = turn @ np.diag([-1.0, 1.0])
    height, width = query[:2]
    tall, wide = candidate[:2]
    to_unit = np.array(
        [[1 / width, 0, 0.5 / width - 0.5], [0, 1 / height, 0.5 / height - 0.5], [0, 0, 1]]
    )
    from_unit = np.array(
        [[wide, 0, wide / 2 - 0.5], [0, tall, tall / 2 - 0.5], [0, 0, 1]], dtype=np.float64
    )
    middle = np.eye(3)
    middle[:2, :2] = turn
    return np.asarray(from_unit @ middle @ to_unit)
