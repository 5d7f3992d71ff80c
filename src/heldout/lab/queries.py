"""Queries: pictures of a collection under every transform, made once, encoded once."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.engine import progress
from heldout.errors import InputError
from heldout.lab.collection import Collection, Item
from heldout.lab.transforms import TRANSFORMS, Transform

Task = TypeVar("Task")
Made = TypeVar("Made")

_BATCH = 32

# Query-side views, as named by overlap's encoders: a query is as similar as its most similar view.
Views = Callable[[Image.Image], Sequence[tuple[str, Image.Image]]]


class Encoder(Protocol):
    """What the study needs of an encoder; ``identity`` includes its pre-processing."""

    @property
    def identity(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def encode(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """One unit row per picture."""
        ...


@runtime_checkable
class InTwoHalves(Protocol):
    """An encoder whose first half runs in threads, as those of ``overlap`` do."""

    def prepare(self, image: Image.Image) -> NDArray[np.float32]: ...

    def embed(self, batch: NDArray[np.float32]) -> NDArray[np.float32]: ...


Side = Literal["query", "corpus"]  # which of the two is transformed


@dataclass(frozen=True)
class Queries:
    """Rows of queries and of the pictures that are to be found; a transform that does not apply
    is not ``made``. Only the transformed side has a row for every transform, the other has one."""

    positions: list[int]  # of the queries in the collection
    rows: NDArray[np.float32]  # queries × transforms or 1 × views × dimension, on disk
    copies: NDArray[np.float32]  # queries × transforms or 1 × dimension, on disk
    made: NDArray[np.bool_]  # queries × transforms
    area_kept: NDArray[np.float64]  # share of the picture's area, queries × transforms

    def seen(self, column: int) -> NDArray[np.float32]:
        """Queries × views × dimension under one transform."""
        return self.rows[:, column if self.rows.shape[1] > 1 else 0]

    def copy(self, column: int) -> NDArray[np.float32]:
        return self.copies[:, column if self.copies.shape[1] > 1 else 0]


@dataclass(frozen=True)
class QueryMaker:
    """Makes the transformed pictures of one query; picklable, the same in every process."""

    transforms: tuple[Transform, ...]
    strangers: tuple[Item, ...]
    seed: int

    def one(self, item: Item, original: Image.Image, transform: Transform) -> Image.Image | None:
        if not transform.applies_to(original.size):
            return None
        others = self._others(item, transform.others)
        return transform(original, seed=self.seed, key=item.digest, others=others)

    def _others(self, item: Item, count: int) -> list[Image.Image]:
        if not count:
            return []
        rng = np.random.default_rng([self.seed, int(item.digest[:8], 16)])
        chosen = rng.permutation(len(self.strangers))[:count]
        return [self.strangers[index].image.open() for index in chosen]


def encode_queries(
    collection: Collection,
    positions: list[int],
    maker: QueryMaker,
    encoder: Encoder,
    folder: Path,
    *,
    views: Views | None = None,
    side: Side = "query",
    quiet: bool = False,
) -> Queries:
    """Encode queries and copies, one side under every transform, into files in ``folder``.

    Views are of the query, whichever side is transformed: in an audit the queries are few.
    """
    items = [collection.items[position] for position in positions]
    shape = (len(items), len(maker.transforms))
    made, area = np.zeros(shape, np.bool_), np.full(shape, np.nan)
    stored: dict[str, NDArray[np.float32]] = {}
    with progress("encoding queries", len(items), "pictures", disabled=quiet) as step:
        prepare = functools.partial(_prepared_query, maker, encoder, views, side)
        for index, (shares, seen, copies) in enumerate(_ahead(prepare, items)):
            made[index] = [share is not None for share in shares]
            area[index, made[index]] = [share for share in shares if share is not None]
            for name, pictures in (("rows", seen), ("copies", copies)):
                width = len(pictures[0])
                if any(len(viewed) != width for viewed in pictures):
                    raise InputError("every query needs the same number of views, these differ")
                encoded = _embedded(encoder, [image for viewed in pictures for image in viewed])
                encoded = encoded.reshape(len(pictures), width, encoder.dimension)
                whole = (name == "rows") == (side == "query")
                if name not in stored:
                    columns = shape[1] if whole else 1
                    stored[name] = np.lib.format.open_memmap(
                        folder / f"{name}.npy", "w+", np.float32,
                        (shape[0], columns, width, encoder.dimension),
                    )  # fmt: skip
                stored[name][index, made[index] if whole else 0] = encoded if whole else encoded[0]
            step()
    return Queries(positions, stored["rows"], stored["copies"][:, :, 0], made, area)


def encode_collection(
    collection: Collection, encoder: Encoder, block: int, *, quiet: bool = False
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(first position, rows) of the collection's pictures, ``block`` at a time."""
    with progress("encoding collection", len(collection), "pictures", disabled=quiet) as step:
        waiting: list[Any] = []
        parts: list[NDArray[np.float32]] = []
        start = 0
        prepare = functools.partial(_prepared_picture, encoder)
        for index, image in enumerate(_ahead(prepare, collection.items)):
            waiting.append(image)
            step()
            full = index + 1 - start == block or index + 1 == len(collection)
            if full or len(waiting) == _BATCH:
                parts.append(_embedded(encoder, waiting))
                waiting = []
            if full:
                yield start, np.concatenate(parts)
                start, parts = index + 1, []


