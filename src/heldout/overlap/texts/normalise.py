"""One text under three profiles: strict (as people read it), published, and loose (its words alone).

*Published* is what Appendix F of the protocol prescribes: lower case, white space, every number as
``<NUM>``, options as ``A. …``. It makes "T1" and "T2" one text, and so does *loose*; whoever finds
two texts equal there asks ``same_numbers`` before calling them identical.
"""

from __future__ import annotations

import functools
import html
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

# The loose profile, character by character, as one table lookup over an array of many texts.


Codes = NDArray[np.uint32]

SEPARATOR = 0x1E  # between texts that are read together
SPACE, NUMBER = 0x20, 0x30  # every number reads as one "0"
NUMBER_WORD = chr(NUMBER)
_GONE, _UNKNOWN, _LONGER = 0, 0xFFFFFFFF, 0xFFFFFFFE
_ALONE = 0x200000  # added to a character that is a word of its own, in scripts without spaces
_TABLE = np.full(0x110000, _UNKNOWN, np.uint32)
_EXPANDED: dict[int, Codes] = {}  # characters that become several: ﬁ, ½, ß


def loose_codes(codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
    """Characters in the loose profile, and which of them are words of their own."""
    mapped = _TABLE[codes]
    if mapped.size and mapped.max() >= _LONGER:
        for code in np.unique(codes[mapped == _UNKNOWN]):
            _TABLE[code] = _look_up(int(code))
        mapped = _TABLE[codes]
        if (mapped == _LONGER).any():
            mapped = _expand(codes, mapped)
    mapped = mapped[mapped != _GONE]
    number = mapped == NUMBER
    mapped = mapped[~(number & np.append(False, number[:-1]))]
    alone = mapped >= _ALONE
    return np.where(alone, mapped - np.uint32(_ALONE), mapped), alone


def loose_line(text: str) -> str:
    """One text in the loose profile, words apart by single spaces."""
    codes, alone = loose_codes(as_codes(text))
    characters = codes.astype("<u4").tobytes().decode("utf-32-le")
    if alone.any():
        characters = "".join(
            f" {c} " if own else c for c, own in zip(characters, alone, strict=True)
        )
    return " ".join(characters.split())


def as_codes(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "replace"), "<u4").astype(np.uint32, copy=False)


def _look_up(code: int) -> int:
    if code == SEPARATOR:
        return SEPARATOR
    if chr(code).isspace():
        return SPACE
    folded = unicodedata.normalize("NFKC", chr(code).casefold()).casefold()
    parts = [_single(character) for character in folded]
    if len(parts) == 1:
        return parts[0]
    _EXPANDED[code] = np.asarray(parts or [_GONE], np.uint32)
    return _LONGER


def _single(character: str) -> int:
    kind = unicodedata.category(character)
    if kind == "Nd":
        return NUMBER
    if kind in ("Cc", "Cf", "Cs", "Co"):  # invisible: a zero width inside a word parts nothing
        return _GONE
    if kind[0] in "PSZC":
        return SPACE
    return ord(character) + (_ALONE if spaceless(ord(character)) else 0)


def _expand(codes: Codes, mapped: Codes) -> Codes:
    places = np.flatnonzero(mapped == _LONGER)
    pieces, last = [], 0
    for place in places.tolist():
        pieces += [mapped[last:place], _EXPANDED[int(codes[place])]]
        last = place + 1
    return np.concatenate([*pieces, mapped[last:]])


def spaceless(code: int) -> bool:
    """True for scripts without spaces: Han, kana, Thai, Lao, Tibetan, Burmese, Khmer."""
    return (
        0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0EFF
        or 0x0F00 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
    )


def in_latin(text: str) -> bool:
    """True where most letters are Latin ones, or there are none: what an English encoder can read."""
    if text.isascii():
        return True
    letters = [ord(character) for character in text if character.isalpha()]
    return 2 * sum(code < 0x250 or 0x1E00 <= code < 0x1F00 for code in letters) >= len(letters)


Profile = Literal["strict", "published", "loose"]
PROFILES: tuple[Profile, ...] = ("strict", "published", "loose")

# A tag opens with a letter and is short: "p < 0.05 and q > 2" is text, whatever a browser thinks.
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>|<!--[^<>]{0,300}-->")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_FIGURES = re.compile(r"\d+")
_OFTEN = 500  # characters below which a text is worth remembering
_LETTER = re.compile(r"\s*\(?([A-Za-z])\s*[.):]\s+")


class _Visible(dict[int, str | None]):
    """Control and formatting characters (bidirectional marks, zero widths) are not text."""

    def __missing__(self, code: int) -> str | None:
        character: str | None = chr(code)
        if chr(code).isspace():
            character = " "
        elif unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co"):
            character = None
        self[code] = character  # str.translate asks once for every character there is
        return character


_VISIBLE = _Visible()


def strict(text: str | None) -> str:
    """Tags, entities, control characters and spacing removed; letters, case and numbers stay."""
    if not text:
        return ""
    text = without_markup(text)
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", text.translate(_VISIBLE))
    return " ".join(text.split())


