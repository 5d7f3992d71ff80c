"""embed_shard: every image of a shard as a vector, the encoder never waiting for a picture.

Reading, decoding and pre-processing run in threads (Pillow and NumPy let go of the interpreter) a
bounded number of pictures ahead; this thread does nothing but run the encoder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import Corpus, CorpusItem, Shard
from heldout.engine.cores import usable_cores
from heldout.image import ImageError, ImageRef
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.store import Dropped

BATCH = 32
_AHEAD = 3  # batches that may lie prepared


@dataclass(slots=True)
class Embedded:
    """Row n of ``rows`` is ``items[n]``; what could not be embedded is in ``dropped``."""

    identity: str
    items: list[CorpusItem] = field(default_factory=list)
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    dropped: list[Dropped] = field(default_factory=list)


def embed_shard(
    corpus: Corpus,
    shard: Shard,
    encoder: Encoder,
    *,
    batch: int = BATCH,
    threads: int | None = None,
) -> Embedded:
    """Vectors of one shard in item order. Pure: the caller stores what is returned."""
    result = Embedded(encoder.identity)
    matrices = [np.zeros((0, encoder.dimension), np.float16)]
    with ThreadPoolExecutor(threads or usable_cores(), "prepare") as pool:
        prepared = _prepared(corpus.read(shard), encoder, pool, batch * _AHEAD, result.dropped)
        for items, pixels in _batches(prepared, batch):
            matrices.append(encoder.embed(pixels).astype(np.float16))
            result.items += items
    result.rows = np.concatenate(matrices)
    return result


def _prepared(
    items: Iterable[CorpusItem | Dropped],
    encoder: Encoder,
    pool: ThreadPoolExecutor,
    ahead: int,
    dropped: list[Dropped],
) -> Iterator[tuple[CorpusItem, Floats]]:
    """Pictures in their order, prepared by the pool, at most ``ahead`` of them at a time."""
    waiting: deque[tuple[CorpusItem, Future[Floats | ImageError]]] = deque()

    def finish() -> Iterator[tuple[CorpusItem, Floats]]:
        item, future = waiting.popleft()
        found = future.result()
        if isinstance(found, ImageError):
            source = item.image.source if item.image else ""
            detail = f"{source}: {found.detail}"
            dropped.append(Dropped("corpus", item.id, found.reason, detail))
        else:
            yield item, found

    for item in items:
        if isinstance(item, Dropped):
            dropped.append(item)
        elif item.image is not None:
            waiting.append((item, pool.submit(_prepare, item.image, encoder)))
        if len(waiting) >= ahead:
            yield from finish()
    while waiting:
        yield from finish()


def _prepare(image: ImageRef, encoder: Encoder) -> Floats | ImageError:
    try:
        return encoder.prepare(image.open())
    except ImageError as error:
        return error


def _batches(
    prepared: Iterable[tuple[CorpusItem, Floats]], size: int
) -> Iterator[tuple[list[CorpusItem], Floats]]:
    items: list[CorpusItem] = []
    pixels: list[Floats] = []
    for item, picture in prepared:
        items.append(item)
        pixels.append(picture)
        if len(items) == size:
            yield items, np.stack(pixels)
            items, pixels = [], []
    if items:
        yield items, np.stack(pixels)
