"""Which pictures of a set are near to a corpus for one and the same reason.

Two slices of one study have the same nearest corpus picture and are much nearer to each other than to
it: by the triangle inequality they exceed a threshold together or not at all. Two strangers that share
a typical neighbour are, given the corpus, two draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF = 0.5  # of the distance to the neighbour; distances go by the root of 1 − cosine


def related_pictures(
    rows: NDArray[Any], neighbour: NDArray[np.int64], similarity: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Per row the first row it belongs together with, itself where it stands alone."""
    leader = np.arange(len(rows))

    def find(one: int) -> int:
        while leader[one] != one:
            one = int(leader[one])
        return one

    sharing: dict[int, list[int]] = defaultdict(list)
    for row, shared in enumerate(neighbour.tolist()):
        if shared >= 0:
            sharing[shared].append(row)
    for members in sharing.values():
        own = np.asarray(rows[members], dtype=np.float32)
        near = own @ own.T
        weaker = np.minimum.outer(similarity[members], similarity[members])
        together = 1.0 - near < (1.0 - weaker) * _HALF**2
        for left, right in zip(*np.nonzero(np.triu(together, 1)), strict=True):
            one, other = find(members[left]), find(members[right])
            leader[max(one, other)] = min(one, other)
    return np.array([find(row) for row in range(len(rows))], dtype=np.int64)


def mean_group(labels: Sequence[str]) -> float:
    """The mean size of the groups as a picture meets it: how many draws count as one."""
    if not len(labels):
        return 1.0
    _, counts = np.unique(np.array(labels, dtype=object), return_counts=True)
    return float((counts.astype(np.float64) ** 2).sum() / counts.sum())
