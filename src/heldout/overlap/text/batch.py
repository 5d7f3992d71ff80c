"""Many texts as one array: words hashed, n-grams rolled, without a Python loop over words.

Hashes only choose what is worth a look. Whoever reports a match compares the texts themselves, so a
collision costs time and never truth.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.text.normalise import SEPARATOR, SPACE, as_codes, loose_codes, without_markup

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]

_BASE, _NEXT = 0x9E3779B97F4A7C15, np.uint64(0xD6E8FEB86659FD93)  # odd, so they have inverses


@dataclass(frozen=True, slots=True)
class WordBatch:
    """The words of many texts in one line; words of text ``t`` are ``first[t]:first[t + 1]``."""

    words: Hashes
    first: Places

    @classmethod
    def of(cls, texts: Sequence[str]) -> WordBatch:
        mark = chr(SEPARATOR)
        ready = [_composed(text) for text in texts]
        line = mark.join(ready)
        if line.count(mark) != max(0, len(texts) - 1):  # one of them holds a control character
            line = mark.join(text.replace(mark, " ") for text in ready)
        codes, alone = loose_codes(as_codes(line))
        return cls._of_codes(codes, alone, len(texts))

    @classmethod
    def _of_codes(
        cls, codes: NDArray[np.uint32], alone: NDArray[np.bool_], count: int
    ) -> WordBatch:
        inside = codes > SPACE
        before = np.append(False, inside[:-1])
        begins = inside & ~before
        if alone.any():  # a character of its own begins a word, and so does what follows it
            begins |= inside & (alone | np.append(False, alone[:-1]))
        starts = np.flatnonzero(begins)
        if not len(starts):
            return cls(np.empty(0, np.uint64), np.zeros(count + 1, np.int64))
        powers, inverses = _powers(len(codes))
        letters = np.where(inside, codes, np.uint32(0)).astype(np.uint64)
        sums = np.add.reduceat(letters * powers[: len(codes)], starts)
        words = mixed(sums * inverses[starts])
        marks = np.flatnonzero(codes == SEPARATOR)
        first = np.concatenate([[0], np.searchsorted(starts, marks), [len(starts)]])
        return cls(words, first.astype(np.int64) if count else np.zeros(1, np.int64))

    @property
    def lengths(self) -> Places:
        return np.diff(self.first)

    def keys(self) -> Hashes:
        """One hash per text of all its words in order; 0 for a text without words."""
        powers, inverses = _powers(len(self.words) + 1)
        terms = np.append(self.words * powers[: len(self.words)], np.uint64(0))
        sums = np.add.reduceat(terms, self.first[:-1]) * inverses[self.first[:-1]]
        lengths = self.lengths
        return np.where(lengths > 0, mixed(sums + lengths.astype(np.uint64)), np.uint64(0))

    def grams(self, sizes: Sequence[int]) -> Iterator[tuple[int, Hashes, Places, Places]]:
        """For every size: hashes of all runs of so many words, the text and place of each."""
        owner = np.repeat(np.arange(len(self.first) - 1), self.lengths)
        left = self.first[1:][owner] - np.arange(len(self.words))  # words to the end of the text
        rolled, power = self.words.copy(), np.uint64(1)
        with np.errstate(over="ignore"):
            for size in range(1, max(sizes, default=0) + 1):
                if size > 1:
                    power = power * _NEXT
                    rolled[: 1 - size] += self.words[size - 1 :] * power
                if size in sizes:
                    whole = np.flatnonzero(left >= size)
                    yield size, mixed(rolled[whole]), owner[whole], whole - self.first[owner[whole]]


def _composed(text: str) -> str:
    text = without_markup(text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@functools.lru_cache(maxsize=2)
def _power_table(size: int) -> tuple[Hashes, Hashes]:
    inverse = pow(_BASE, -1, 2**64)
    powers = np.cumprod(np.full(size, _BASE, np.uint64), dtype=np.uint64)
    inverses = np.cumprod(np.full(size, inverse, np.uint64), dtype=np.uint64)
    return powers, inverses


def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Powers of the base and of its inverse, modulo 2^64: a word hashes alike wherever it stands."""
    return _power_table(max(2**16, 1 << (count - 1).bit_length()))


def mixed(values: Hashes) -> Hashes:
    """Every bit of the input reaches every bit of the output (MurmurHash3's finaliser)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        return np.asarray(values ^ (values >> np.uint64(33)))


# A set of hashes that millions of others are checked against: a small bitmap first, then a search.


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
