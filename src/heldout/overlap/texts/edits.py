"""Texts a few keystrokes apart: normalised Levenshtein similarity of at least .90, none missed.

The published pass draws candidates by MinHash and confirms them by edit distance. Candidates here come
from the pigeonhole principle instead: k edits cannot touch all of k + 1 pieces, so one piece of the
benchmark's text stands in the document unchanged, at most k characters from its place. No estimate, no
pair lost. From 20 characters on, such pairs also have a Jaccard similarity of about .5 or more.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA, Levenshtein

from heldout.overlap.texts.normalise import (
    SHORT_WORDS,
    Hashes,
    HashSet,
    Places,
    WordBatch,
    as_codes,
    loose,
    mixed,
    same_numbers,
)

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
        compared = [documents[k] for k in eligible]
        lengths = np.asarray([len(text) for text in compared], np.int64)
        counts = _characters(compared)
        nears: list[Near] = []
        done: set[int] = set()
        for text, document in self._candidates(compared, lengths):
            keys = text * len(compared) + document
            keys = np.unique(keys)
            text, document = np.divmod(keys, len(compared))
            near = _may_be_near(
                counts[document], self._counts[text], lengths[document], self._lengths[text]
            )
            fresh = [key for key in keys[near].tolist() if key not in done]
            done.update(fresh)
            for key, score in zip(fresh, self._scores(fresh, compared), strict=True):
                if score >= SIMILAR:
                    which, where = divmod(key, len(compared))
                    nears.append(Near(which, eligible[where], score))
        return nears

    def _scores(self, keys: Sequence[int], compared: Sequence[str]) -> list[float]:
        ours = [self.texts[key // len(compared)] for key in keys]
        theirs = [compared[key % len(compared)] for key in keys]
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
LITTLE = frozenset(
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
NEGATIONS = frozenset({"no", "not", "non", "none", "never", "neither", "nor", "without", "except"})
_OFTEN = 1000  # characters of a pair below which it is worth remembering
_ALIGNED = 2000 * 2000  # pairs of words that are aligned
_ENDING = 3  # letters an ending may have: -s, -es, -ed, -ing
#: of the longest what two words may end on: "weekend" and "weekday" are two
_ENDINGS = frozenset(
    (
        "ing",
        "ion",
        "ied",
        "ier",
        "ies",
        "ive",
        "ity",
        "ist",
        "ism",
        "est",
        "ers",
        "ent",
        "ant",
        "ate",
        "ous",
        "tic",
    )
)


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
    if NEGATIONS.intersection(gone) != NEGATIONS.intersection(new):
        return False
    if _one_word("".join(gone), "".join(new)):  # also "x ray" for "xray"
        return True
    kept = [word for word in gone if word not in LITTLE]
    put = [word for word in new if word not in LITTLE]
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
        ends = text[shared:], other[shared:]
        if min(map(len, ends)) < _ENDING or _ENDINGS.issuperset(ends):
            return True
    swapped = text[:2] == other[1::-1]
    return (text[0] == other[0] or swapped) and OSA.distance(text, other) <= 1


def _slip(text: str, other: str) -> bool:
    """One word, or a little one of which a slip left a word that means nothing: "te" for "the"."""
    little = text in LITTLE or other in LITTLE
    short = min(len(text), len(other)) >= 2 and max(len(text), len(other)) <= 3
    return _one_word(text, other) or (little and short and OSA.distance(text, other) <= 1)


def _shared_start(text: str, other: str) -> int:
    length = 0
    for a, b in zip(text, other, strict=False):
        if a != b:
            break
        length += 1
    return length


# n-gram containment: how much of a benchmark text stands in a document, in runs of 13 words.
#
# A text of 8 to 12 words is one run of its own length and has to be there whole; a shorter one takes no
# part. A run that several benchmark texts share (an instruction, a template) weighs little, and one that
# many share nothing.


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
        for number, place in zip(which[kept].tolist(), runs.place[run[kept]].tolist(), strict=True):
            places.setdefault(number, []).append(place)
        contained = []
        for number, held in places.items():
            begin, length = _longest(sorted(held))
            doc, text = pair[:, number].tolist()
            containment = min(1.0, float(share[number]))
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
        best = max(best, (begin, length), key=lambda span: span[1])
    return best
