"""n-gram containment: how much of a benchmark text stands in a document, in runs of 13 words.

A text of 8 to 12 words is one run of its own length and has to be there whole; a shorter one takes no
part. A run that several benchmark texts share (an instruction, a template) weighs little, and one that
many share nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.text.batch import Hashes, HashSet, Places, WordBatch
from heldout.overlap.text.normalise import SHORT_WORDS

RUN = 13
CONTAINED = 0.5  # of the weight of all runs of a text
_BOILERPLATE = 20  # texts that share a run, from which on it identifies none of them


class Contained(NamedTuple):
    text: int  # of the benchmark's texts
    document: int
    containment: float  # share of the text's weight that stands in the document
    runs: int
    of: int
    size: int  # words in a run
    place: int  # word of the text at which the longest matching stretch begins
    words: int  # length of that stretch


@dataclass(frozen=True)
class _Runs:
    """All runs of one size: where they come from, and what they weigh."""

    known: HashSet
    text: Places
    place: Places
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, hashes: Hashes, text: Places, place: Places) -> _Runs:
        _, which = np.unique(hashes, return_inverse=True)
        # One vote per text, and its first place: a run repeated inside one text is no template, and
        # a text of one word a hundred thousand times has one run.
        once, first = np.unique(np.stack([which, text]), axis=1, return_index=True)
        votes = np.bincount(once[0])[which]
        kept = np.sort(first[votes[first] < _BOILERPLATE])
        return cls(HashSet(hashes[kept]), text[kept], place[kept], 1.0 / votes[kept])


class NgramIndex:
    def __init__(self, texts: Sequence[str]) -> None:
        batch = WordBatch.of(texts)
        sizes = np.minimum(batch.lengths, RUN)
        self._by_size: dict[int, _Runs] = {}
        self._total = np.zeros(len(texts))
        self._count = np.zeros(len(texts), np.int64)
        for size, hashes, text, place in batch.grams(range(SHORT_WORDS, RUN + 1)):
            own = np.flatnonzero(sizes[text] == size)
            runs = _Runs.of(hashes[own], text[own], place[own])
            if len(runs.text):
                self._by_size[size] = runs
                np.add.at(self._total, runs.text, runs.weight)
                np.add.at(self._count, runs.text, 1)

    def find(self, batch: WordBatch) -> list[Contained]:
        """Benchmark texts of which documents of the batch hold at least half, by hash alone."""
        contained: list[Contained] = []
        for size, hashes, document, _ in batch.grams(sorted(self._by_size)):
            runs = self._by_size[size]
            here, run = runs.known.find(hashes)
            if len(here):
                contained += self._judge(size, runs, document[here], run)
        return contained

    def _judge(self, size: int, runs: _Runs, document: Places, run: Places) -> list[Contained]:
        # A run of the text counts once per document, however often the document repeats it.
        document, run = np.unique(np.stack([document, run]), axis=1)
        pair, which = np.unique(np.stack([document, runs.text[run]]), axis=1, return_inverse=True)
        share = np.bincount(which, weights=runs.weight[run]) / self._total[pair[1]]
        enough = share >= CONTAINED - 1e-9
        kept = enough[which]
        places: dict[int, list[int]] = {}
        for one, place in zip(which[kept].tolist(), runs.place[run[kept]].tolist(), strict=True):
            places.setdefault(one, []).append(place)
        contained = []
        for one, held in places.items():
            begin, length = _longest(sorted(held))
            doc, text = pair[:, one].tolist()
            containment = min(1.0, float(share[one]))
            count = int(self._count[text])
            words = length + size - 1
            contained.append(
                Contained(text, doc, containment, len(held), count, size, begin, words)
            )
        return contained


def _longest(places: Sequence[int]) -> tuple[int, int]:
    """The longest stretch of consecutive numbers: where it begins, how long it is."""
    begin, length = places[0], 1
    best = (begin, length)
    for before, now in itertools.pairwise(places):
        begin, length = (begin, length + 1) if now == before + 1 else (now, 1)
        best = max(best, (begin, length), key=lambda one: one[1])
    return best
