"""Near search of one corpus: embedded once, joined shard by shard, its neighbours as candidates."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, EmbeddingCorpus
from heldout.engine import Engine, progress
from heldout.overlap.images._join import Hits, Needed, exact_similarity, select
from heldout.overlap.images._join_index import JoinIndex
from heldout.overlap.images.embed import CorpusRows, RowOrigins, SavedShard
from heldout.overlap.images.embedding_rows import Queries, embed_benchmark
from heldout.overlap.images.embeddings import CorpusEmbedding, EmbeddedCorpus
from heldout.overlap.images.encoder import WHOLE, Aspect, Encoder, open_encoder
from heldout.overlap.settings import NEAREST, Bounds, Part
from heldout.overlap.settings import WHOLE as WHOLE_CORPUS
from heldout.remote import QuantisedRows
from heldout.store import Dropped, Run, ShardResult, Stage, dropped_table, make_table

# Near neighbours: the benchmark's pictures, in many views, against every saved row of a shard.
#
# Embedding neighbours are candidates, never findings: ``verify`` decides which of them are copies.


_ROWS = 1 << 16  # copied at a time, where only some rows of a matrix take part
_WORTH_A_GPU = 1 << 34  # multiplications of a block: a core takes half a second or more
_WORTH_LOADING = 1 << 38  # multiplications that a core does while torch is loaded


class NeighbourIndex:
    """The queries of a near search. Every worker gets one, so they are in it once."""

    def __init__(
        self, queries: Queries, nearest: int, aspects: tuple[Aspect, ...] = (WHOLE,)
    ) -> None:
        self.identity, self.views, self.nearest = queries.identity, queries.views, nearest
        self.names, self.numbers = np.unique(np.array(queries.pictures, str), return_inverse=True)
        self.rows = queries.rows
        self.small = np.array([name in queries.small for name in self.names.tolist()], bool)
        self.aspects = tuple(AspectQueries(self, aspect) for aspect in aspects)


class AspectQueries:
    """The queries as one aspect of the encoder sees them, each different row of a picture once."""

    def __init__(self, index: NeighbourIndex, aspect: Aspect) -> None:
        self.aspect = aspect
        rows = aspect.of(index.rows)
        first: dict[tuple[int, bytes], int] = {}
        for place, (number, row) in enumerate(zip(index.numbers.tolist(), rows, strict=True)):
            # A crop of nothing but black has no layout, and is like nothing.
            if aspect.looks_at(index.views[place]) and row.any():
                first.setdefault((number, row.tobytes()), place)
        self.places = np.array(list(first.values()), np.intp)  # of its rows among the index's
        self.numbers = index.numbers[self.places]
        # One more than asked for: an exact copy is found already and must not take a place.
        self.join = JoinIndex(rows[self.places], k=index.nearest + 1, threshold=aspect.sure)

    def is_sure(self, score: float) -> bool:
        return self.aspect.sure is not None and score >= self.aspect.sure


@dataclass(frozen=True)
class NeighbourTask:
    """One shard's saved rows, or where the worker does not see this disk, what they say."""

    index: int
    saved: SavedShard | CorpusRows | None
    by_value: tuple[NDArray[Any], RowOrigins] | None = None

    def load(self) -> tuple[NDArray[Any], RowOrigins]:
        if self.by_value is not None:
            return self.by_value
        assert self.saved is not None  # one of the two is given
        rows = self.saved.rows()
        return rows, self.saved.described(len(rows))


def neighbours_in(index: NeighbourIndex, task: NeighbourTask) -> ShardResult:
    """The nearest pictures of one shard to every picture, as a table of candidates."""
    rows, about = task.load()
    first = _first_items(about)
    leads = first[about.items] == about.items
    whole, cut = (np.flatnonzero(leads & kind) for kind in (about.parts == 0, about.parts > 0))
    # As many rows as the nearest pictures may have parts, so that none of them is crowded out.
    most = int(np.bincount(about.items[cut]).max()) if len(cut) else 0
    candidates: list[dict[str, Any]] = []
    unusable: set[str] = set()
    shown_by: dict[int, list[int]] = {}  # of pictures that several items show
    for item in np.flatnonzero(first != np.arange(len(first))).tolist():
        shown_by.setdefault(int(first[item]), [int(first[item])]).append(item)
    for queries in index.aspects:
        needed = _Needed(queries, index.nearest, about)
        parts = [_scan(queries.join, queries.aspect, rows, whole, needed)]
        if len(cut):
            wider = queries.join.with_k((index.nearest + 1) * most)
            parts.append(_scan(wider, queries.aspect, rows, cut, needed))
        if queries.aspect.is_whole:  # a part of a usable row may well be empty
            unusable.update(about.ids[about.items[row]] for hits in parts for row in hits.unusable)
        candidates += [
            {
                **best,
                "corpus_id": about.ids[item],
                "digest": about.digests[item],
                "shard": task.index,
            }
            for lead, best in _best_pairs(index, queries, rows, about, parts)
            for item in shown_by.get(lead, (lead,))
        ]
    return ShardResult(
        tables={
            "candidates": make_table("candidates", candidates),
            "dropped": dropped_table(
                Dropped(
                    "overlap", identifier, "unusable embedding", "not a unit vector: not compared"
                )
                for identifier in sorted(unusable)
            ),
        },
        counts={"embedded": len(about.ids)},
    )


