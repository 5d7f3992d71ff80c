"""Near neighbours: the benchmark's pictures, in many views, against every picture of a shard.

Embedding neighbours are candidates, never findings: ``verify`` decides which of them are copies.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, Shard
from heldout.image import ImageRef
from heldout.overlap.encoders import embed_shard, open_encoder
from heldout.overlap.exact import picture_key
from heldout.overlap.join import Hits, JoinIndex
from heldout.overlap.parts import parts
from heldout.store import ShardResult, dropped_table, make_table

NEAREST = 5  # candidates per picture that are looked at, however far they are


@dataclass(frozen=True)
class NeighbourIndex:
    """The queries: one row per view of each picture. Small and picklable."""

    encoder: str  # as the user named it; workers open it themselves
    identity: str
    join: JoinIndex
    pictures: tuple[str, ...]  # per row, the key of its picture
    views: tuple[str, ...]  # per row, what the view is called


def pictures_of(benchmark: Benchmark) -> dict[str, ImageRef]:
    """One reference per distinct picture that can be compared and decoded."""
    found: dict[str, ImageRef] = {}
    for ref in benchmark.images:
        key = picture_key(benchmark, ref)
        if key and ":" not in key:
            found.setdefault(key, ref)
    return found


def build_neighbour_index(benchmark: Benchmark, encoder: str, nearest: int) -> NeighbourIndex:
    opened = open_encoder(encoder)
    rows, pictures, names = [], [], []
    for key, ref in pictures_of(benchmark).items():
        seen, encoded = opened.encode_views(ref.open())
        rows.append(encoded)
        pictures += [key] * len(seen)
        names += seen
    matrix = np.concatenate(rows) if rows else np.zeros((0, opened.dimension), np.float32)
    join = JoinIndex(matrix, k=nearest)
    return NeighbourIndex(encoder, opened.identity, join, tuple(pictures), tuple(names))


@functools.lru_cache(maxsize=1)
def _encoder(spec: str) -> Any:
    return open_encoder(spec)  # once per worker, not once per shard


def neighbours_in(index: NeighbourIndex, corpus: Corpus, shard: Shard) -> ShardResult:
    """The nearest items of one shard to every picture, as a table of candidates."""
    embedded = embed_shard(corpus, shard, _encoder(index.encoder), parts=parts)
    hits = index.join.scan(embedded.rows)
    rows = [
        {**best, "corpus_id": embedded.items[best.pop("item")].id, "shard": shard.index}
        for best in best_views(index, hits, embedded.owners)
    ]
    return ShardResult(
        tables={
            "candidates": make_table("candidates", rows),
            "dropped": dropped_table(embedded.dropped),
        },
        counts={"embedded": len(embedded.items)},
    )


def best_views(
    index: NeighbourIndex, hits: Hits, owners: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Of all views of a picture and all parts of an item that met, the two most alike."""
    best: dict[tuple[str, int], tuple[float, int]] = {}
    for row, position, similarity in zip(hits.query, hits.position, hits.similarity, strict=True):
        key = (index.pictures[row], owners[position])
        if key not in best or best[key] < (float(similarity), -int(row)):
            best[key] = (float(similarity), -int(row))
    for (picture, item), (similarity, row) in sorted(best.items()):
        yield {
            "picture": picture,
            "item": item,
            "similarity": similarity,
            "view": index.views[-row],
        }
