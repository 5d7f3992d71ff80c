"""Chances beside the own picture where a benchmark has too few pairs of its own to show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from heldout.overlap.texts._chances import FEW, ParaphraseCandidate
from heldout.overlap.texts._questions import same_frame
from heldout.overlap.texts.encoders import DEFAULT, READER

#: cosines of the tables below
GRID = tuple(round(0.48 + 0.02 * place, 2) for place in range(25))
_LEAST = 0.002  # no cosine says more
_SURE, _DOUBTFUL = 0.001, 0.3  # of an encoder without a table, by its two cosines


class PriorShares(NamedTuple):
    """Of different questions with the same answer beside one picture, the share with a cosine of at least
    ``GRID``; ``same_frame`` apart, which come nearer."""

    other_words: tuple[float, ...]
    same_frame: tuple[float, ...]


def _shares(line: str) -> tuple[float, ...]:
    return tuple(map(float, line.split()))


SHARES: Mapping[str, PriorShares] = {
    READER: PriorShares(
        _shares(
            ".958 .939 .918 .857 .793 .715 .638 .531 .445 .360 .297 .210 .164 "
            ".112 .088 .061 .034 .027 .016 .003 .000 .000 .000 .000 .000"
        ),
        _shares(
            ".997 .976 .952 .940 .904 .880 .842 .798 .742 .694 .629 .509 .458 "
            ".324 .279 .266 .198 .102 .070 .044 .018 .018 .000 .000 .000"
        ),
    ),
    DEFAULT: PriorShares(
        _shares(
            ".073 .066 .048 .045 .038 .034 .031 .029 .019 .017 .014 .014 .003 "
            ".001 .000 .000 .000 .000 .000 .000 .000 .000 .000 .000 .000"
        ),
        _shares(
            ".337 .337 .296 .257 .232 .205 .188 .182 .164 .149 .120 .102 .091 "
            ".080 .062 .045 .036 .018 .018 .018 .018 .018 .018 .000 .000"
        ),
    ),
}


class SmallNull:
    """Pairs of this benchmark known to be different, fewer than ``FEW``, added to ``FEW`` as they were elsewhere.

    Elsewhere means other benchmarks about radiographs, photographs, charts and rendered scenes, all weighing the
    same: nobody knows which of them a small benchmark is like.
    """

    def __init__(self, scores: Iterable[float], reader: str, settled: tuple[float, float]) -> None:
        self._scores = np.sort(np.fromiter(scores, np.float64))
        self._shares, self._settled = SHARES.get(reader), settled

    def __len__(self) -> int:
        return len(self._scores)

    def p(self, entry: ParaphraseCandidate) -> float:
        """How often a different question with the item's answer comes as near."""
        above = len(self) - int(np.searchsorted(self._scores, entry.score, side="left"))
        return (FEW * self._elsewhere(entry) + above) / (FEW + len(self))

    def _elsewhere(self, entry: ParaphraseCandidate) -> float:
        if entry.similarity < self._settled[1]:
            return 1.0
        if self._shares is None:
            return _SURE if entry.similarity >= self._settled[0] else _DOUBTFUL
        texts = entry.evidence["benchmark_text"], entry.evidence["corpus_text"]
        shares = self._shares.same_frame if same_frame(*texts) else self._shares.other_words
        return max(_LEAST, float(np.interp(entry.similarity, GRID, shares)))