def _first_items(about: RowOrigins) -> NDArray[np.int64]:
    """Per item, the first item that shows the same picture: only that one is compared."""
    if not any(about.digests):
        return np.arange(len(about.digests))
    seen: dict[str, int] = {}
    first = [
        seen.setdefault(digest or f"item {item}", item) for item, digest in enumerate(about.digests)
    ]
    return np.array(first, np.int64)


def _scan(
    join: JoinIndex, aspect: Aspect, rows: NDArray[Any], kept: NDArray[np.intp], needed: _Needed
) -> Hits:
    best_hits = Hits.empty()
    for start in range(0, len(kept), _ROWS):
        some = kept[start : start + _ROWS]
        all_here = len(some) == len(rows) and isinstance(rows, np.ndarray)
        block: NDArray[Any] | QuantisedRows
        if isinstance(rows, QuantisedRows) and aspect.is_whole:
            block = rows.among(some)
        else:
            block = aspect.of(rows if all_here else rows[some])
        hits = _hits(join, block, join.floor_of(best_hits), needed.among(some))
        moved = Hits(hits.query, some[hits.position], hits.similarity, some[hits.unusable])
        best_hits = select((best_hits, moved), join.k, join.threshold)
    return best_hits


def _hits(
    join: JoinIndex,
    block: NDArray[Any] | QuantisedRows,
    floor: NDArray[np.float64] | None,
    needed: Needed,
) -> Hits:
    """The same from the GPU and from a core, but for pairs that nobody needs."""
    products = join.queries.size * len(block)
    if products >= _WORTH_A_GPU and _large.add(products) and has_gpu():
        from heldout.overlap.images._join_gpu import gpu_scan

        # Integers go there as they are: a quarter of the bytes.
        hits = gpu_scan(join, block.stored if isinstance(block, QuantisedRows) else block, floor)
        if hits is not None:
            return hits
    return join.scan(np.asarray(block), 0, floor, needed)


@dataclass
class _LargeBlocks:
    """What large blocks took from this process: as much as loading torch takes is spent before torch is loaded."""

    products: int = 0

    def add(self, products: int) -> bool:
        self.products += products
        return "torch" in sys.modules or self.products >= _WORTH_LOADING


_large = _LargeBlocks()


@functools.cache
def has_gpu() -> bool:
    """Whether torch and Triton reach a GPU with tensor cores, and nobody asked for processors."""
    if os.environ.get("HELDOUT_JOIN") == "cpu":
        return False
    installed = all(importlib.util.find_spec(name) for name in ("torch", "triton"))
    # Torch takes seconds to load: it is not asked where there is no driver.
    if not installed or not Path("/dev/nvidiactl").exists():
        return False
    import torch

    return bool(torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0))


@dataclass(frozen=True)
class _Needed:
    """Which pairs may be the best of a picture's views and an item's parts, for one of the nearest items.

    A picture has dozens of views and each has neighbours of its own; few of these pairs are ever told."""

    queries: AspectQueries
    nearest: int
    about: RowOrigins

    def among(self, rows: NDArray[np.intp]) -> Needed:
        return functools.partial(self._wanted, self.about.items[rows])

    def _wanted(
        self,
        items: NDArray[np.int64],
        query: NDArray[np.intp],
        row: NDArray[np.intp],
        quick: NDArray[np.float32],
        margin: float,
    ) -> NDArray[np.bool_]:
        if not len(query):
            return np.zeros(0, bool)
        picture, item, similarity = (
            self.queries.numbers[query],
            items[row],
            quick.astype(np.float64),
        )
        slack = 2 * margin + 1e-6  # both similarities that are compared may be off
        order = np.lexsort((-similarity, item, picture))
        leads = _changes(picture[order], item[order])
        best, owner = similarity[order[leads]], picture[order[leads]]
        ranked = np.lexsort((-best, owner))
        first = np.flatnonzero(_changes(owner[ranked]))
        lengths = np.diff(np.append(first, len(ranked)))
        last = first + np.minimum(lengths - 1, self.nearest)  # one more: see NeighbourIndex
        bar = np.empty(len(best))
        bar[ranked] = np.repeat(best[ranked[last]], lengths)
        group = np.cumsum(leads) - 1
        wanted = np.empty(len(query), bool)
        if self.queries.aspect.sure is not None:
            bar = np.minimum(bar, self.queries.aspect.sure)
        wanted[order] = (similarity[order] >= best[group] - slack) & (best >= bar - slack)[group]
        return wanted


