"""Where one picture may lie in the other: proposals from local features and from whole frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.registration.features import Features, Floats

ALIKE = 0.84  # cosine of two descriptors of one spot, at least
RATIO = 0.92  # of distances, nearest against second nearest
POSITION = 0.025  # of the larger side: how far a match may lie from where the warp puts it
SCALE = 0.35  # in natural logarithm
ANGLE = 0.35  # radians
MAX_MATCHES = 160
FIRST = 320  # features asked first
FIRST_WITNESSES = 3  # of them that must agree before all are asked

Warp = NDArray[np.float64]  # 3 x 3, query to candidate, in pixels of their greys


@dataclass(frozen=True, eq=False)
class Hypothesis:
    warp: Warp
    inverted: bool
    inliers: int  # local features that agree; 0 where whole frames proposed it
    score: float  # inliers, or the correlation of the frames' detail


def from_local_features(query: Features, candidate: Features) -> Hypothesis | None:
    """The similarity most matches agree on, over upright/mirrored and positive/negative.

    The strongest features are asked first: where not even FIRST_WITNESSES of them agree on anything,
    as with nearly all pictures that are no copies, the rest is not asked.
    """
    many = max(len(query.points), len(candidate.points)) > FIRST
    if many and _agreed(query, candidate, FIRST, FIRST_WITNESSES) is None:
        return None
    return _agreed(query, candidate, None, 3)


def _agreed(
    query: Features, candidate: Features, strongest: int | None, witnesses: int
) -> Hypothesis | None:
    if len(query.points) < 3 or len(candidate.points) < 3:
        return None
    even, mirror, invert, both = (
        ours[:strongest] @ theirs[:strongest].T
        for ours, theirs in zip(query.descriptors, candidate.descriptors, strict=True)
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
        hypothesis = _consensus(query, candidate, left, right, number % 2 == 1, number >= 2)
        if (
            hypothesis is not None
            and hypothesis.inliers >= witnesses
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
    query: Features,
    candidate: Features,
    left: NDArray[np.intp],
    right: NDArray[np.intp],
    mirrored: bool,
    inverted: bool,
) -> Hypothesis | None:
    """Each match alone proposes a similarity; keep the one the others agree with, then fit it."""
    start = query.points[left].astype(np.float64)
    end = candidate.points[right].astype(np.float64)
    scale = np.log(candidate.sizes[right] / query.sizes[left]).astype(np.float64)
    sense = -1.0 if mirrored else 1.0
    turn = (candidate.angles[right] - sense * query.angles[left]).astype(np.float64)
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
    reach = POSITION * max(candidate.grey.shape) * np.clip(np.exp(scale), 0.25, 1.0)
    agree = apart < reach[:, None]
    agree &= np.abs(scale[:, None] - scale[None, :]) < SCALE
    agree &= np.abs((turn[:, None] - turn[None, :] + np.pi) % (2 * np.pi) - np.pi) < ANGLE
    votes = agree.sum(axis=1)
    chosen = int(votes.argmax())
    kept = agree[chosen]
    if kept.sum() < 3:
        return None
    warp = _similarity_warp(source[kept], target[kept], mirrored)
    tolerance = 0.5 * POSITION * max(candidate.grey.shape)
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
        tolerance = max(0.6 * tolerance, 1.5)
    error = np.abs(_apply(warp, start) - end).max(axis=1)
    # One strong corner gives several features; it is one witness.
    inliers = len(np.unique(np.round(end[error < 3.0] / 3.0), axis=0))
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


def from_frames(query: Features, candidate: Features) -> Hypothesis:
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
