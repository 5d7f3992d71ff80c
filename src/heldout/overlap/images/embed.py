"""embed_shard: every image of a shard as a vector, the encoder never waiting for a picture.

Reading, decoding and pre-processing run in threads (Pillow and NumPy let go of the interpreter) a
bounded number of pictures ahead; this thread does nothing but run the encoder. A file that a shard
shows again (a table with several questions about a picture) is decoded and encoded once.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from heldout.corpus import Corpus, CorpusItem, EmbeddingCorpus, Shard, read_items
from heldout.engine import underway, usable_cores
from heldout.errors import InputError
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
from heldout.overlap.images.encoder import Encoder, Floats, require_same
from heldout.remote import located, open_rows, ranges
from heldout.store import Dropped, read_document, remove, replacing, write_json

BATCH = 32
_AHEAD = 3  # batches that may lie prepared

Cut = Callable[[Image.Image], list[Image.Image]]


@dataclass(slots=True)
class ShardEmbeddings:
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
) -> ShardEmbeddings:
    """Vectors of one shard in item order. Pure: the caller stores what is returned.

    ``parts`` cuts a picture into those that are embedded, the picture itself first.
    """
    result = ShardEmbeddings(encoder.identity)
    shown: dict[str, int] = {}  # by digest of the file, the item that showed it first
    repeats: list[tuple[int, int]] = []  # (item, the item that showed its picture first)
    matrices = [np.zeros((0, encoder.dimension), np.float16)]
    with ThreadPoolExecutor(threads or usable_cores(), "prepare") as pool:
        preparer = _Preparer(encoder, parts)
        prepared = _prepared(
            underway(read_items(corpus, shard), "encoded"),
            preparer,
            pool,
            batch * _AHEAD,
            result,
            shown,
            repeats,
        )
        for labels, pixels in _batches(prepared, batch):
            matrices.append(encoder.embed(pixels).astype(np.float16))
            result.owners += [owner for owner, _ in labels]
            result.parts += [part for _, part in labels]
    _put_in_order(result, np.concatenate(matrices), repeats)
    return result


def join_embedded(pieces: Sequence[ShardEmbeddings]) -> ShardEmbeddings:
    """One shard's vectors from those of its pieces, again with the whole pictures first."""
    joined = ShardEmbeddings(pieces[0].identity)
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
    result: ShardEmbeddings, rows: NDArray[np.float16], repeats: list[tuple[int, int]]
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
    """Prepares each file once: the first thread that meets its bytes does the work, the others wait for its result."""

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
            return _Ready(pixel_digest(image), self.encoder.prepare_parts(cut))
        except (ImageError, MemoryError) as error:  # any other is the encoder's, of every picture
            return image_error(error)


def _prepared(
    items: Iterable[CorpusItem | Dropped],
    prepare: _Preparer,
    pool: ThreadPoolExecutor,
    ahead: int,
    result: ShardEmbeddings,
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
            detail = item.image.lost(shard_result.detail) if item.image else shard_result.detail
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


# Embeddings on disk: written once, in LAION's layout, with the encoder that made them.
#
# ``img_emb/img_emb_0000.npy`` (float16, one row per picture), ``metadata/metadata_0000.parquet`` (the
# same rows: id, pixel digest, text, which part of which item) and ``encoder.json``.
# ``corpus.LaionEmbeddings`` reads the folder as it reads LAION's own, which lacks only the last file.


FORMAT = 1
_WORDS = ("id", "image_path", "caption", "question", "answer", "digest")
_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _WORDS), ("item", pa.int64()), ("part", pa.int32())]
)
_KEY, _COUNTS = b"heldout.shard", b"heldout.counts"


@dataclass(frozen=True, slots=True)
class SavedEmbeddings:
    """What ``encoder.json`` says about a folder of embeddings."""

    identity: str
    dimension: int


@dataclass(frozen=True, slots=True)
class NumberedIds(Sequence[str]):
    """``name/0``, ``name/1``, …: ids of items that are named by their row, written when they are asked for."""

    name: str
    length: int

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            rows = range(self.length)[place]
            if rows == range(len(rows)):
                return NumberedIds(self.name, len(rows))
            return [f"{self.name}/{row}" for row in rows]
        return f"{self.name}/{range(self.length)[place]}"


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """Of which picture each row of a matrix is, and of which part of it."""

    ids: Sequence[str]  # per item
    digests: list[str]  # per item, of native pixels; "" if unknown
    items: NDArray[np.int64]  # per row
    parts: NDArray[np.int64]  # per row, 0 for the whole picture


@dataclass(frozen=True, slots=True)
class SavedShard:
    """One matrix with its descriptions: small, picklable, read where it is needed.

    Where the embeddings themselves are the corpus, ``corpus_name`` is what it calls this file, and
    its items are named by their row.
    """

    matrix: str
    metadata: str | None
    corpus_name: str | None = None

    def rows(self) -> NDArray[np.float16]:
        """Memory-mapped; one row per picture or part of one."""
        return open_matrix(located(self.matrix))

    def described(self, rows: int) -> RowOrigins:
        """What the ``rows`` rows are of. Somebody else's are pictures, each named by its place."""
        plain = numbered_rows(self.corpus_name or Path(self.matrix).name, rows)
        places, everything = plain.ids, plain.items
        if self.metadata is None:
            return plain
        try:
            with pq.ParquetFile(ranges(self.metadata), pre_buffer=False) as file:
                if not {"id", "digest", "item", "part"} <= set(file.schema_arrow.names):
                    return plain
                table = file.read(["id", "digest", "item", "part"], use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.metadata}: not a readable Parquet file ({error})") from error
        items, parts = (table.column(name).to_numpy().astype(np.int64) for name in ("item", "part"))
        count = int((parts == 0).sum())
        # Ours have the whole pictures first, one per item and in their order.
        if len(items) != rows or not np.array_equal(items[:count], everything[:count]):
            raise InputError(
                f"{self.matrix} and {self.metadata} do not belong together: remove both and embed again"
            )
        ids = places if self.corpus_name else table.column("id").to_pylist()
        digests = [digest or "" for digest in table.column("digest").to_pylist()[:count]]
        return RowOrigins(ids[:count], digests, items, parts)


