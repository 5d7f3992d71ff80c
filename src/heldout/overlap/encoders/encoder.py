"""Encoder: the one small interface between pictures and vectors.

It has two halves so that one can hide behind the other: ``prepare`` is what the processor's cores do
to one picture (any number of threads at once), ``embed`` is what the model does to a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
            f"'{right}'. Embed both sides with the same encoder"
        )


# From any decoded picture to the array a vision model reads; Pillow and NumPy only.


STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
RESIZING = ("squash", "crop")  # both sides to size; or the shorter one, then the middle square
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    size: int = 224
    resize: str = "squash"
    filter: str = "bilinear"
    statistics: str = "imagenet"

    def __str__(self) -> str:
        return f"{self.resize} {self.size} {self.filter} {self.statistics}"

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """(3, size, size), normalised."""
        picture = to_rgb(image)
        target = (self.size, self.size)
        box = None
        if self.resize == "crop":
            side = min(picture.size)
            left, top = (picture.width - side) / 2, (picture.height - side) / 2
            box = (left, top, left + side, top + side)
        small = picture.resize(target, FILTERS[self.filter], box=box, reducing_gap=3.0)
        mean, deviation = (np.array(part, np.float32) for part in STATISTICS[self.statistics])
        pixels = (np.asarray(small, dtype=np.float32) / np.float32(255) - mean) / deviation
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def with_options(base: Preprocessing, options: Mapping[str, str], spec: str) -> Preprocessing:
    """``base`` changed by the user's ``size=288,resize=crop,…``."""
    allowed = {"resize": RESIZING, "filter": FILTERS, "statistics": STATISTICS}
    changed = base
    for key, value in options.items():
        if key == "size":
            if not value.isdigit() or not 8 <= int(value) <= 4096:
                raise InputError(f"encoder {spec}: size={value}; expected pixels, 8 to 4096")
            changed = replace(changed, size=int(value))
        elif key in allowed:
            if value not in allowed[key]:
                raise InputError(
                    f"encoder {spec}: {key}={value}; expected one of {', '.join(allowed[key])}"
                )
            fields = {
                "resize": changed.resize,
                "filter": changed.filter,
                "statistics": changed.statistics,
            }
            changed = Preprocessing(changed.size, **{**fields, key: value})
        else:
            raise InputError(
                f"encoder {spec}: unknown option '{key}'; expected size, resize, filter, statistics"
            )
    return changed
