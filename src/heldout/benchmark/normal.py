"""Text compared as people read it: case, spacing and closing punctuation do not make a difference."""

from __future__ import annotations

import unicodedata


def normal(text: str | None) -> str:
    if not text:
        return ""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(" .?!。？！")
