"""How much a text says by itself: words that few texts use say much, "is there a" says nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

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
