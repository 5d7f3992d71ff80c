"""Pictures from elsewhere that thresholds are tried on: negative controls and reference nulls."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import Corpus
from heldout.engine import progress
from heldout.image import ImageError, ImageRef, decode, pixel_digest
from heldout.image.digest import is_blank
from heldout.overlap.encoders import Encoder
from heldout.overlap.encoders.encoder import Floats
from heldout.store import Dropped

STAGE = "calibration"
MOST = 5000  # pictures of a set that are looked at; a rate is known well enough by then
_BATCH = 32

Domain = Literal["in domain", "out of domain"]


@dataclass(frozen=True)
class ControlSet:
    """Pictures the user knows not to be in the corpus, of the benchmark's kind or of another."""

    corpus: Corpus
    domain: Domain

    @property
    def name(self) -> str:
        return self.corpus.name


@dataclass
class Reference:
    """The distinct pictures of one set as vectors, upright and whole."""

    ids: list[str] = field(default_factory=list)
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    dropped: list[Dropped] = field(default_factory=list)


def embed_reference(
    corpus: Corpus,
    encoder: Encoder,
    *,
    benchmark: Collection[str] = (),
    most: int = MOST,
    quiet: bool = False,
) -> Reference:
    """Up to ``most`` distinct pictures; those that the benchmark shows itself control nothing."""
    result = Reference()
    parts = [np.zeros((0, encoder.dimension), np.float16)]
    waiting: list[Floats] = []
    with progress(f"embedding {corpus.name}", None, "images", disabled=quiet) as step:
        for name, prepared in _distinct(corpus, encoder, benchmark, most, result.dropped):
            result.ids.append(name)
            waiting.append(prepared)
            if len(waiting) == _BATCH:
                parts.append(encoder.embed(np.stack(waiting)).astype(np.float16))
                waiting = []
            step()
        if waiting:
            parts.append(encoder.embed(np.stack(waiting)).astype(np.float16))
    result.rows = np.concatenate(parts)
    return result


def _distinct(
    corpus: Corpus,
    encoder: Encoder,
    benchmark: Collection[str],
    most: int,
    dropped: list[Dropped],
) -> Iterator[tuple[str, Floats]]:
    seen: set[str] = set()
    looked: set[ImageRef] = set()  # a picture under many questions is read once
    kept = 0
    for shard in corpus.shards():
        for item in corpus.read(shard):
            if isinstance(item, Dropped):
                dropped.append(item)
                continue
            if item.image is None or item.image in looked:
                continue
            looked.add(item.image)
            where = f"{corpus.name}: {item.image.source}"
            try:
                image = decode(item.image.read())
            except ImageError as error:
                dropped.append(Dropped(STAGE, item.id, error.reason, f"{where}: {error.detail}"))
                continue
            digest = pixel_digest(image)
            if digest in seen:
                continue
            seen.add(digest)
            if is_blank(image):
                dropped.append(Dropped(STAGE, item.id, "blank image", where))
            elif digest in benchmark:
                dropped.append(Dropped(STAGE, item.id, "in the benchmark itself", where))
            elif kept == most:
                detail = f"{corpus.name}: only the first {most:,} pictures were looked at"
                dropped.append(Dropped(STAGE, item.id, "set is larger than needed", detail, "many"))
                return
            else:
                kept += 1
                yield item.id, encoder.prepare(image)
