"""Text compared as people read it: case, spacing and closing punctuation make no difference."""

from __future__ import annotations

import unicodedata

_SAME = str.maketrans(
    {"−": "-", "‐": "-", "‑": "-", "–": "-", "’": "'", "‘": "'", "“": '"', "”": '"'}
)
_CLOSING = " .?!。？！"


def normal(text: str | None) -> str:
    """Two texts with the same ``normal`` are one. Compatibility folding is for full-width letters

    alone: NFKC of everything would make 10² into 102.
    """
    if not text:
        return ""
    composed = unicodedata.normalize("NFC", text).translate(_SAME)
    if not composed.isascii():
        composed = "".join(
            unicodedata.normalize("NFKC", c) if unicodedata.east_asian_width(c) in "FH" else c
            for c in composed
        )
    folded = " ".join(composed.casefold().split())
    return folded.rstrip(_CLOSING) or folded  # "?" stays a question mark