def as_published(item: Item) -> Image.Image:
    """A picture of the collection, in the mode its queries start from."""
    return TRANSFORMS["original"](item.image.open())


def _prepared(encoder: Encoder, image: Image.Image) -> Any:
    return encoder.prepare(image) if isinstance(encoder, InTwoHalves) else image


def _prepared_picture(encoder: Encoder, item: Item) -> Any:
    return _prepared(encoder, as_published(item))


def _prepared_query(
    maker: QueryMaker, encoder: Encoder, views: Views | None, side: Side, item: Item
) -> tuple[list[float | None], list[list[Any]], list[list[Any]]]:
    """Per transform the share of the area it keeps, None where it is not made; then the prepared
    views of the query and the prepared copies, under every transform made or once."""

    def viewed(image: Image.Image) -> list[Any]:
        shown = [view for _, view in views(image)] if views else [image]
        return [_prepared(encoder, view) for view in shown]

    original = as_published(item)
    shares: list[float | None] = []
    transformed: list[list[Any]] = []
    for transform in maker.transforms:
        image = maker.one(item, original, transform)
        if image is None:
            shares.append(None)
            continue
        shares.append(image.width * image.height / (original.width * original.height))
        transformed.append(viewed(image) if side == "query" else [_prepared(encoder, image)])
    if side == "query":
        return shares, transformed, [[_prepared(encoder, original)]]
    return shares, [viewed(original)], transformed


def _embedded(encoder: Encoder, prepared: Sequence[Any]) -> NDArray[np.float32]:
    """Rows of prepared pictures, once they are what the protocol promises."""
    parts = []
    for start in range(0, len(prepared), _BATCH):
        batch = prepared[start : start + _BATCH]
        if isinstance(encoder, InTwoHalves):
            parts.append(encoder.embed(np.stack(batch)))
        else:
            parts.append(encoder.encode(batch))
    rows = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    if rows.shape != (len(prepared), encoder.dimension):
        raise InputError(
            f"{encoder.identity} encoded {len(prepared)} pictures as {rows.shape}; expected "
            f"{(len(prepared), encoder.dimension)}"
        )
    norms = np.linalg.norm(rows, axis=1)
    # A row of zeros is a picture the encoder sees nothing in. The test fails for NaN, too.
    if not np.all((np.abs(norms - 1.0) < 1e-2) | (norms == 0.0)):
        raise InputError(
            f"{encoder.identity} gives rows of length {norms.min():.3g} to {norms.max():.3g}; "
            f"a cosine needs unit rows"
        )
    return rows


def _ahead(make: Callable[[Task], Made], tasks: Sequence[Task]) -> Iterator[Made]:
    """make(task) in order, a few tasks ahead in threads: never all pictures in memory at once."""
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(make, task))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
