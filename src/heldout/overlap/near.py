"""Near search of one corpus: neighbours of every picture, shard by shard, then verified pair by pair."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, Shard
from heldout.engine import Engine, progress
from heldout.overlap.exact import ExactIndex
from heldout.overlap.neighbours import (
    NEAREST,
    NeighbourIndex,
    build_neighbour_index,
    neighbours_in,
    pictures_of,
)
from heldout.overlap.verify import VerifyTask, nearest_overall, verify_shard, verify_tasks
from heldout.store import Run, Stage


@dataclass(frozen=True)
class NearSearch:
    """How to look beyond exact copies: with which encoder, and how many neighbours of a picture."""

    encoder: str = "pixels"
    nearest: int = NEAREST


@dataclass
class NearResult:
    """The stage that holds the verified pairs, and what became of the work."""

    stage: Stage
    counts: dict[str, int]
    failed: dict[str, str]


def near_index(benchmark: Benchmark, near: NearSearch) -> NeighbourIndex:
    return build_neighbour_index(benchmark, near.encoder, near.nearest)


def search_near(
    benchmark: Benchmark,
    index: NeighbourIndex,
    exact: ExactIndex,
    near: NearSearch,
    corpus: Corpus,
    run: Run,
    folder: str,
    settings: dict[str, Any],
    engine: Engine,
    quiet: bool,
) -> NearResult:
    """Two stages over the corpus; each resumes on its own."""
    settings = {**settings, "encoder": index.identity, "nearest": near.nearest}
    failed: dict[str, str] = {}
    neighbours = run.stage(f"neighbours/{folder}", settings)
    shards: dict[int, Shard] = {}
    with progress(
        f"neighbours in {corpus.name}", corpus.count_shards(), "shards", disabled=quiet
    ) as step:

        def to_do() -> Iterator[Shard]:
            for shard in corpus.shards():
                shards[shard.index] = shard
                if neighbours.plan(shard.index, shard.key):
                    yield shard
                else:
                    step()

        for outcome in engine.map(functools.partial(neighbours_in, index, corpus), to_do()):
            if outcome.value is None:
                failed[outcome.task.id] = outcome.error or "no result"
            else:
                neighbours.save(outcome.task.index, outcome.value)
            step()
    verified = run.stage(f"verified/{folder}", settings)
    by_shard = nearest_overall(_candidates(neighbours), near.nearest)
    refs = pictures_of(benchmark)
    pictures = {key: (ref, exact.by_key[key]) for key, ref in refs.items()}
    pairs = sum(len(found) for found in by_shard.values())
    with progress(f"verifying pairs of {corpus.name}", pairs, "pairs", disabled=quiet) as step:

        def to_verify() -> Iterator[VerifyTask]:
            for task in verify_tasks(shards, by_shard):
                key = hashlib.sha256(repr((task.shard.key, task.candidates)).encode()).hexdigest()
                if verified.plan(task.index, key):
                    yield task
                else:
                    step(len(task.candidates))

        judge = functools.partial(verify_shard, pictures, index.identity, corpus)
        for result in engine.map(judge, to_verify()):
            if result.value is None:
                failed[result.task.shard.id] = result.error or "no result"
            else:
                verified.save(result.task.index, result.value)
            step(len(result.task.candidates))
    neighbours.sweep()
    return NearResult(verified, {**neighbours.counts(), **verified.counts()}, failed)


def _candidates(stage: Stage) -> Iterator[dict[str, Any]]:
    for path in stage.parts("candidates"):
        yield from pq.read_table(path).to_pylist()
