"""The likeliest token, again and again, after a prefix that was read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heldout.model.local.forward import Forward, Prefix
from heldout.model.local.rows import Features, Row


@dataclass(frozen=True)
class Said:
    """``stopped``: the model ended the reply itself. ``first``: log-probabilities of the first token."""

    tokens: tuple[int, ...]
    stopped: bool
    first: Any


class Greedy:
    """Plain arg max: no sampling, and none of the penalties a checkpoint's generation settings may ask."""

    def __init__(self, forward: Forward, tokenizer: Any, most: int) -> None:
        self._forward = forward
        self._tokenizer = tokenizer
        self._most = most
        self._stops = frozenset(forward.stops) or frozenset({tokenizer.eos_token_id})

    def after(self, prefix: Prefix, rests: Sequence[Sequence[int]]) -> list[Said]:
        """What follows each of ``rests``, which are of one length, after ``prefix``."""
        import torch

        cache, place = self._forward.spread(prefix, len(rests)), prefix.length
        logits = self._forward.step(cache, rests, place, prefix.shift)
        first = logits.float().log_softmax(-1)
        place += len(rests[0])
        said: list[list[int]] = [[] for _ in rests]
        going = set(range(len(rests)))
        for count in range(self._most):
            chosen = torch.argmax(logits, -1).tolist()
            for number in list(going):
                if chosen[number] in self._stops:
                    going.discard(number)
                else:
                    said[number].append(chosen[number])
            if not going or count + 1 == self._most:
                break
            # Those that have ended are carried along unread: rows of a batch do not see each other.
            logits = self._forward.step(cache, [[token] for token in chosen], place, prefix.shift)
            place += 1
        return [
            Said(tuple(tokens), number not in going, first[number])
            for number, tokens in enumerate(said)
        ]

    def whole(self, row: Row, features: Features) -> Said:
        """By the model's own generation, for families whose prompt cannot be read in two parts."""
        given = self._forward.generate(row, features, self._most)
        # Some families repeat the prompt, or a token to begin with, before what they wrote.
        tokens = given.sequences[0].tolist()[-len(given.logits) :]
        ended = next((n for n, token in enumerate(tokens) if token in self._stops), None)
        if ended is not None:
            tokens = tokens[:ended]
        first = given.logits[0][0].float().log_softmax(-1)
        return Said(tuple(tokens), ended is not None, first)

    def letters(self, said: Said, count: int) -> tuple[float, ...]:
        """Log-probability that the reply opens with each letter, with or without a blank before it."""
        found = []
        for number in range(count):
            letter = chr(ord("A") + number)
            spelled = [self._tokenizer(w, add_special_tokens=False)["input_ids"]
                       for w in (letter, f" {letter}")]  # fmt: skip
            tokens = sorted({ids[0] for ids in spelled if len(ids) == 1})
            found.append(float(said.first[tokens].logsumexp(0)) if tokens else float("-inf"))
        return tuple(found)