def _changes(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a run of equal rows begins."""
    differs = [column[1:] != column[:-1] for column in columns]
    begins: NDArray[np.bool_] = np.r_[True, np.logical_or.reduce(differs)]
    return begins


def _best_pairs(
    index: NeighbourIndex,
    queries: AspectQueries,
    rows: NDArray[Any],
    about: RowOrigins,
    parts: list[Hits],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(item, candidate): of all views of a picture and all parts of an item, the two most alike.

    Per picture the ``nearest`` items, exact copies of it aside, that are as similar as the aspect asks.
    """
    query = np.concatenate([hits.query for hits in parts])
    position = np.concatenate([hits.position for hits in parts])
    item = about.items[position]
    score = np.concatenate([hits.similarity for hits in parts])
    picture = queries.numbers[query]
    order = np.lexsort((query, -score, item, picture))
    best = order[_changes(picture[order], item[order])] if len(order) else order
    aspect = queries.aspect
    least = np.where(index.small[picture[best]], aspect.least_small, aspect.least)
    best = best[score[best] >= least]
    best = best[np.lexsort((item[best], -score[best], picture[best]))]
    # Degrees are of whole rows, whichever aspect proposed the pair.
    places = queries.places[query[best]]
    similarity = (
        score[best]
        if queries.aspect.is_whole
        else exact_similarity(index.rows, rows, places, position[best])
    )
    taken: dict[int, int] = {}
    for place, near, own in zip(best, similarity, places, strict=True):
        number, owner = int(picture[place]), int(item[place])
        name = str(index.names[number])
        sure = queries.is_sure(float(score[place]))
        if about.digests[owner] == name or (taken.get(number, 0) >= index.nearest and not sure):
            continue
        taken[number] = taken.get(number, 0) + 1
        yield (
            owner,
            {
                "picture": name,
                "method": index.identity,
                "similarity": float(near),
                "view": index.views[int(own)],
                "aspect": queries.aspect.name,
                "score": float(score[place]),
                "sure": sure,
            },
        )


@dataclass(frozen=True)
class NearSearch:
    """How to look beyond exact copies: with which encoder, and how many neighbours of a picture.

    ``embeddings`` is a folder that several runs share; without one they lie in the run folder.
    ``bounds`` are the encoder's hard and soft degree; without them those that were measured for it.
    ``named``: the user asked for this encoder. One by default passes over corpora that are another
    encoder's embeddings.
    """

    encoder: str = "pixels"
    nearest: int = NEAREST
    embeddings: Path | None = None
    bounds: Bounds | None = None
    named: bool = True


@dataclass
class Neighbours:
    """The stage that holds the candidates, and what became of the work."""

    stage: Stage
    counts: dict[str, int]
    failed: dict[str, str]
    dropped: list[Dropped]  # lost while they were embedded


class NearSearcher:
    """A near search with its benchmark's side done: ask it about one corpus after the other."""

    def __init__(
        self, near: NearSearch, benchmark: Benchmark, run: Run, engine: Engine, quiet: bool
    ) -> None:
        self.near, self.run, self.engine, self.quiet = near, run, engine, quiet
        self.encoder: Encoder = open_encoder(near.encoder)
        queries = embed_benchmark(benchmark, near.encoder, self.encoder, run, engine, quiet=quiet)
        self.index = NeighbourIndex(queries, near.nearest, self.encoder.aspects)

    def takes(self, corpus: Corpus) -> bool:
        return self.near.named or not isinstance(corpus, EmbeddingCorpus)

    def embedding(self, corpus: Corpus, part: Part = WHOLE_CORPUS) -> CorpusEmbedding:
        """Its rows, which outlive the question."""
        near = self.near
        return CorpusEmbedding(
            corpus, near.encoder, self.encoder, self.run, place=near.embeddings, part=part
        )

    def search(
        self, corpus: Corpus, folder: str, settings: dict[str, Any], rows: EmbeddedCorpus
    ) -> Neighbours:
        """Who is near, among the rows of a corpus."""
        near, engine = self.near, self.engine
        settings = {
            **settings,
            "encoder": self.encoder.identity,
            "nearest": near.nearest,
            "aspects": [
                (aspect.name, aspect.least, aspect.least_small, aspect.sure)
                for aspect in self.encoder.aspects
            ],
        }
        stage = self.run.stage(f"neighbours/{folder}", settings)
        failed = dict(rows.failed)
        title = f"neighbours in {corpus.name}"
        with progress(title, len(rows.saved), "shards", disabled=self.quiet) as step:

            def to_do() -> Iterator[NeighbourTask]:
                for index, saved in rows.saved.items():
                    if stage.plan(index, rows.shards[index].key):
                        task = NeighbourTask(index, saved)
                        # Only workers on this machine see its disk; a corpus is read everywhere.
                        seen = engine.name == "local" or isinstance(corpus, EmbeddingCorpus)
                        yield task if seen else replace(task, by_value=task.load())
                    else:
                        step()

            judge = functools.partial(neighbours_in, self.index)
            for outcome in engine.map(judge, to_do()):
                if outcome.value is None:
                    name = rows.shards[outcome.task.index].id
                    failed[name] = outcome.error or "no result"
                else:
                    stage.save(outcome.task.index, outcome.value)
                step()
        counts = {**stage.counts(), "embedded_shards": rows.embedded}
        return Neighbours(stage, counts, failed, rows.dropped)
