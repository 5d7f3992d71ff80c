"""One pass over a corpus: the nearest row of some pictures, its own among them or from elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.corpus import Corpus, CorpusItem
from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, decode, is_blank, pixel_digest
from heldout.overlap.images.encoder import Encoder, Floats, unit
from heldout.overlap.nearness._studies import study_of
from heldout.store import Dropped

_UNIT = 1e-2  # how far from length 1 rounding to fp16 may take a row


@dataclass(frozen=True, slots=True, eq=False)
class TallMatrix:
    """Shards of embeddings as one tall matrix that is never in memory as a whole."""

    shards: tuple[NDArray[Any], ...]
    starts: NDArray[np.int64]
    count: int
    block_bytes: int

    @classmethod
    def of(cls, embeddings: NDArray[Any] | Sequence[NDArray[Any]], block_bytes: int) -> TallMatrix:
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


class NearestRows(NamedTuple):
    similarity: NDArray[np.float64]  # -inf where every other row is a copy
    neighbour: NDArray[np.int64]
    copy: NDArray[np.bool_]  # an earlier row shows the same picture


def nearest_others(
    rows: TallMatrix, chosen: NDArray[np.int64], duplicates: float, groups: NDArray[np.int64] | None
) -> NearestRows:
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
                own_groups = groups[chosen[some]][:, None]
                same |= (own_groups == groups[positions][None, :]) & (own_groups >= 0)
            copy[some] |= (same & (positions[None, :] < chosen[some][:, None])).any(axis=1)
            same |= positions[None, :] == chosen[some][:, None]
            near[same] = -np.inf
            nearest = near.argmax(axis=1)
            value = near[np.arange(len(near)), nearest].astype(np.float64)
            # The first of equals wins, so that results do not depend on the size of a block.
            better = value > best[some]
            best[some] = np.where(better, value, best[some])
            neighbour[some] = np.where(better, positions[nearest], neighbour[some])
    neighbour[~queries.any(axis=1)] = -1  # a blank picture has no neighbour
    return NearestRows(similarities_of(rows, queries, neighbour), neighbour, copy)


def nearest_in(rows: TallMatrix, queries: NDArray[Any]) -> NearestRows:
    """For every query (a picture of somewhere else) its nearest row; none of them is a copy.

    Queries are rounded as stored rows are, so that both sides of a calibration are measured alike.
    """
    directions = unit(np.asarray(queries, dtype=np.float16).astype(np.float32))
    best = np.full(len(directions), -np.inf)
    neighbour = np.full(len(directions), -1, dtype=np.int64)
    if rows.count and len(directions):
        height = max(1, rows.block_bytes // (8 * directions.shape[1]))
        width = max(1, rows.block_bytes // (8 * height))
        for start, block in rows.blocks(height):
            for first in range(0, len(directions), width):
                some = slice(first, first + width)
                near = directions[some] @ block.T
                nearest = near.argmax(axis=1)
                value = near[np.arange(len(near)), nearest].astype(np.float64)
                better = value > best[some]
                best[some] = np.where(better, value, best[some])
                neighbour[some] = np.where(better, start + nearest, neighbour[some])
    neighbour[~directions.any(axis=1)] = -1
    similarity = similarities_of(rows, directions, neighbour)
    return NearestRows(similarity, neighbour, np.zeros(len(directions), dtype=bool))


def similarities_of(
    rows: TallMatrix, queries: NDArray[np.float32], neighbour: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Products of blocks round differently for blocks of different shape; this does not."""
    array = np.full(len(queries), -np.inf)
    good = neighbour >= 0
    if good.any():
        partners = rows.take(neighbour[good]).astype(np.float64)
        array[good] = np.einsum("ij,ij->i", queries[good].astype(np.float64), partners)
    return array


# Pictures from elsewhere that thresholds are tried on: negative controls and reference nulls.


COPY_ROLE = "copy"  # the role of light copies of the benchmark among the nearest neighbours
STAGE = "calibration"
MOST = 5000  # pictures of a set that are looked at; a rate is known well enough by then
_BATCH = 32

Domain = Literal["in domain", "out of domain"]


@dataclass(frozen=True)
class ControlSet:
    """Pictures that are known not to be in the corpus, of the benchmark's kind or of another."""

    corpus: Corpus
    domain: Domain

    @property
    def name(self) -> str:
        return self.corpus.name


@dataclass
class Reference:
    """The distinct pictures of one set as vectors, upright and whole."""

    ids: list[str] = field(default_factory=list)
    studies: list[str] = field(default_factory=list)  # per picture; empty where nothing names one
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    dropped: list[Dropped] = field(default_factory=list)


def embed_reference(
    corpus: Corpus,
    encoder: Encoder,
    *,
    benchmark: Collection[str] = (),
    most: int = MOST,
    column: str | None = None,
    quiet: bool = False,
) -> Reference:
    """Up to ``most`` distinct pictures; those that the benchmark shows itself control nothing.

    ``column`` names their studies (``studies.study_of``).
    """
    result = Reference()
    parts = [np.zeros((0, encoder.dimension), np.float16)]
    waiting: list[Floats] = []
    with progress(f"embedding {corpus.name}", None, "images", disabled=quiet) as step:
        for item, prepared in _distinct(corpus, encoder, benchmark, most, result.dropped):
            result.ids.append(item.id)
            result.studies.append(study_of(item, column))
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
) -> Iterator[tuple[CorpusItem, Floats]]:
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
                yield item, encoder.prepare(image)


# How close different pictures come: a corpus against itself, its copies taken out first.
#
# A corpus holds copies of its own pictures. Left in, they put similarity 1 into the null, raise the
# threshold and hide the very copies one looks for.


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
        first, second = find(left), find(right)
        leader[max(first, second)] = min(first, second)
    return np.array([find(row) for row in range(len(rows))], dtype=np.int64)


def _mutual(own: NDArray[np.int64], neighbour: NDArray[np.int64]) -> list[tuple[int, int]]:
    place = {row: index for index, row in enumerate(own.tolist())}
    nearest = [place.get(row, -1) for row in neighbour.tolist()]
    return [
        (first, second)
        for first, second in enumerate(nearest)
        if second > first and nearest[second] == first
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
ITSELF = "corpus against itself: each picture and the others, copies left out"
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
    rows = TallMatrix.of(embeddings, block_bytes)
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
    rows: TallMatrix, sample: int, seed: int, duplicates: float, labels: NDArray[np.int64] | None
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
