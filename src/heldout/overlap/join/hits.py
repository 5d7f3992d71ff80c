"""Hits: the pairs a join keeps, as arrays, in one order whatever way they were found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


def _none() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Hits:
    """Pairs sorted by query, then from the most similar down, then by position.

    ``unusable`` lists corpus rows that were left out because they are not unit vectors (a failed
    image is often stored as zeros or NaN): the caller reports them.
    """

    query: NDArray[np.int32]
    position: NDArray[np.int64]  # row of the whole corpus, not of one shard
    similarity: NDArray[np.float64]
    unusable: NDArray[np.int64] = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def empty(cls) -> Hits:
        return cls(np.empty(0, np.int32), _none(), np.empty(0, np.float64))


def select(parts: Iterable[Hits], k: int | None, threshold: float | None) -> Hits:
    """The union of ``parts``, in order: per query the ``k`` best and whatever reaches ``threshold``."""
    found = list(parts) or [Hits.empty()]
    query = np.concatenate([part.query for part in found])
    position = np.concatenate([part.position for part in found])
    similarity = np.concatenate([part.similarity for part in found])
    order = np.lexsort((position, -similarity, query))
    query, position, similarity = query[order], position[order], similarity[order]
    kept = np.zeros(len(query), bool)
    if k is not None:
        first = np.flatnonzero(np.r_[True, query[1:] != query[:-1]]) if len(query) else _none()
        lengths = np.diff(np.append(first, len(query)))
        kept |= np.arange(len(query)) - np.repeat(first, lengths) < k
    if threshold is not None:
        kept |= similarity >= threshold
    unusable = np.unique(np.concatenate([part.unusable for part in found]))
    return Hits(query[kept], position[kept], similarity[kept], unusable)


def merge(hits: Hits, other: Hits, k: int | None, threshold: float | None) -> Hits:
    """What one scan of both corpora would have kept; associative and commutative."""
    return select((hits, other), k, threshold)
