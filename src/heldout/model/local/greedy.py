"""The likeliest token, again and again, after a prefix that was read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heldout.model.local.passes import Passes, Prefix
from heldout.model.local.rows import Features, Row


@dataclass(frozen=True)
class Said:
    """``stopped``: the model ended the reply itself. ``first``: the logits of the first token."""

    tokens: tuple[int, ...]
    stopped: bool
    first: Any


class Greedy:
    """Plain arg max: no sampling, and none of the penalties a checkpoint's generation settings may ask."""

    def __init__(self, passes: Passes, tokenizer: Any, most: int) -> None:
        self._passes = passes
        self._tokenizer = tokenizer
        self._most = most
        self._stops = frozenset(passes.stops) or frozenset({tokenizer.eos_token_id})

    def after(self, prefix: Prefix, rests: Sequence[Sequence[int]]) -> list[Said]:
        """What follows each of ``rests``, which are of one length, after ``prefix``."""
        cache, place = self._passes.spread(prefix, len(rests)), prefix.length
        logits = self._passes.step(cache, rests, place, prefix.shift)
        first = logits
        place += len(rests[0])
        said: list[list[int]] = [[] for _ in rests]
        going = set(range(len(rests)))
        for count in range(self._most):
            chosen = self._passes.likeliest(logits)
            for number in list(going):
                if chosen[number] in self._stops:
                    going.discard(number)
                else:
                    said[number].append(chosen[number])
            if not going or count + 1 == self._most:
                break
            # Those that have ended are carried along unread: rows of a batch do not see each other.
            logits = self._passes.step(cache, [[token] for token in chosen], place, prefix.shift)
            place += 1
        return [
            Said(tuple(tokens), number not in going, first[number])
            for number, tokens in enumerate(said)
        ]

    def whole(self, row: Row, features: Features) -> Said:
        """From the row's beginning, for families whose prompt cannot be read in two parts."""
        tokens, first = self._passes.generate(row, features, self._most)
        ended = next((n for n, token in enumerate(tokens) if token in self._stops), None)
        return Said(tuple(tokens[:ended]), ended is not None, first)

    def letters(self, said: Said, count: int) -> tuple[float, ...]:
        """Log-probability that the reply opens with each letter, with or without a blank before it."""
        chances = self._passes.logprobs(said.first).astype(np.float64)
        found = []
        for number in range(count):
            letter = chr(ord("A") + number)
            spelled = [self._tokenizer(w, add_special_tokens=False)["input_ids"]
                       for w in (letter, f" {letter}")]  # fmt: skip
            tokens = sorted({ids[0] for ids in spelled if len(ids) == 1})
            found.append(float(np.logaddexp.reduce(chances[tokens])) if tokens else float("-inf"))
        return tuple(found)
