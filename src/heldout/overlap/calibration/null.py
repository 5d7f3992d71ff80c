"""How close different pictures come: a corpus against itself, its copies taken out first.

A corpus holds copies of its own pictures. Left in, they put similarity 1 into the null, raise the
threshold and hide the very copies one looks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.errors import InputError
from heldout.overlap.calibration.leave_one_out import Rows, nearest_others

SAMPLE = 5000
_TAIL = 0.1  # thresholds are taken from the closest tenth, so that is where dependence matters


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Similarities of pictures to their nearest *different* picture, for one encoder."""

    similarities: NDArray[np.float64]  # descending
    encoder: str
    source: str  # where they come from, in words
    design_effect: float = 1.0  # how much neighbours of neighbours inflate the variance of counts
    duplicates: float | None = None  # pictures at least this similar were taken for copies
    copies: int = 0  # pictures left out because an earlier one is the same
    searched: int = 0  # corpus items every one of them was compared with
    seed: int = 0

    def __len__(self) -> int:
        return len(self.similarities)


def null_similarities(
    embeddings: NDArray[Any] | Sequence[NDArray[Any]],
    *,
    encoder: str,
    duplicates: float,
    groups: ArrayLike | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    block_bytes: int = 64 << 20,
) -> Null:
    """Leave-one-out nearest neighbours of up to ``sample`` corpus items among *all* corpus items.

    ``embeddings`` is a matrix of unit rows or a list of them (memory-mapped shards, fp16 or fp32);
    they are read in blocks, so memory is bounded by ``block_bytes`` and the sample, not the corpus.
    Two rows are copies where they are at least ``duplicates`` similar or share a label in
    ``groups`` (equal digests, say; negative labels mean none). Of a picture and its copies only the
    first row may enter, and its copies are nobody it can be close to. The sample is drawn from all
    rows by ``seed`` and does not depend on how the rows are cut into shards or blocks.
    """
    rows = Rows.of(embeddings, block_bytes)
    if rows.count < 2:
        raise InputError(f"a null needs at least two corpus items, this corpus has {rows.count}")
    if not -1.0 < duplicates <= 1.0 + 1e-6:
        raise InputError(f"duplicates is a cosine similarity, at most 1, not {duplicates}")
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    if labels is not None and len(labels) != rows.count:
        raise InputError(f"groups has {len(labels):,} labels for {rows.count:,} embeddings")
    order = np.random.default_rng(seed).permutation(rows.count)
    similarities: list[NDArray[np.float64]] = []
    neighbours: list[NDArray[np.int64]] = []
    own: list[NDArray[np.int64]] = []
    kept = copies = position = 0
    while kept < sample and position < rows.count:
        chosen = order[position : position + sample - kept]
        position += len(chosen)
        found = nearest_others(rows, chosen, duplicates, labels)
        good = ~found.copy & np.isfinite(found.similarity)
        copies += int(found.copy.sum())
        kept += int(good.sum())
        similarities.append(found.similarity[good])
        neighbours.append(found.neighbour[good])
        own.append(chosen[good])
    if kept == 0:
        raise InputError(
            f"every one of {rows.count:,} corpus items is a copy of another at {duplicates:g}: "
            f"nothing is left to calibrate on; raise duplicates or use a reference set"
        )
    values = np.concatenate(similarities)
    design = _design_effect(values, np.concatenate(own), np.concatenate(neighbours))
    return Null(
        np.sort(values)[::-1],
        encoder,
        "corpus against itself, leave-one-out, copies taken out",
        design,
        duplicates,
        copies,
        rows.count,
        seed,
    )


def reference_null(
    similarities: ArrayLike, *, encoder: str, source: str, neighbours: ArrayLike | None = None
) -> Null:
    """A null from any set of pictures known to be clean: their nearest similarities to the corpus.

    ``neighbours`` (the corpus item each is nearest to) lets the interval allow for pictures that
    are close for one common reason.
    """
    values = np.asarray(similarities, dtype=np.float64).ravel()
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"{source}: a null needs finite similarities, one per picture")
    design = 1.0
    if neighbours is not None:
        _, links = np.unique(np.asarray(neighbours), return_inverse=True)
        design = _design_effect(values, np.arange(len(values)), links + len(values))
    return Null(np.sort(values)[::-1], encoder, source, design)


def _design_effect(
    values: NDArray[np.float64], own: NDArray[np.int64], neighbours: NDArray[np.int64]
) -> float:
    """Mean size, as an item meets it, of the groups that nearest-neighbour links tie together.

    Two pictures that are each other's nearest give one similarity twice; ten slices of one study
    give ten that rise and fall together. They are worth one draw each, not two or ten.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tail = np.argsort(-values, kind="stable")[: max(1, round(_TAIL * len(values)))]
    _, nodes = np.unique(np.concatenate([own[tail], neighbours[tail]]), return_inverse=True)
    left, right = nodes[: len(tail)], nodes[len(tail) :]
    size = int(nodes.max()) + 1
    graph = coo_array((np.ones(len(tail)), (left, right)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    counts = np.bincount(component[left]).astype(np.float64)
    return float((counts**2).sum() / counts.sum())
