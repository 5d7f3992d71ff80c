"""How close different pictures come: a corpus against itself, its copies taken out first.

A corpus holds copies of its own pictures. Left in, they put similarity 1 into the null, raise the
threshold and hide the very copies one looks for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.errors import InputError
from heldout.overlap.calibration.nearest import Rows, nearest_others

# Which pictures of a set are near to a corpus for one and the same reason.
#
# Two slices of one study have the same nearest corpus picture and are much nearer to each other than to
# it: by the triangle inequality they exceed a threshold together or not at all. Two strangers that share
# a typical neighbour are, given the corpus, two draws.


_HALF = 0.5  # of the distance to the neighbour; distances go by the root of 1 − cosine


def related_pictures(
    rows: NDArray[Any],
    neighbour: NDArray[np.int64],
    similarity: NDArray[np.float64],
    *,
    own: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Per row the first row it belongs together with, itself where it stands alone.

    ``own`` are the rows' places among what ``neighbour`` counts, where a corpus is compared with
    itself: two that are each other's nearest give one similarity twice.
    """
    leader = list(range(len(rows)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    pairs = [] if own is None else _mutual(own, neighbour)
    for left, right in [*pairs, *_together(rows, neighbour, similarity)]:
        one, other = find(left), find(right)
        leader[max(one, other)] = min(one, other)
    return np.array([find(row) for row in range(len(rows))], dtype=np.int64)


def _mutual(own: NDArray[np.int64], neighbour: NDArray[np.int64]) -> list[tuple[int, int]]:
    place = {row: index for index, row in enumerate(own.tolist())}
    nearest = [place.get(row, -1) for row in neighbour.tolist()]
    return [
        (one, other) for one, other in enumerate(nearest) if other > one and nearest[other] == one
    ]


def _together(
    rows: NDArray[Any], neighbour: NDArray[np.int64], similarity: NDArray[np.float64]
) -> Iterator[tuple[int, int]]:
    """Pairs that share their neighbour and are closer than half the distance to it."""
    sharing: dict[int, list[int]] = defaultdict(list)
    for row, shared in enumerate(neighbour.tolist()):
        if shared >= 0:
            sharing[shared].append(row)
    for members in sharing.values():
        if len(members) < 2:
            continue
        own = np.asarray(rows[members], dtype=np.float32)
        weaker = np.minimum.outer(similarity[members], similarity[members])
        close = 1.0 - own @ own.T < (1.0 - weaker) * _HALF**2
        for left, right in zip(*np.nonzero(np.triu(close, 1)), strict=True):
            yield members[left], members[right]


def mean_group(labels: Sequence[str] | Sequence[int]) -> float:
    """The mean size of the groups as a picture meets it: how many draws count as one."""
    if not len(labels):
        return 1.0
    _, counts = np.unique(np.array(labels, dtype=object), return_counts=True)
    return float((counts.astype(np.float64) ** 2).sum() / counts.sum())


SAMPLE = 5000
ITSELF = "corpus against itself, leave-one-out, copies taken out"
_TAIL = 0.1  # thresholds are taken from the closest tenth, so that is where dependence matters


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Similarities of pictures to their nearest *different* picture, for one encoder."""

    similarities: NDArray[np.float64]  # descending
    encoder: str
    source: str  # where they come from, in words
    design_effect: float = 1.0  # how many pictures of the tail are near for one reason
    duplicates: float | None = None  # pictures at least this similar were taken for copies
    copies: int = 0  # pictures left out because an earlier one is the same
    searched: int = 0  # corpus items every one of them was compared with
    seed: int = 0
    #: per value a label; equal ones are near for one reason and count once
    related: NDArray[Any] | None = None
    #: per value the row it belongs to and the row it is nearest to, in a corpus against itself
    links: NDArray[np.int64] | None = None

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
    taken = _sample(rows, sample, seed, duplicates, labels)
    if len(taken.own) == 0:
        raise InputError(
            f"every one of {rows.count:,} corpus items is a copy of another at {duplicates:g}: "
            f"nothing is left to calibrate on; raise duplicates or use a reference set"
        )
    related = related_pictures(
        rows.take(taken.own), taken.neighbour, taken.similarity, own=taken.own
    )
    return _null(
        taken.similarity,
        related,
        links=np.stack([taken.own, taken.neighbour], axis=1),
        encoder=encoder,
        source=ITSELF,
        duplicates=duplicates,
        copies=taken.copies,
        searched=rows.count,
        seed=seed,
    )


class Taken(NamedTuple):
    similarity: NDArray[np.float64]
    own: NDArray[np.int64]
    neighbour: NDArray[np.int64]
    copies: int


def _sample(
    rows: Rows, sample: int, seed: int, duplicates: float, labels: NDArray[np.int64] | None
) -> Taken:
    """Rows drawn until ``sample`` of them are no copy of an earlier one, or none is left."""
    order = np.random.default_rng(seed).permutation(rows.count)
    parts = [(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))]
    kept = copies = position = 0
    while kept < sample and position < rows.count:
        chosen = order[position : position + sample - kept]
        position += len(chosen)
        nearest = nearest_others(rows, chosen, duplicates, labels)
        good = ~nearest.copy & np.isfinite(nearest.similarity)
        copies += int(nearest.copy.sum())
        kept += int(good.sum())
        parts.append((nearest.similarity[good], chosen[good], nearest.neighbour[good]))
    similarity, own, neighbour = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Taken(similarity, own, neighbour, copies)


def reference_null(
    similarities: ArrayLike, *, encoder: str, source: str, related: ArrayLike | None = None
) -> Null:
    """A null from any set of pictures known to be clean: their nearest similarities to the corpus.

    ``related`` labels pictures that are close for one common reason: they count as one.
    """
    values = np.asarray(similarities, dtype=np.float64).ravel()
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"{source}: a null needs finite similarities, one per picture")
    return _null(values, related, encoder=encoder, source=source)


def _null(
    values: NDArray[np.float64],
    related: ArrayLike | None,
    links: NDArray[np.int64] | None = None,
    **facts: Any,
) -> Null:
    order = np.argsort(-values, kind="stable")
    labels = np.arange(len(values)) if related is None else np.asarray(related)
    if len(labels) != len(values):
        raise InputError(f"related has {len(labels):,} labels for {len(values):,} similarities")
    tail = order[: max(1, round(_TAIL * len(values)))]
    return Null(
        values[order],
        design_effect=mean_group(labels[tail].tolist()),
        related=labels[order],
        links=None if links is None else links[order],
        **facts,
    )


def recorded_null(similarities: ArrayLike, related: ArrayLike, **facts: Any) -> Null:
    """The null that was written down."""
    null = reference_null(
        similarities, related=related, encoder=facts.pop("encoder"), source=facts.pop("source")
    )
    return replace(null, **facts)
