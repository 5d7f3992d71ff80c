"""The loose profile, character by character, as one table lookup over an array of many texts."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

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
        0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF or 0x0E00 <= code <= 0x0EFF or 0x0F00 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
    )  # fmt: skip
