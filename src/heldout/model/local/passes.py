"""What runs the numbers: forward passes of one backend, and what is read off their logits.

Prompts, spans, groups, batches and replies know nothing else of a backend. Logits stay what the backend
makes of them (on its device, in its type) until one of the last four methods turns them into numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.model.local.rows import Features, Row

Made = TypeVar("Made")


@dataclass(frozen=True)
class Prefix:
    """What a model keeps of tokens it has read: keys and values, how many, and where the next one
    stands (pictures take less room in multi-dimensional positions than in the sequence)."""

    cache: Any
    length: int
    shift: int | None


class Passes(Protocol):
    """``whole`` and ``after`` give one line of logits per scored token, in the rows' order."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens that end a reply."""
        ...

    def whole(self, rows: Sequence[Row], features: Features, *, share: bool = True) -> Any:
        """Full sequences; every row shows the same pictures."""
        ...

    def read(self, ids: Sequence[int], features: Features) -> Prefix | None:
        """The common beginning of a group, read once; None where what is kept cannot be shared."""
        ...

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        """What follows the prefix in each row."""
        ...

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """A cache of ``rows`` replies that begin with the prefix; ``step`` writes into it."""
        ...

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        """Logits after the next tokens of every row, all of one length, that stand from ``start`` on."""
        ...

    def generate(self, row: Row, features: Features, most: int) -> tuple[list[int], Any]:
        """One row, greedily and from its beginning: its tokens, and the logits of the first."""
        ...

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        """log p of each target, and the mean and standard deviation of log p over the vocabulary."""
        ...

    def likeliest(self, logits: Any) -> list[int]:
        """The token with the largest logit, line by line."""
        ...

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        """log p of every token of the vocabulary, of one line."""
        ...

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        """What ``run`` returns; None where the memory gave out, which is free again afterwards."""
        ...
