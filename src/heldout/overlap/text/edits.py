"""Texts a few keystrokes apart: normalised Levenshtein similarity of at least .90, none missed.

The published pass draws candidates by MinHash and confirms them by edit distance. Candidates here come
from the pigeonhole principle instead: k edits cannot touch all of k + 1 pieces, so one piece of the
benchmark's text stands in the document unchanged, at most k characters from its place. No estimate, no
pair lost. From 20 characters on, such pairs also have a Jaccard similarity of about .5 or more.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA, Levenshtein

from heldout.overlap.text.batch import HashSet, Places, mixed
from heldout.overlap.text.normalise import as_codes, loose, same_numbers

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
        nears: list[Near] = []
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
                    nears.append(Near(which, eligible[where], score))
        return nears

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
    array: NDArray[np.int16], other: NDArray[np.int16], length: Places, other_length: Places
) -> NDArray[np.bool_]:
    """False only where the characters alone need too many edits, in whatever order they stand."""
    apart = np.abs(array - other).sum(axis=1, dtype=np.int64) + np.abs(length - other_length)
    return np.asarray(apart // 2 <= np.maximum(length, other_length) // 10)


# Two nearly equal texts: the same question edited, or the same template about another subject.
#
# "Is there a fracture of the left femur?" and "… right femur?" are 93 % the same characters and two
# different questions. What differs decides: a slip of the pen and an ending are edits; a word for
# another one, a number, a "not" is another question.


SAME, EDITED, RENUMBERED, OTHER = (
    "same wording",
    "edited",
    "renumbered",
    "same template, other subject",
)
# Words that come and go without changing what is asked. "no", "not", "without" are not among them.
_LITTLE = frozenset(
    {
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "from",
        "by",
        "with",
        "and",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "there",
        "here",
        "it",
        "its",
        "any",
        "do",
        "does",
        "did",
        "can",
        "could",
        "please",
        "what",
        "which",
        "shown",
        "seen",
        "see",
        "image",
        "picture",
        "question",
        "answer",
        "following",
        "given",
        "their",
        "s",
    }
)
_NEGATIONS = frozenset({"no", "not", "non", "none", "never", "neither", "nor", "without", "except"})
_OFTEN = 1000  # characters of a pair below which it is worth remembering
_ALIGNED = 2000 * 2000  # pairs of words that are aligned
_ENDING = 3  # letters an ending may have: -s, -es, -ed, -ing


def compare_wording(text: str, other: str) -> str:
    """One of SAME, EDITED, RENUMBERED, OTHER."""
    if len(text) + len(other) < _OFTEN:
        return _remembered(text, other)
    return _compare(text, other)


@functools.lru_cache(maxsize=2**14)
def _remembered(text: str, other: str) -> str:
    return _compare(text, other)


def _compare(text: str, other: str) -> str:
    if text == other:
        return SAME
    ours, theirs = loose(text).split(), loose(other).split()
    if ours == theirs:
        return SAME if same_numbers(text, other) else RENUMBERED
    if not same_words(ours, theirs):
        return OTHER
    return EDITED if same_numbers(text, other) else RENUMBERED


def same_words(ours: Sequence[str], theirs: Sequence[str], *, open_ended: bool = False) -> bool:
    """Are all differences harmless? ``open_ended``: what ``theirs`` has before and after is none."""
    if len(ours) * len(theirs) > _ALIGNED:
        # An alignment needs memory for every pair of words: pages are one text or another.
        inside = open_ended and f" {' '.join(ours)} " in f" {' '.join(theirs)} "
        return inside or list(ours) == list(theirs)
    blocks: list[tuple[list[str], list[str]]] = []
    joined = False  # neighbouring edits are one block: "in the" for "inthe" is a change and a loss
    for step in Levenshtein.opcodes(ours, theirs):
        gone, new = ours[step.src_start : step.src_end], theirs[step.dest_start : step.dest_end]
        outside = step.src_start == step.src_end and step.src_end in (0, len(ours))
        if step.tag == "equal" or (open_ended and outside):
            joined = False
            continue
        if joined:
            blocks[-1][0].extend(gone)
            blocks[-1][1].extend(new)
        else:
            blocks.append((list(gone), list(new)))
        joined = True
    return all(_harmless(gone, new) for gone, new in blocks)


def _harmless(gone: list[str], new: list[str]) -> bool:
    if _NEGATIONS.intersection(gone) != _NEGATIONS.intersection(new):
        return False
    if _one_word("".join(gone), "".join(new)):  # also "x ray" for "xray"
        return True
    kept = [word for word in gone if word not in _LITTLE]
    put = [word for word in new if word not in _LITTLE]
    if len(kept) == len(put):
        return all(_one_word(a, b) for a, b in zip(kept, put, strict=True))
    return len(gone) == len(new) and all(_slip(a, b) for a, b in zip(gone, new, strict=True))


def _one_word(text: str, other: str) -> bool:
    """An ending apart, or one slip after the first letter: "asymptomatic" is not "symptomatic"."""
    if text == other:
        return True
    if min(len(text), len(other)) < 4:
        return False
    shared = _shared_start(text, other)
    if shared >= 4 and max(len(text), len(other)) - shared <= _ENDING:
        return True
    swapped = text[:2] == other[1::-1]
    return (text[0] == other[0] or swapped) and OSA.distance(text, other) <= 1


def _slip(text: str, other: str) -> bool:
    """One word, or a little one of which a slip left a word that means nothing: "te" for "the"."""
    little = text in _LITTLE or other in _LITTLE
    short = min(len(text), len(other)) >= 2 and max(len(text), len(other)) <= 3
    return _one_word(text, other) or (little and short and OSA.distance(text, other) <= 1)


def _shared_start(text: str, other: str) -> int:
    length = 0
    for a, b in zip(text, other, strict=False):
        if a != b:
            break
        length += 1
    return length
