"""Texts a few keystrokes apart: normalised Levenshtein similarity of at least .90, none missed.

The published pass draws candidates by MinHash and confirms them by edit distance. Candidates here come
from the pigeonhole principle instead: k edits cannot touch all of k + 1 pieces, so one piece of the
benchmark's text stands in the document unchanged, at most k characters from its place. No estimate, no
pair lost. From 20 characters on, such pairs also have a Jaccard similarity of about .5 or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from heldout.overlap.text.batch import Places, mixed
from heldout.overlap.text.characters import as_codes
from heldout.overlap.text.lookup import HashSet

SIMILAR = 0.90
SHORTEST, LONGEST = 20, 2000  # characters; longer texts are a matter of n-grams
_LONG = 72  # from here on pieces are at least 8 characters long, before that 6
_BINS = 32
_PAIRS = 1_000_000  # candidates held at a time: bounds memory when every text is alike
_STEP = np.uint64(0x9E3779B97F4A7C15)


class Near(NamedTuple):
    text: int
    document: int
    similarity: float


@dataclass(frozen=True)
class _Pieces:
    """Pieces of all benchmark texts of one range of lengths, by the hash of their first characters."""

    width: int
    known: HashSet
    text: NDArray[np.int32]
    place: NDArray[np.int32]

    @classmethod
    def of(cls, width: int, texts: Sequence[str], members: Sequence[int]) -> _Pieces:
        hashes, text, place = [], [], []
        for member in members:
            length = len(texts[member])
            rolled = _rolled(as_codes(texts[member]), width)
            count = length // 9 + 1
            starts = np.arange(count) * length // count
            hashes.append(rolled[starts])
            text.append(np.full(count, member, np.int32))
            place.append(starts.astype(np.int32))
        return cls(
            width, HashSet(np.concatenate(hashes)), np.concatenate(text), np.concatenate(place)
        )


class EditIndex:
    """``texts`` in the profile they are compared in; very short and very long ones take no part."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self._lengths = np.asarray([len(text) for text in texts], np.int64)
        self._counts = _characters(self.texts)
        self._pieces = []
        for width, low, high in ((6, SHORTEST, _LONG), (8, _LONG, LONGEST + 1)):
            members = np.flatnonzero((self._lengths >= low) & (self._lengths < high)).tolist()
            if members:
                self._pieces.append(_Pieces.of(width, self.texts, members))
        able = self._lengths[(self._lengths >= SHORTEST) & (self._lengths <= LONGEST)]
        self.shortest = int(able.min() * SIMILAR) if len(able) else 0
        self.longest = int(able.max() / SIMILAR) if len(able) else -1

    def find(self, documents: Sequence[str]) -> list[Near]:
        """Every pair at or above ``SIMILAR``."""
        eligible = [k for k, d in enumerate(documents) if self.shortest <= len(d) <= self.longest]
        if not eligible:
            return []
        chosen = [documents[k] for k in eligible]
        lengths = np.asarray([len(text) for text in chosen], np.int64)
        counts = _characters(chosen)
        found: list[Near] = []
        done: set[int] = set()
        for text, document in self._candidates(chosen, lengths):
            keys = text * len(chosen) + document
            keys = np.unique(keys)
            text, document = np.divmod(keys, len(chosen))
            near = _may_be_near(
                counts[document], self._counts[text], lengths[document], self._lengths[text]
            )
            fresh = [key for key in keys[near].tolist() if key not in done]
            done.update(fresh)
            for key, score in zip(fresh, self._scores(fresh, chosen), strict=True):
                if score >= SIMILAR:
                    which, where = divmod(key, len(chosen))
                    found.append(Near(which, eligible[where], score))
        return found

    def _scores(self, keys: Sequence[int], chosen: Sequence[str]) -> list[float]:
        ours = [self.texts[key // len(chosen)] for key in keys]
        theirs = [chosen[key % len(chosen)] for key in keys]
        scores = process.cpdist(
            ours,
            theirs,
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=SIMILAR,
            dtype=np.float64,
        )
        return [float(score) for score in scores]

    def _candidates(
        self, documents: Sequence[str], lengths: Places
    ) -> Iterator[tuple[Places, Places]]:
        codes = as_codes("".join(documents))
        first = np.cumsum(lengths) - lengths
        owner = np.repeat(np.arange(len(documents)), lengths)
        place = np.arange(len(codes)) - first[owner]
        for pieces in self._pieces:
            inside = np.flatnonzero(place <= lengths[owner] - pieces.width)
            hashes = _rolled(codes, pieces.width)[inside]
            for here, piece in pieces.known.find_in_parts(hashes, _PAIRS):
                at = inside[here]
                text, document = pieces.text[piece].astype(np.int64), owner[at]
                ours, theirs = self._lengths[text], lengths[document]
                most = np.maximum(ours, theirs) // 10
                fits = np.abs(ours - theirs) <= most
                fits &= np.abs(place[at] - pieces.place[piece]) <= most
                yield text[fits], document[fits]


def _rolled(codes: NDArray[np.uint32], width: int) -> NDArray[np.uint64]:
    """A hash of the ``width`` characters from every place on; the last places see what is left."""
    rolled = codes.astype(np.uint64)
    total, power = rolled.copy(), np.uint64(1)
    with np.errstate(over="ignore"):
        for step in range(1, width):
            power = power * _STEP
            total[:-step] += rolled[step:] * power
    return mixed(total)


def _characters(texts: Sequence[str]) -> NDArray[np.int16]:
    """How often each of 32 kinds of characters occurs in each text."""
    lengths = np.asarray([len(text) for text in texts], np.int64)
    codes = as_codes("".join(texts))
    owner = np.repeat(np.arange(len(texts)), lengths)
    counts = np.bincount(owner * _BINS + codes % _BINS, minlength=len(texts) * _BINS)
    return np.minimum(counts, 2**14).astype(np.int16).reshape(len(texts), _BINS)


def _may_be_near(
    one: NDArray[np.int16], other: NDArray[np.int16], length: Places, other_length: Places
) -> NDArray[np.bool_]:
    """False only where the characters alone need too many edits, in whatever order they stand."""
    apart = np.abs(one - other).sum(axis=1, dtype=np.int64) + np.abs(length - other_length)
    return np.asarray(apart // 2 <= np.maximum(length, other_length) // 10)
