"""TextEncoder: what every encoder of sentences is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from heldout.errors import InputError
from heldout.overlap.images.encoder import Floats, unit

CHARACTERS = 2000  # of a text that are embedded: a mean over a whole page says nothing


class TextEncoder(ABC):
    """``identity`` names weights and pooling: vectors are comparable only if it is equal."""

    identity: str
    dimension: int

    @abstractmethod
    def _forward(self, texts: list[str]) -> Floats:
        """(n, dimension) vectors of any length."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit rows; a row of zeros for a text that has no word the encoder knows."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        rows = np.asarray(self._forward([text[:CHARACTERS] for text in texts]), np.float32)
        if rows.shape != (len(texts), self.dimension):
            raise InputError(
                f"{self.identity} gave an array of shape {rows.shape} for {len(texts)} texts; "
                f"expected ({len(texts)}, {self.dimension}), one vector each"
            )
        return unit(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, np.float32(0)))
