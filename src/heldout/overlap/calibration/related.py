"""Which pictures of a set are near to a corpus for one and the same reason.

Two slices of one study have the same nearest corpus picture and are much nearer to each other than to
it: by the triangle inequality they exceed a threshold together or not at all. Two strangers that share
a typical neighbour are, given the corpus, two draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF = 0.5  # of the distance to the neighbour; distances go by the root of 1 − cosine


def related_pictures(
    rows: NDArray[Any],
    neighbour: NDArray[np.int64],
    similarity: NDArray[np.float64],
    *,
    own: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Per row the first row it belongs together with, itself where it stands alone.

    ``own`` are the rows' places among what ``neighbour`` counts, where a corpus is compared with
    itself: two that are each other's nearest give one similarity twice.
    """
    leader = list(range(len(rows)))

    def find(one: int) -> int:
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    pairs = [] if own is None else _mutual(own, neighbour)
    for left, right in [*pairs, *_together(rows, neighbour, similarity)]:
        one, other = find(left), find(right)
        leader[max(one, other)] = min(one, other)
    return np.array([find(row) for row in range(len(rows))], dtype=np.int64)


def _mutual(own: NDArray[np.int64], neighbour: NDArray[np.int64]) -> list[tuple[int, int]]:
    place = {row: index for index, row in enumerate(own.tolist())}
    nearest = [place.get(row, -1) for row in neighbour.tolist()]
    return [
        (one, other) for one, other in enumerate(nearest) if other > one and nearest[other] == one
    ]


def _together(
    rows: NDArray[Any], neighbour: NDArray[np.int64], similarity: NDArray[np.float64]
) -> Iterator[tuple[int, int]]:
    """Pairs that share their neighbour and are closer than half the distance to it."""
    sharing: dict[int, list[int]] = defaultdict(list)
    for row, shared in enumerate(neighbour.tolist()):
        if shared >= 0:
            sharing[shared].append(row)
    for members in sharing.values():
        if len(members) < 2:
            continue
        own = np.asarray(rows[members], dtype=np.float32)
        weaker = np.minimum.outer(similarity[members], similarity[members])
        close = 1.0 - own @ own.T < (1.0 - weaker) * _HALF**2
        for left, right in zip(*np.nonzero(np.triu(close, 1)), strict=True):
            yield members[left], members[right]


def mean_group(labels: Sequence[str] | Sequence[int]) -> float:
    """The mean size of the groups as a picture meets it: how many draws count as one."""
    if not len(labels):
        return 1.0
    _, counts = np.unique(np.array(labels, dtype=object), return_counts=True)
    return float((counts.astype(np.float64) ** 2).sum() / counts.sum())
