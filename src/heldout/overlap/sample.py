"""SearchSample: what a search costs, measured on some items of shards from all over a corpus."""

from __future__ import annotations

import bisect
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, CorpusItem, EmbeddingCorpus, Shard, read_items
from heldout.image import ImageError
from heldout.overlap.images._pairs import by_shard, nearest_overall, verify_tasks
from heldout.overlap.images.embed import RowOrigins, ShardEmbeddings, numbered_rows
from heldout.overlap.images.embedding_rows import Queries, pictures_of
from heldout.overlap.images.embeddings import embed_with_parts
from heldout.overlap.images.encoder import open_encoder
from heldout.overlap.images.exact import build_index, scan_shard
from heldout.overlap.images.hashes import build_hash_index
from heldout.overlap.images.near import NearSearch, NeighbourIndex, NeighbourTask, neighbours_in
from heldout.overlap.images.verify import can_register, verify_shard
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import scan_text_shard

COMPARE, EMBED, JOIN, VERIFY, TEXTS = "compare", "embed", "join", "verify", "texts"
_PICTURES = 16  # of the benchmark, whose views are encoded
_PAIRS = 24  # that are verified
_FIRST = 16  # items of a shard; more where time is left
Value = TypeVar("Value")


@dataclass
class SearchSample:
    """Sums over what was looked at; ``core_seconds`` of each stage, for ``units`` of it."""

    shards: int = 0  # of the corpus
    looked_at: int = 0
    items: int = 0  # in the shards that were looked at
    measured: int = 0  # items that went through the stages
    image_bytes: int = 0  # of these
    benchmark_pictures: int = 0
    pairs: float = 0.0  # to verify, in the whole search
    core_seconds: dict[str, float] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)

    @property
    def total_items(self) -> float:
        return self.items / max(1, self.looked_at) * self.shards

    @property
    def total_bytes(self) -> float:
        return self.image_bytes / max(1, self.measured) * self.total_items

    def per_unit(self, stage: str) -> float:
        """Core seconds for an item, or for a pair to verify."""
        return self.core_seconds.get(stage, 0.0) / max(1e-9, self.units.get(stage, 0.0))

    def time(self, stage: str, units: float, work: Callable[[], Value]) -> Value:
        begun = time.process_time()
        value = work()
        spent = time.process_time() - begun
        self.core_seconds[stage] = self.core_seconds.get(stage, 0.0) + spent
        self.units[stage] = self.units.get(stage, 0.0) + units
        return value


def sample_search(
    benchmark: Benchmark,
    corpus: Corpus,
    *,
    near: NearSearch | None,
    hashes: bool,
    text: TextSearch | None,
    shards: int = 8,
    seconds: float = 20.0,
) -> SearchSample:
    """Put some items of ``shards`` shards through every stage, for about so many seconds in all.

    Args:
        benchmark: What is looked for.
        corpus: Where.
        near: The near search, if there is one.
        hashes: Whether perceptual hashes are compared.
        text: The search of texts, if there is one.
        shards: How many shards to look at; they lie evenly over the corpus.
        seconds: How long to measure; each shard gets its share.
    """
    listed = list(corpus.shards())
    places = np.unique(np.linspace(0, len(listed) - 1, min(shards, len(listed))).astype(int))
    chosen = [listed[place] for place in places]
    sample = SearchSample(shards=len(listed), looked_at=len(chosen))
    stages = _Stages(benchmark, corpus, near, hashes, text, sample)
    stages.warm_up(chosen[0])
    share = seconds / max(1, len(chosen))
    for shard in chosen:
        count, sizes = _count(corpus, shard)
        sample.items += count
        begun, first, step = time.perf_counter(), 0, _FIRST
        while first < count and (not first or time.perf_counter() - begun < share):
            stop = min(count, first + step)
            piece = replace(shard, span=(first, stop))
            sample.measured += stop - first
            sample.image_bytes += sum(sizes(piece))
            stages.run(piece, stop - first)
            first, step = stop, 2 * step
    stages.join()
    stages.verify(listed)
    return sample


def _count(corpus: Corpus, shard: Shard) -> tuple[int, Callable[[Shard], list[int]]]:
    count = sum(1 for _ in read_items(corpus, shard))

    def sizes(piece: Shard) -> list[int]:
        lengths = []
        for item in read_items(corpus, piece):
            if isinstance(item, CorpusItem) and item.image is not None:
                try:
                    lengths.append(len(item.image.read()))
                except ImageError:
                    continue
        return lengths

    return count, sizes


@dataclass(frozen=True)
class _Rows:
    """The rows of some items of one shard."""

    shard: int
    items: int
    rows: NDArray[Any]
    about: RowOrigins


