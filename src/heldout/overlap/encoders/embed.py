"""embed_shard: every image of a shard as a vector, the encoder never waiting for a picture.

Reading, decoding and pre-processing run in threads (Pillow and NumPy let go of the interpreter) a
bounded number of pictures ahead; this thread does nothing but run the encoder. A file that a shard
shows again (a table with several questions about a picture) is decoded and encoded once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.corpus import Corpus, CorpusItem, Shard, read_items
from heldout.engine import usable_cores
from heldout.image import (
    ImageError,
    ImageRef,
    byte_digest,
    decode,
    image_error,
    is_blank,
    pixel_digest,
    to_rgb,
)
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.store import Dropped

BATCH = 32
_AHEAD = 3  # batches that may lie prepared

Cut = Callable[[Image.Image], list[Image.Image]]


@dataclass(slots=True)
class Embedded:
    """Row n of ``rows`` is part ``parts[n]`` of ``items[owners[n]]``; part 0 is the whole picture.

    The whole pictures come first, one per item and in their order; then the parts, which only the
    first item that shows a picture has. ``digests`` (of native pixels) tell which items show one.
    """

    identity: str
    items: list[CorpusItem] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    dropped: list[Dropped] = field(default_factory=list)


def embed_shard(
    corpus: Corpus,
    shard: Shard,
    encoder: Encoder,
    *,
    parts: Cut | None = None,
    batch: int = BATCH,
    threads: int | None = None,
) -> Embedded:
    """Vectors of one shard in item order. Pure: the caller stores what is returned.

    ``parts`` cuts a picture into those that are embedded, the picture itself first.
    """
    result = Embedded(encoder.identity)
    shown: dict[str, int] = {}  # by digest of the file, the item that showed it first
    repeats: list[tuple[int, int]] = []  # (item, the item that showed its picture first)
    matrices = [np.zeros((0, encoder.dimension), np.float16)]
    with ThreadPoolExecutor(threads or usable_cores(), "prepare") as pool:
        preparer = _Preparer(encoder, parts)
        prepared = _prepared(
            read_items(corpus, shard), preparer, pool, batch * _AHEAD, result, shown, repeats
        )
        for labels, pixels in _batches(prepared, batch):
            matrices.append(encoder.embed(pixels).astype(np.float16))
            result.owners += [owner for owner, _ in labels]
            result.parts += [part for _, part in labels]
    _put_in_order(result, np.concatenate(matrices), repeats)
    return result


def join_embedded(pieces: Sequence[Embedded]) -> Embedded:
    """One shard's vectors from those of its pieces, again with the whole pictures first."""
    joined = Embedded(pieces[0].identity)
    wholes, parts, owners, which = [], [], [], []
    for piece in pieces:
        before, count = len(joined.items), len(piece.items)
        joined.items += piece.items
        joined.digests += piece.digests
        joined.dropped += piece.dropped
        wholes.append(piece.rows[:count])
        parts.append(piece.rows[count:])
        owners += [before + owner for owner in piece.owners[count:]]
        which += piece.parts[count:]
    joined.owners = [*range(len(joined.items)), *owners]
    joined.parts = [0] * len(joined.items) + which
    joined.rows = np.concatenate([*wholes, *parts])
    return joined


def _put_in_order(
    result: Embedded, rows: NDArray[np.float16], repeats: list[tuple[int, int]]
) -> None:
    """Whole pictures first, so that a reader who wants only them takes the first rows as they are."""
    wholes = [n for n, part in enumerate(result.parts) if part == 0]
    row_of = {result.owners[n]: n for n in wholes}
    row_of |= {item: row_of[first] for item, first in repeats}
    cut = [n for n, part in enumerate(result.parts) if part]
    order = [row_of[item] for item in range(len(result.items))] + cut
    result.owners = list(range(len(result.items))) + [result.owners[n] for n in cut]
    result.parts = [0] * len(result.items) + [result.parts[n] for n in cut]
    result.rows = rows[order]