@dataclass(frozen=True, slots=True)
class CorpusRows:
    """The rows of one shard as the corpus itself gives them, wherever they come from."""

    corpus: EmbeddingCorpus
    shard: Shard

    @property
    def metadata(self) -> None:
        """There is no file of descriptions."""

    def rows(self) -> NDArray[Any]:
        return self.corpus.embeddings(self.shard)

    def described(self, rows: int) -> RowOrigins:
        return numbered_rows(self.shard.id, rows)


def numbered_rows(name: str, rows: int) -> RowOrigins:
    """Rows of pictures of which nothing is known but their places."""
    return RowOrigins(
        NumberedIds(name, rows), [""] * rows, np.arange(rows), np.zeros(rows, np.int64)
    )


def open_matrix(path: Path) -> NDArray[Any]:
    try:
        matrix: NDArray[Any] = open_rows(path)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: not a readable .npy matrix ({error})") from error
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise InputError(
            f"{path}: expected a matrix of floats or int8, one row per picture; "
            f"found {matrix.dtype} of shape {matrix.shape}"
        )
    return matrix


def save_shard(
    folder: Path,
    number: int,
    embedded: ShardEmbeddings,
    *,
    key: str = "",
    counts: dict[str, int] | None = None,
) -> None:
    """Make shard ``number`` final. The matrix comes last: where it is, everything of it is.

    ``key`` says of which input; ``shard_counts`` gives ``counts`` back to whoever asks for that key.
    """
    saved_embeddings = SavedEmbeddings(embedded.identity, int(embedded.rows.shape[1]))
    claim_identity(folder, saved_embeddings)
    matrix, metadata = _paths(folder, number)
    described = _described(embedded).replace_schema_metadata(
        {_KEY: key.encode(), _COUNTS: json.dumps(counts or {}).encode()}
    )
    # A shard that is written again is unfinished from here on: rows and descriptions change together.
    remove(matrix)
    with replacing(metadata) as temporary:
        pq.write_table(described, temporary, compression="zstd")
    with replacing(matrix) as temporary, temporary.open("wb") as stream:
        np.save(stream, embedded.rows.astype(np.float16, copy=False), allow_pickle=False)


def saved_shard(folder: Path, number: int) -> SavedShard:
    matrix, metadata = _paths(folder, number)
    return SavedShard(str(matrix), str(metadata))


def shard_counts(folder: Path, number: int, key: str) -> dict[str, int] | None:
    """The counts that shard ``number`` was saved with; None unless it is finished and of ``key``."""
    matrix, metadata = _paths(folder, number)
    if not matrix.exists():
        return None
    try:
        about = pq.read_schema(metadata).metadata or {}
        if about.get(_KEY) != key.encode():
            return None
        counts: dict[str, int] = json.loads(about[_COUNTS])
        return counts
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None  # half of a shard is none


def claim_identity(folder: Path, saved_embeddings: SavedEmbeddings) -> None:
    """Make ``folder`` that of one encoder, or raise InputError where it is another's."""
    earlier = read_identity(folder)
    if earlier is None:
        write_json(folder / "encoder.json", {"format": FORMAT, **_as_json(saved_embeddings)})
    else:
        require_same(earlier.identity, saved_embeddings.identity)


def read_identity(folder: Path) -> SavedEmbeddings | None:
    """Which encoder made the embeddings in ``folder``; None if there is no record."""
    path = folder / "encoder.json"
    if not path.exists():
        return None
    try:
        content = read_document(path)
        known = content["format"]
        saved = SavedEmbeddings(str(content["identity"]), int(content["dimension"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not what heldout writes there ({error!r})") from error
    if known != FORMAT:
        raise InputError(f"{path} has format {known}, this heldout reads {FORMAT}: embed again")
    return saved


def _paths(folder: Path, number: int) -> tuple[Path, Path]:
    return (
        folder / "img_emb" / f"img_emb_{number:04d}.npy",
        folder / "metadata" / f"metadata_{number:04d}.parquet",
    )


def _as_json(saved: SavedEmbeddings) -> dict[str, str | int]:
    return {"identity": saved.identity, "dimension": saved.dimension}


def _described(embedded: ShardEmbeddings) -> pa.Table:
    """One description per row of the matrix, as LAION has it: a part is described as its picture."""
    columns: list[Sequence[Any]] = [
        [embedded.items[owner].id for owner in embedded.owners],
        [_source(embedded, owner) for owner in embedded.owners],
        [embedded.items[owner].text for owner in embedded.owners],
        [embedded.items[owner].question for owner in embedded.owners],
        [embedded.items[owner].answer for owner in embedded.owners],
        [embedded.digests[owner] for owner in embedded.owners],
        embedded.owners,
        embedded.parts,
    ]
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)],
        schema=_SCHEMA,
    )


def _source(embedded: ShardEmbeddings, owner: int) -> str | None:
    image = embedded.items[owner].image
    return image.source if image else None
