"""A set of hashes that millions of others are checked against: a small bitmap first, then a search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.text.batch import Hashes, Places

_NONE = np.empty(0, np.int64)
_SPARE = 16  # slots of the bitmap per hash: one stranger in sixteen gets past it


class HashSet:
    def __init__(self, hashes: Hashes) -> None:
        self.sorted, self.order = _sorted(hashes)
        size = max(2**10, 1 << (max(1, len(hashes)) * _SPARE - 1).bit_length())
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._bitmap = np.zeros(size, np.bool_)
        self._bitmap[(self.sorted >> self._shift).astype(np.int64)] = True

    def find(self, hashes: Hashes) -> tuple[Places, Places]:
        """Pairs (position in ``hashes``, position in the hashes the set was made of)."""
        parts = list(self.find_in_parts(hashes, None))
        return parts[0] if parts else (_NONE, _NONE)

    def find_in_parts(self, hashes: Hashes, most: int | None) -> Iterator[tuple[Places, Places]]:
        """The same pairs, about ``most`` at a time: where everything is alike there are many."""
        likely = np.flatnonzero(self._bitmap[(hashes >> self._shift).astype(np.int64)])
        sought = hashes[likely]
        low = np.searchsorted(self.sorted, sought, "left")
        counts = np.searchsorted(self.sorted, sought, "right") - low
        hit = counts > 0
        likely, low, counts = likely[hit], low[hit], counts[hit]
        cuts = [0, len(likely)]
        if most is not None and len(likely):
            parts = np.cumsum(counts) // most
            cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(likely)]
        for begin, end in itertools.pairwise(cuts):
            part = slice(begin, end)
            if end > begin:
                yield (
                    np.repeat(likely[part], counts[part]),
                    self.order[_ranges(low[part], counts[part])],
                )


def _sorted(hashes: Hashes) -> tuple[Hashes, Places]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.int64)


def _ranges(first: NDArray[np.intp], counts: NDArray[np.intp]) -> Places:
    """first[0], first[0]+1, … counts[0] of them, then the same for the next."""
    if not len(first):
        return np.empty(0, np.int64)
    ends = np.cumsum(counts)
    step = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    return np.asarray(np.repeat(first, counts) + step, np.int64)