class _Stages:
    """The functions that workers run, with what they are given, timed."""

    def __init__(
        self,
        benchmark: Benchmark,
        corpus: Corpus,
        near: NearSearch | None,
        hashes: bool,
        text: TextSearch | None,
        sample: SearchSample,
    ) -> None:
        self.corpus, self.near, self.sample = corpus, near, sample
        self.index, _ = build_index(benchmark)
        self.refs = pictures_of(benchmark)
        sample.benchmark_pictures = len(self.refs)
        self.hashes = build_hash_index(self.refs) if hashes else None
        self.text = build_text_index(benchmark, text)[0] if text is not None else None
        self.neighbours: NeighbourIndex | None = None
        self.candidates: list[dict[str, Any]] = []
        self.rows: list[_Rows] = []
        if near is not None and self._takes(near):
            self.neighbours = self._queries(near)

    def _takes(self, near: NearSearch) -> bool:
        return near.named or not isinstance(self.corpus, EmbeddingCorpus)

    def _queries(self, near: NearSearch) -> NeighbourIndex:
        encoder = open_encoder(near.encoder)
        keys: list[str] = []
        names: list[str] = []
        rows = []
        for key, ref in list(self.refs.items())[:_PICTURES]:
            seen, encoded = encoder.encode_views(ref.open())
            rows.append(encoded)
            keys += [key] * len(seen)
            names += seen
        queries = Queries(encoder.identity, np.concatenate(rows), tuple(keys), tuple(names))
        return NeighbourIndex(queries, near.nearest, encoder.aspects)

    def warm_up(self, shard: Shard) -> None:
        """Load what is loaded once per worker, and forget what that took."""
        self.run(replace(shard, span=(0, 1)), 1)
        self.sample.core_seconds.clear()
        self.sample.units.clear()
        self.rows.clear()

    def run(self, piece: Shard, items: int) -> None:
        sample, corpus = self.sample, self.corpus
        sample.time(COMPARE, items, lambda: scan_shard(self.index, self.hashes, corpus, piece))
        if self.near is not None and self.neighbours is not None:
            self._near(self.near.encoder, piece, items)
        if self.text is not None:
            index = self.text
            sample.time(TEXTS, items, lambda: scan_text_shard(index, corpus, piece))

    def _near(self, spec: str, piece: Shard, items: int) -> None:
        sample, corpus = self.sample, self.corpus
        if isinstance(corpus, EmbeddingCorpus):
            assert piece.span is not None
            first, stop = piece.span
            rows = np.asarray(corpus.embeddings(replace(piece, span=None))[first:stop])
            about = numbered_rows(piece.id, len(rows))
        else:
            embedded = sample.time(EMBED, items, lambda: embed_with_parts(spec, corpus, piece))
            rows, about = _by_value(embedded)
        self.rows.append(_Rows(piece.index, items, rows, about))

    def join(self) -> None:
        """All rows at once, as a shard of a large corpus has them: a call costs as much as many rows."""
        index, pieces = self.neighbours, self.rows
        if index is None or not pieces:
            return
        starts = np.cumsum([0, *(len(piece.about.ids) for piece in pieces)]).tolist()
        about = RowOrigins(
            [str(number) for number in range(starts[-1])],
            [digest for piece in pieces for digest in piece.about.digests],
            np.concatenate(
                [piece.about.items + start for piece, start in zip(pieces, starts, strict=False)]
            ),
            np.concatenate([piece.about.parts for piece in pieces]),
        )
        task = NeighbourTask(0, None, (np.concatenate([piece.rows for piece in pieces]), about))
        # The time of a join grows with the queries, and only some of them are here.
        share = min(_PICTURES, len(self.refs)) / max(1, len(self.refs))
        items = sum(piece.items for piece in pieces)
        neighbours_in(index, task)  # what is planned once is not counted
        result = self.sample.time(JOIN, items * share, lambda: neighbours_in(index, task))
        for row in result.tables["candidates"].to_pylist():
            place = bisect.bisect_right(starts, int(row["corpus_id"])) - 1
            own = pieces[place].about.ids[int(row["corpus_id"]) - starts[place]]
            self.candidates.append({**row, "shard": pieces[place].shard, "corpus_id": own})

    def verify(self, listed: Sequence[Shard]) -> None:
        """Pairs of the whole search are about those of a sample: every picture has its nearest ones."""
        if self.near is None or self.neighbours is None or not can_register():
            return
        kept = nearest_overall(self.candidates, self.near.nearest)
        looked_at = min(_PICTURES, len(self.refs))
        self.sample.pairs = len(kept) / max(1, looked_at) * len(self.refs)
        pictures = {key: (ref, self.index.by_key[key]) for key, ref in self.refs.items()}
        shards = {shard.index: shard for shard in listed}
        done = 0
        for task in verify_tasks(shards, sorted(by_shard(kept).items())):
            if done >= _PAIRS:
                break
            done += len(task.candidates)
            units = len(task.candidates)
            judge = functools.partial(verify_shard, pictures, True, self.corpus, task)
            self.sample.time(VERIFY, units, judge)


def _by_value(embedded: ShardEmbeddings) -> tuple[Any, RowOrigins]:
    rows = embedded.rows.astype(np.float16)
    ids = [item.id for item in embedded.items]
    owners = np.asarray(embedded.owners, np.int64)
    return rows, RowOrigins(
        ids, list(embedded.digests), owners, np.asarray(embedded.parts, np.int64)
    )
