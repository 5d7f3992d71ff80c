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
TEXTS = 256  # texts of one forward


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

    @property
    def text_identity(self) -> str:
        """What texts are read with: the encoder and its tokenizer. InputError without a text tower."""
        raise InputError(
            f"{self.identity} reads no texts: zero-shot classification and retrieval need a dual "
            f"encoder with a text tower (CLIP, SigLIP: transformers:NAME, open_clip:MODEL/TAG)"
        )

    def _forward_texts(self, texts: Sequence[str]) -> Floats:
        """Texts to (n, dimension) vectors of any length; dual encoders override it."""
        raise NotImplementedError

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """(n, dimension) unit rows in the space of the pictures. InputError without a text tower."""
        whose = self.text_identity
        rows = [np.zeros((0, self.dimension), np.float32)]
        for start in range(0, len(texts), TEXTS):
            some = list(texts[start : start + TEXTS])
            made = np.asarray(self._forward_texts(some), dtype=np.float32)
            if made.shape != (len(some), self.dimension):
                raise InputError(
                    f"{whose} gave an array of shape {made.shape} for {len(some)} texts; expected "
                    f"({len(some)}, {self.dimension}), vectors as long as those of pictures"
                )
            if not np.isfinite(made).all():
                raise InputError(f"{whose} gave a vector of a text that is not a number")
            rows.append(unit(made))
        return np.concatenate(rows)

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
