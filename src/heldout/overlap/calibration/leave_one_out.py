"""One pass over a corpus: for some of its rows, the nearest other row that is not a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError

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
        taken /= np.linalg.norm(taken, axis=1, keepdims=True)
        return taken

    def blocks(self, height: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for start, shard in zip(self.starts.tolist(), self.shards, strict=True):
            for first in range(0, len(shard), height):
                block = np.asarray(shard[first : first + height], dtype=np.float32)
                norms = np.linalg.norm(block, axis=1)
                wrong = ~(np.abs(norms - 1.0) <= _UNIT)  # catches what is not a number, too
                if wrong.any():
                    raise InputError(
                        f"embedding row {start + first + int(wrong.argmax()):,} does not have "
                        f"length 1: normalise embeddings before they are compared by cosine"
                    )
                yield start + first, block / norms[:, None]


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
    # Products of blocks round differently for blocks of different shape; this does not.
    good = neighbour >= 0
    partners = rows.take(neighbour[good]).astype(np.float64)
    best[good] = np.einsum("ij,ij->i", queries[good].astype(np.float64), partners)
    return Nearest(best, neighbour, copy)