class _Ready(NamedTuple):
    digest: str  # of native pixels
    pictures: list[Floats]  # as the encoder wants them: the whole, then its parts


class _Preparer:
    """Prepares each file once: whoever meets its bytes first works, the others get the promise."""

    def __init__(self, encoder: Encoder, parts: Cut | None) -> None:
        self.encoder, self.parts = encoder, parts
        self._promised: dict[str, Future[_Ready | ImageError]] = {}
        self._lock = threading.Lock()

    def __call__(self, ref: ImageRef) -> tuple[str, Future[_Ready | ImageError]]:
        promise: Future[_Ready | ImageError] = Future()
        try:
            data = ref.read()
        except Exception as error:
            promise.set_result(image_error(error))
            return "", promise
        own = byte_digest(data)
        with self._lock:
            known = self._promised.setdefault(own, promise)
        if known is promise:
            try:
                promise.set_result(self._ready(data))
            except BaseException as error:
                promise.set_exception(error)
        return own, known

    def forget(self, own: str) -> None:
        """What was handed over need not be held; that it was seen stays known."""
        done: Future[_Ready | ImageError] = Future()
        with self._lock:
            shard_result = self._promised[own].result()
            done.set_result(
                shard_result
                if isinstance(shard_result, ImageError)
                else shard_result._replace(pictures=[])
            )
            self._promised[own] = done

    def _ready(self, data: bytes) -> _Ready | ImageError:
        try:
            image = decode(data)
            if is_blank(image):
                return ImageError("blank image", "a flat picture is like every other flat picture")
            cut = self.parts(to_rgb(image)) if self.parts else [image]
            return _Ready(pixel_digest(image), [self.encoder.prepare(part) for part in cut])
        except (ImageError, MemoryError) as error:  # any other is the encoder's, of every picture
            return image_error(error)


def _prepared(
    items: Iterable[CorpusItem | Dropped],
    prepare: _Preparer,
    pool: ThreadPoolExecutor,
    ahead: int,
    result: Embedded,
    shown: dict[str, int],
    repeats: list[tuple[int, int]],
) -> Iterator[tuple[int, int, Floats]]:
    """(item number, part, picture) in order, prepared by the pool, ``ahead`` items at a time."""
    waiting: deque[tuple[CorpusItem, Future[tuple[str, Future[_Ready | ImageError]]]]] = deque()

    def finish() -> Iterator[tuple[int, int, Floats]]:
        item, future = waiting.popleft()
        own, promise = future.result()
        shard_result = promise.result()
        if isinstance(shard_result, ImageError):
            source = item.image.source if item.image else ""
            detail = f"{source}: {shard_result.detail}"
            result.dropped.append(Dropped("corpus", item.id, shard_result.reason, detail))
            return
        number = len(result.items)
        result.items.append(item)
        result.digests.append(shard_result.digest)
        if own in shown:
            repeats.append((number, shown[own]))
            return
        shown[own] = number
        prepare.forget(own)
        for part, picture in enumerate(shard_result.pictures):
            yield number, part, picture

    for item in items:
        if isinstance(item, Dropped):
            result.dropped.append(item)
        elif item.image is not None:
            waiting.append((item, pool.submit(prepare, item.image)))
        if len(waiting) >= ahead:
            yield from finish()
    while waiting:
        yield from finish()


def _batches(
    prepared: Iterable[tuple[int, int, Floats]], size: int
) -> Iterator[tuple[list[tuple[int, int]], Floats]]:
    labels: list[tuple[int, int]] = []
    pixels: list[Floats] = []
    for owner, part, picture in prepared:
        labels.append((owner, part))
        pixels.append(picture)
        if len(labels) == size:
            yield labels, np.stack(pixels)
            labels, pixels = [], []
    if labels:
        yield labels, np.stack(pixels)