def without_markup(text: str) -> str:
    if "<" in text:
        text = _TAG.sub(" ", text)
    return html.unescape(text) if "&" in text else text


def published(text: str | None) -> str:
    return mask(strict(text))


def mask(clean: str) -> str:
    """The published profile of a text that is ``strict`` already."""
    return _DIGITS.sub("<NUM>", clean.lower())


def loose(text: str | None) -> str:
    """The words alone: no case, no punctuation, every number alike, full-width letters folded."""
    if text and len(text) < _OFTEN:
        return _loose_often(text)
    return loose_line(strict(text))


@functools.lru_cache(maxsize=2**14)
def _loose_often(text: str) -> str:
    """Short texts come again and again: templates are asked of thousands of pictures."""
    return loose_line(strict(text))


def profiled(text: str | None, profile: Profile) -> str:
    return {"strict": strict, "published": published, "loose": loose}[profile](text)


def same_numbers(text: str, other: str) -> bool:
    """Do both texts name the same numbers in the same order? "T1" and "T2" do not."""
    return numbers(text) == numbers(other)


def numbers(text: str) -> tuple[str, ...]:
    return tuple(_DIGITS.findall(without_markup(text)))


def figures(text: str) -> tuple[str, ...]:
    """What stands in a text where ``loose`` reads numbers, in that order: "1,250" are two."""
    return tuple(_FIGURES.findall(unicodedata.normalize("NFKC", strict(text))))


def options_text(options: Sequence[str]) -> str:
    """Options as ``A. … B. …``, whatever letters they came with."""
    return " ".join(f"{letter(k)}. {option}" for k, option in enumerate(bare_options(options)))


def options_key(options: Sequence[str]) -> str:
    """The same for every order of the same options."""
    return " | ".join(sorted(strict(option).casefold() for option in bare_options(options)))


def bare_options(options: Sequence[str]) -> list[str]:
    """Options without the letters they came with; "A. fib" loses nothing where others have none."""
    clean = [strict(option) for option in options]
    matches = [_LETTER.match(option) for option in clean]
    if all(m is not None and m[1].upper() == letter(k) for k, m in enumerate(matches)):
        return [
            option[m.end() :] for option, m in zip(clean, matches, strict=True) if m is not None
        ]
    return clean


def letter(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else str(position + 1)


# How much a text says by itself: words that few texts use say much, "is there a" says nothing.


SHORT_WORDS = 8  # fewer words than this never identify an item by themselves
SHORT_BITS = 40.0  # nor does a text whose words are all common
_FEW = 1000  # with fewer texts than this nobody knows how rare an unseen word is


@dataclass
class TextRarity:
    """Document frequencies of words in the benchmark and in whatever sample of the corpus there is."""

    texts: int = 0
    with_word: Counter[str] = field(default_factory=Counter)

    def learn(self, loose_texts: Iterable[str]) -> None:
        for text in loose_texts:
            self.texts += 1
            self.with_word.update(set(text.split()))

    def bits(self, loose_text: str) -> float:
        """Information of the distinct words, as if they were independent: an upper bound."""
        total = max(self.texts, _FEW) + 1
        return sum(
            math.log2(total / (self.with_word.get(word, 0) + 1)) for word in set(loose_text.split())
        )

    def short(self, loose_text: str) -> bool:
        return len(loose_text.split()) < SHORT_WORDS or self.bits(loose_text) < SHORT_BITS


# What the whole corpus says about a question, once every shard is read: is it asked of everything?


OTHERWISE = 2  # corpus items that answer a question otherwise, from which on it is a common one


def common_questions(queries: pl.DataFrame) -> pl.DataFrame:
    """(benchmark_id, corpus) of items whose exact question the corpus answers otherwise, and more often.

    A copy of the item gives its own answer. A question that the corpus answers "yes" here and "no"
    there is asked of many pictures, and finding it says nothing about this one.
    """
    exact = queries.filter(pl.col("method") == "exact")
    counted = exact.group_by("benchmark_id", "corpus", maintain_order=True).agg(
        pl.col("same_answer").sum(), pl.col("other_answer").sum()
    )
    other = pl.col("other_answer")
    common = (other >= OTHERWISE) & (other > pl.col("same_answer"))
    return counted.filter(common).select("benchmark_id", "corpus")


def settle_degrees(matches: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """``matches`` of all shards, those on a common question lowered to degree none.

    Ids say where an item comes from, whatever is asked about it: they keep their degree.
    """
    common = common_questions(queries).with_columns(pl.lit(True).alias("common"))
    joined = matches.join(common, on=["benchmark_id", "corpus"], how="left", maintain_order="left")
    lowered = pl.col("common").fill_null(False) & (pl.col("method") != "provenance")
    degree = pl.when(lowered).then(pl.lit("none")).otherwise(pl.col("degree"))
    return joined.with_columns(degree.alias("degree")).drop("common")


# Many texts as one array: words hashed, n-grams rolled, without a Python loop over words.
#
# Hashes only choose what is worth a look. Whoever reports a match compares the texts themselves, so a
# collision costs time and never truth.


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
    # As in ``strict``: what cannot be seen must not keep an accent from its letter.
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_VISIBLE))


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
