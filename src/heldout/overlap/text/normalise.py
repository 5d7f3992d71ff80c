"""One text under three profiles: strict (as people read it), published, and loose (its words alone).

*Published* is what Appendix F of the protocol prescribes: lower case, white space, every number as
``<NUM>``, options as ``A. …``. It makes "T1" and "T2" one text, and so does *loose*; whoever finds
two texts equal there asks ``same_numbers`` before calling them identical.
"""

from __future__ import annotations

import functools
import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

# The loose profile, character by character, as one table lookup over an array of many texts.


Codes = NDArray[np.uint32]

SEPARATOR = 0x1E  # between texts that are read together
SPACE, NUMBER = 0x20, 0x30  # every number reads as one "0"
_GONE, _UNKNOWN, _LONGER = 0, 0xFFFFFFFF, 0xFFFFFFFE
_ALONE = 0x200000  # added to a character that is a word of its own, in scripts without spaces
_TABLE = np.full(0x110000, _UNKNOWN, np.uint32)
_EXPANDED: dict[int, Codes] = {}  # characters that become several: ﬁ, ½, ß


def loose_codes(codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
    """Characters in the loose profile, and which of them are words of their own."""
    found = _TABLE[codes]
    if found.size and found.max() >= _LONGER:
        for code in np.unique(codes[found == _UNKNOWN]):
            _TABLE[code] = _look_up(int(code))
        found = _TABLE[codes]
        if (found == _LONGER).any():
            found = _expand(codes, found)
    found = found[found != _GONE]
    number = found == NUMBER
    found = found[~(number & np.append(False, number[:-1]))]
    alone = found >= _ALONE
    return np.where(alone, found - np.uint32(_ALONE), found), alone


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


def _expand(codes: Codes, found: Codes) -> Codes:
    places = np.flatnonzero(found == _LONGER)
    pieces, last = [], 0
    for place in places.tolist():
        pieces += [found[last:place], _EXPANDED[int(codes[place])]]
        last = place + 1
    return np.concatenate([*pieces, found[last:]])


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


Profile = Literal["strict", "published", "loose"]
PROFILES: tuple[Profile, ...] = ("strict", "published", "loose")

# A tag opens with a letter and is short: "p < 0.05 and q > 2" is text, whatever a browser thinks.
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>|<!--[^<>]{0,300}-->")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
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
class Rarity:
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
