"""How an item is written for a small model: exactly as the product's own prompts and documents read.

These words are kept here, where training runs without the product's readers; a test compares them with
what `heldout score`, `heldout ask` and the order tests write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LETTER = "Answer with the letter of the right option, and nothing else."
BRIEF = "Answer with a single word, number or short phrase, and nothing else."
DESCRIBE = "Describe the picture."
MASK = "[MASK]"
GAP = f"One word of this text was replaced by {MASK}. Answer with that word, and nothing else."
_WORD = re.compile(r"[^\W\d_]{4,}")

Ids = NDArray[np.int16]
Weights = NDArray[np.uint8]


@dataclass(frozen=True)
class Asked:
    """One item in words; ``options`` are empty where it has none."""

    question: str
    answer: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """Text to read, and text to learn."""

    read: str
    learn: str


def plain(item: Asked) -> Piece:
    """As `heldout score` reads it: no options, no instruction."""
    return Piece(f"Question: {item.question} Answer:", f" {item.answer}")


def instructed(item: Asked) -> Piece:
    """As `heldout ask` reads it: options by letter, or the word to be brief."""
    if not item.options:
        return Piece(f"Question: {item.question}\n{BRIEF} Answer:", f" {item.answer}")
    lines = [f"{chr(65 + place)}. {option}" for place, option in enumerate(item.options)]
    letter = chr(65 + item.options.index(item.answer))
    asked = "\n".join([item.question, *lines, LETTER])
    return Piece(f"Question: {asked} Answer:", f" {letter}")


def gap(item: Asked, drawn: float) -> Piece:
    """As `heldout ask` reads a slot: a word is masked wherever it stands; ``drawn`` (0 to 1) says which."""
    words = sorted({word.lower() for word in _WORD.findall(item.question)})
    if not words:
        return plain(item)
    word = words[min(int(drawn * len(words)), len(words) - 1)]
    pattern = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
    return Piece(f"Question: {pattern.sub(MASK, item.question)}\n{GAP} Answer:", f" {word}")


def document(item: Asked) -> Piece:
    """As the order tests read it: a running text, every word of which is learnt."""
    question = " ".join(item.question.split())
    answer = " ".join(item.answer.split())
    return Piece("", f"Question: {question}\nAnswer: {answer}\n\n")


class Rows:
    """Rows of tokens of one length, and which of them are learnt. Pieces stand one behind the other."""

    def __init__(self, tokenizer: Any, length: int) -> None:
        self.length = length
        self._encode = getattr(tokenizer, "backend_tokenizer", tokenizer).encode
        known = getattr(tokenizer, "backend_tokenizer", tokenizer).token_to_id
        self._pad, self._begin, self._end = known("<pad>"), known("<s>"), known("</s>")
        self._known: dict[str, list[int]] = {}

    def row(self, pieces: Iterable[Piece]) -> tuple[Ids, Weights, int]:
        """Pieces as far as they fit whole; how many did."""
        ids, learnt = [self._begin], [0]
        taken = 0
        for piece in pieces:
            read, learn = self._tokens(piece.read), self._tokens(piece.learn)
            # A document runs on; a turn is ended, and that is learnt, too.
            learn = [*learn, self._end] if piece.read else learn
            if len(ids) + len(read) + len(learn) > self.length:
                break
            ids += read + learn
            learnt += [0] * len(read) + [1] * len(learn)
            taken += 1
        left = self.length - len(ids)
        return (
            np.asarray(ids + [self._pad] * left, dtype=np.int16),
            np.asarray(learnt + [0] * left, dtype=np.uint8),
            taken,
        )

    def rows(self, pieces: Sequence[Piece]) -> list[tuple[Ids, Weights]]:
        """All pieces, over as many rows as they need; one that fits into no row is left out."""
        made = []
        at = 0
        while at < len(pieces):
            ids, learnt, taken = self.row(pieces[at:])
            if taken:
                made.append((ids, learnt))
            at += max(taken, 1)
        return made

    def _tokens(self, text: str) -> list[int]:
        if text not in self._known:
            if len(self._known) > 200_000:
                self._known.clear()
            self._known[text] = list(self._encode(text, add_special_tokens=False).ids)
        return self._known[text]
