"""One pass over a corpus: the nearest row of some pictures, its own among them or from elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import Corpus
from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, decode, is_blank, pixel_digest
from heldout.overlap.encoders import Encoder
from heldout.overlap.encoders.encoder import Floats, unit
from heldout.store import Dropped

_UNIT = 1e-2  # how far from length 1 rounding to fp16 may take a row


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Shards of embeddings as one tall matrix that is never in memory as a whole."""

    shards: tuple[NDArray[Any], ...]
    starts: NDArray[np.int64]
    count: int
    block_bytes: int

    @classmethod
    def of(cls, embeddings: NDArray[Any] | Sequence[NDArray[Any]], block_bytes: int) -> Rows:
        shards = (embeddings,) if isinstance(embeddings, np.ndarray) else tuple(embeddings)
        widths = {shard.shape[1:] for shard in shards}
        if len(widths) > 1 or any(shard.ndim != 2 for shard in shards):
            raise InputError(f"embeddings must be matrices of one width, not {sorted(widths)}")
        lengths = np.array([len(shard) for shard in shards], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(shards, starts[:-1], int(starts[-1]), block_bytes)

    def take(self, wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        """The wanted rows, in the order asked for."""
        shard = np.searchsorted(self.starts, wanted, side="right") - 1
        taken = np.empty((len(wanted), self.shards[0].shape[1]), dtype=np.float32)
        for number in np.unique(shard):
            here = np.flatnonzero(shard == number)
            taken[here] = self.shards[number][wanted[here] - self.starts[number]]
        return unit(taken)

    def blocks(self, height: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for start, shard in zip(self.starts.tolist(), self.shards, strict=True):
            for first in range(0, len(shard), height):
                block = np.asarray(shard[first : first + height], dtype=np.float32)
                norms = np.linalg.norm(block, axis=1)
                # Catches what is not a number, too. A row of zeros is a picture that shows nothing.
                wrong = ~((np.abs(norms - 1.0) <= _UNIT) | (norms == 0.0))
                if wrong.any():
                    raise InputError(
                        f"embedding row {start + first + int(wrong.argmax()):,} does not have "
                        f"length 1: normalise embeddings before they are compared by cosine"
                    )
                yield start + first, unit(block)


class Nearest(NamedTuple):
    similarity: NDArray[np.float64]  # -inf where every other row is a copy
    neighbour: NDArray[np.int64]
    copy: NDArray[np.bool_]  # an earlier row shows the same picture


def nearest_others(
    rows: Rows, chosen: NDArray[np.int64], duplicates: float, groups: NDArray[np.int64] | None
) -> Nearest:
    """For every chosen row its nearest row that is neither itself nor a copy of it."""
    queries = rows.take(chosen)
    best = np.full(len(chosen), -np.inf)
    neighbour = np.full(len(chosen), -1, dtype=np.int64)
    copy = np.zeros(len(chosen), dtype=bool)
    # Half of the memory for a corpus block, half for its similarities to a slice of the queries.
    height = max(1, rows.block_bytes // (8 * queries.shape[1]))
    width = max(1, rows.block_bytes // (16 * height))
    for start, block in rows.blocks(height):
        positions = np.arange(start, start + len(block))
        for first in range(0, len(chosen), width):
            some = slice(first, first + width)
            near = queries[some] @ block.T
            same = near >= duplicates
            if groups is not None:
                mine = groups[chosen[some]][:, None]
                same |= (mine == groups[positions][None, :]) & (mine >= 0)
            copy[some] |= (same & (positions[None, :] < chosen[some][:, None])).any(axis=1)
            same |= positions[None, :] == chosen[some][:, None]
            near[same] = -np.inf
            nearest = near.argmax(axis=1)
            value = near[np.arange(len(near)), nearest].astype(np.float64)
            # The first of equals wins, so that results do not depend on the size of a block.
            better = value > best[some]
            best[some] = np.where(better, value, best[some])
            neighbour[some] = np.where(better, positions[nearest], neighbour[some])
    neighbour[~queries.any(axis=1)] = -1  # a picture that shows nothing is near to nobody
    return Nearest(similarities_of(rows, queries, neighbour), neighbour, copy)


def nearest_in(rows: Rows, queries: NDArray[Any]) -> Nearest:
    """For every query (a picture of somewhere else) its nearest row; none of them is a copy.

    Queries are rounded as stored rows are, so that both sides of a calibration are measured alike.
    """
    asked = unit(np.asarray(queries, dtype=np.float16).astype(np.float32))
    best = np.full(len(asked), -np.inf)
    neighbour = np.full(len(asked), -1, dtype=np.int64)
    if rows.count and len(asked):
        height = max(1, rows.block_bytes // (8 * asked.shape[1]))
        width = max(1, rows.block_bytes // (8 * height))
        for start, block in rows.blocks(height):
            for first in range(0, len(asked), width):
                some = slice(first, first + width)
                near = asked[some] @ block.T
                nearest = near.argmax(axis=1)
                value = near[np.arange(len(near)), nearest].astype(np.float64)
                better = value > best[some]
                best[some] = np.where(better, value, best[some])
                neighbour[some] = np.where(better, start + nearest, neighbour[some])
    neighbour[~asked.any(axis=1)] = -1
    similarity = similarities_of(rows, asked, neighbour)
    return Nearest(similarity, neighbour, np.zeros(len(asked), dtype=bool))


def similarities_of(
    rows: Rows, queries: NDArray[np.float32], neighbour: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Products of blocks round differently for blocks of different shape; this does not."""
    array = np.full(len(queries), -np.inf)
    good = neighbour >= 0
    if good.any():
        partners = rows.take(neighbour[good]).astype(np.float64)
        array[good] = np.einsum("ij,ij->i", queries[good].astype(np.float64), partners)
    return array


# Pictures from elsewhere that thresholds are tried on: negative controls and reference nulls.


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
