"""Would a copy have been flagged? Light copies of the benchmark's own pictures against τ.

A threshold that pictures re-saved a little smaller do not reach flags nothing, and a rate of nothing
would read as clean. So a sample is re-saved and measured with every calibration: its power.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import ImageError, ImageRef, to_rgb
from heldout.overlap.encoders import Encoder

ROLE = "copy"
NAME = "resized to 3/4 and saved as JPEG 60"
SAMPLE = 64
SEEN = 0.9  # of light copies above τ; below, "not flagged" says little
_SCALE, _QUALITY, _BATCH = 0.75, 60, 32


def light_copy(image: Image.Image) -> Image.Image:
    size = [max(16, round(side * _SCALE)) for side in image.size]
    buffer = io.BytesIO()
    to_rgb(image).resize((size[0], size[1]), Image.Resampling.BICUBIC).save(
        buffer, "JPEG", quality=_QUALITY
    )
    return Image.open(buffer)


def copy_similarities(
    pictures: Sequence[str],
    rows: NDArray[Any],
    refs: Mapping[str, ImageRef],
    encoder: Encoder,
    *,
    seed: int,
) -> list[tuple[str, float]]:
    """(picture, similarity to its light copy) of a sample; ``rows`` are the pictures as vectors."""
    known = [place for place, picture in enumerate(pictures) if picture in refs]
    chosen = np.random.default_rng(seed).permutation(known)[:SAMPLE]
    similarities: list[tuple[str, float]] = []
    for first in range(0, len(chosen), _BATCH):
        places, prepared = [], []
        for place in sorted(chosen[first : first + _BATCH].tolist()):
            try:
                prepared.append(encoder.prepare(light_copy(refs[pictures[place]].open())))
            except ImageError:  # the picture was there when it was embedded; it is told elsewhere
                continue
            places.append(place)
        if places:
            # As a corpus row is stored: in half precision.
            copies = encoder.embed(np.stack(prepared)).astype(np.float16).astype(np.float64)
            cosines = (copies * np.asarray(rows[places], np.float64)).sum(axis=1)
            similarities += [
                (pictures[place], float(value))
                for place, value in zip(places, cosines, strict=True)
            ]
    return similarities
