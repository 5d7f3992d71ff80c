"""embed_shard: every image of a shard as a vector, the encoder never waiting for a picture.

Reading, decoding and pre-processing run in threads (Pillow and NumPy let go of the interpreter) a
bounded number of pictures ahead; this thread does nothing but run the encoder.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.corpus import Corpus, CorpusItem, Shard
from heldout.engine.cores import usable_cores
from heldout.image import ImageError, ImageRef, to_rgb
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.store import Dropped

BATCH = 32
_AHEAD = 3  # batches that may lie prepared


@dataclass(slots=True)
class Embedded:
    """Row n of ``rows`` is of ``items[owners[n]]``; what could not be embedded is in ``dropped``.

    Without ``parts`` every item has one row and ``owners`` counts up.
    """

    identity: str
    items: list[CorpusItem] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    dropped: list[Dropped] = field(default_factory=list)


def embed_shard(
    corpus: Corpus,
    shard: Shard,
    encoder: Encoder,
    *,
    parts: Callable[[Image.Image], list[Image.Image]] | None = None,
    batch: int = BATCH,
    threads: int | None = None,
) -> Embedded:
    """Vectors of one shard in item order. Pure: the caller stores what is returned.

    ``parts`` cuts a picture into those that are embedded (the picture itself among them).
    """
    result = Embedded(encoder.identity)
    matrices = [np.zeros((0, encoder.dimension), np.float16)]
    with ThreadPoolExecutor(threads or usable_cores(), "prepare") as pool:
        prepare = functools.partial(_prepare, encoder, parts)
        prepared = _prepared(corpus.read(shard), prepare, pool, batch * _AHEAD, result)
        for owners, pixels in _batches(prepared, batch):
            matrices.append(encoder.embed(pixels).astype(np.float16))
            result.owners += owners
    result.rows = np.concatenate(matrices)
    return result


def _prepared(
    items: Iterable[CorpusItem | Dropped],
    prepare: Callable[[ImageRef], list[Floats] | ImageError],
    pool: ThreadPoolExecutor,
    ahead: int,
    result: Embedded,
) -> Iterator[tuple[int, Floats]]:
    """(item number, picture) in order, prepared by the pool, at most ``ahead`` items at a time."""
    waiting: deque[tuple[CorpusItem, Future[list[Floats] | ImageError]]] = deque()

    def finish() -> Iterator[tuple[int, Floats]]:
        item, future = waiting.popleft()
        found = future.result()
        if isinstance(found, ImageError):
            source = item.image.source if item.image else ""
            detail = f"{source}: {found.detail}"
            result.dropped.append(Dropped("corpus", item.id, found.reason, detail))
        else:
            result.items.append(item)
            for picture in found:
                yield len(result.items) - 1, picture

    for item in items:
        if isinstance(item, Dropped):
            result.dropped.append(item)
        elif item.image is not None:
            waiting.append((item, pool.submit(prepare, item.image)))
        if len(waiting) >= ahead:
            yield from finish()
    while waiting:
        yield from finish()


def _prepare(
    encoder: Encoder, parts: Callable[[Image.Image], list[Image.Image]] | None, ref: ImageRef
) -> list[Floats] | ImageError:
    try:
        image = ref.open()
    except ImageError as error:
        return error
    return [encoder.prepare(part) for part in (parts(to_rgb(image)) if parts else [image])]


def _batches(
    prepared: Iterable[tuple[int, Floats]], size: int
) -> Iterator[tuple[list[int], Floats]]:
    owners: list[int] = []
    pixels: list[Floats] = []
    for owner, picture in prepared:
        owners.append(owner)
        pixels.append(picture)
        if len(owners) == size:
            yield owners, np.stack(pixels)
            owners, pixels = [], []
    if owners:
        yield owners, np.stack(pixels)
