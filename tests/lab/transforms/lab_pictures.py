"""A small classical encoder, pictures and judges that the tests of the lab share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.benchmark.benchmark import Example
from heldout.image import ImageRef, InlineBytes
from heldout.scenes import random_scene, render


class Thumbnail:
    """The picture as 16 × 16 greys without their mean: real, weak, and quick."""

    identity = "thumbnail 16 × 16"
    dimension = 256

    def encode(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        rows = np.stack([_greys(image) for image in images])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _greys(image: Image.Image) -> NDArray[np.float64]:
    small = image.convert("L").resize((16, 16), Image.Resampling.BOX)
    greys = np.asarray(small, dtype=np.float64).ravel()
    return greys - greys.mean() + 1e-3


class Constant:
    """Sees nothing: every picture is the same."""

    identity = "constant"
    dimension = 4

    def encode(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        return np.full((len(images), 4), 0.5, np.float32)


def scene(seed: int, size: int = 64) -> Image.Image:
    return render(random_scene(np.random.default_rng(seed)), size)


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def benchmark(pictures: Sequence[bytes], clusters: Sequence[str | None] = ()) -> Benchmark:
    return Benchmark(
        "scenes",
        tuple(
            Example(
                f"q{index}",
                (ImageRef(f"{index}.png", InlineBytes(data, f"picture {index}")),),
                cluster=clusters[index] if clusters else None,
            )
            for index, data in enumerate(pictures)
        ),
    )


class Verdict(NamedTuple):
    relation: str
    transform: str = ""


def register(query: Any, candidate: Any) -> Verdict:
    """A registration that knows resized and recoloured copies, by their thumbnails."""
    return Verdict("transformed copy" if float(query @ candidate) > 0.97 else "unrelated")


def features(image: Image.Image) -> NDArray[np.float32]:
    return Thumbnail().encode([image])[0]
