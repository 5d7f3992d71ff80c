"""Runs of equal values among neighbours: scores that do not move when their question does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class TieRuns(NamedTuple):
    pairs: int  # neighbouring pairs with different content
    tied: int  # of them, those with the same value to the last digit
    longest: int  # items in the longest run of equal values
    first: int  # place of the first tied pair, -1 if there is none

    @property
    def rate(self) -> float:
        return self.tied / self.pairs if self.pairs else 0.0


def tie_runs(values: ArrayLike, contents: Sequence[Hashable] | None = None) -> TieRuns:
    """Neighbours whose ``contents`` (a question, say) differ and whose values do not."""
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2:
        return TieRuns(0, 0, len(numbers), -1)
    different = np.ones(len(numbers) - 1, dtype=bool)
    if contents is not None:
        different = np.fromiter((a != b for a, b in pairwise(contents)), bool, len(different))
    tied = (numbers[1:] == numbers[:-1]) & different
    longest = run = 1
    for equal in tied:
        run = run + 1 if equal else 1
        longest = max(longest, run)
    places = np.flatnonzero(tied)
    return TieRuns(
        int(different.sum()), int(tied.sum()), longest, int(places[0]) if places.size else -1
    )
