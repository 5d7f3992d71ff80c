"""Encoder: the one small interface between pictures and vectors.

It has two halves so that one can hide behind the other: ``prepare`` is what the processor's cores do
to one picture (any number of threads at once), ``embed`` is what the model does to a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import InputError
from heldout.image import to_rgb
from heldout.overlap.encoders.views import views
from heldout.overlap.parts import trimmed

Floats = NDArray[np.float32]


class Encoder(ABC):
    """``identity`` names weights and pre-processing: vectors are comparable only if it is equal."""

    identity: str
    dimension: int

    @abstractmethod
    def prepare(self, image: Image.Image) -> Floats:
        """One decoded picture as the model wants it. Called from several threads."""

    @abstractmethod
    def _forward(self, batch: Floats) -> Floats:
        """(n, …) prepared pictures to (n, dimension) vectors of any length."""

    def embed(self, batch: Floats) -> Floats:
        """Unit rows for a batch of prepared pictures."""
        if not len(batch):
            return np.zeros((0, self.dimension), np.float32)
        rows = np.asarray(self._forward(batch), dtype=np.float32)
        if rows.shape != (len(batch), self.dimension):
            raise InputError(
                f"{self.identity} gave an array of shape {rows.shape} for {len(batch)} pictures; "
                f"expected ({len(batch)}, {self.dimension}), one vector each"
            )
        if not np.isfinite(rows).all():
            raise InputError(f"{self.identity} gave a vector that is not a number")
        return unit(rows)

    def encode(self, images: Sequence[Image.Image]) -> Floats:
        """(n, dimension) unit rows, one per picture."""
        prepared = [self.prepare(image) for image in images]
        return self.embed(np.stack(prepared) if prepared else np.zeros((0, 1), np.float32))

    def encode_views(self, image: Image.Image) -> tuple[list[str], Floats]:
        """Names and unit rows of a query picture as its copies may look, as many for every picture.

        An encoder as cheap as ``pixels`` overrides it with more of them.
        """
        picture = to_rgb(image)
        seen = views(picture)
        seen.append(("trimmed", trimmed(picture) or picture))  # corpus pictures lose frames, too
        return [name for name, _ in seen], self.encode([view for _, view in seen])


def unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays, and is similar to nothing."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    result: Floats = (rows / np.where(length > 0, length, 1)).astype(np.float32)
    return result


def require_same(left: str, right: str) -> None:
    """Raise InputError unless two embeddings come from one encoder, pre-processing included."""
    if left != right:
        raise InputError(
            f"embeddings of different encoders cannot be compared: one side is '{left}', the other "
            f"'{right}'. Embed both sides with the same --encoder"
        )
