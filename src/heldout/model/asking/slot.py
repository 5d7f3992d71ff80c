"""Slots: one word of the question (or caption) is masked, and the model is asked which word it was.

A rewording masks the same word, so that both versions ask for the same thing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from heldout.model.asking.question import Question

MASK = "[MASK]"
_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
_SHORTEST = 4
# Words that grammar alone would give back.
_LITTLE = frozenset(
    word
    for line in (
        "what which where when whose whom there their these those this that with from into have does",
        "been being were will would could should about above below between under over than then them",
        "they your some such only also both each most more many much very seen shown image picture",
        "figure following answer question option options according depicted based given",
    )
    for word in line.split()
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")  # no blanks between words


def words_of(text: str) -> list[str]:
    """Words worth guessing, in their order, in lower case."""
    if _UNSPACED.search(text):
        return []
    found = (word.lower() for word in _WORD.findall(text))
    return list(dict.fromkeys(w for w in found if len(w) >= _SHORTEST and w not in _LITTLE))


class Rarity:
    """In how many texts of a benchmark a word stands: a word of every question tells nothing."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = Counter(word for text in texts for word in words_of(text))

    def rarest(self, text: str, other: str | None = None) -> str | None:
        """The rarest word of ``text`` that also stands in ``other``; the longer, the earlier first."""
        common = words_of(text)
        if other is not None:
            shared = set(words_of(other))
            common = [word for word in common if word in shared]
        return min(common, key=lambda word: (self._counts[word], -len(word)), default=None)


def masked(question: Question, variant: str, text: str, word: str) -> Question:
    """Every occurrence is masked, or the answer would stand beside its own gap."""
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE)
    return Question(
        question.benchmark_id,
        variant,
        pattern.sub(MASK, text),
        question.images,
        gold=word,
        kind="slot",
    )
