"""Right or wrong, strictly: whole answers are compared, never parts of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heldout.benchmark.normal import normal

_LETTER = re.compile(r"\(?([A-Ja-j])(?:\)|[.:]|\s*$)\)?[.:]?\s*(.*)", re.DOTALL)


def is_correct(prediction: str, answer: str, options: Sequence[str] = ()) -> bool:
    """Equal after case, spacing and closing punctuation; among options also by letter.

    "no" in "not sure" is not an answer, and neither is one right option among several.
    """
    if normal(prediction) == normal(answer):
        return True
    chosen, right = _position(prediction, options), _position(answer, options)
    return chosen is not None and chosen == right


def _position(text: str, options: Sequence[str]) -> int | None:
    """The option a text means: its words, its letter, or 'B. its words'."""
    folded = [normal(option) for option in options]
    if normal(text) in folded:
        return folded.index(normal(text))
    match = _LETTER.fullmatch(text.strip())
    if match is None:
        return None
    index = ord(match[1].upper()) - ord("A")
    if index >= len(options) or (match[2].strip() and normal(match[2]) != folded[index]):
        return None
    return index
