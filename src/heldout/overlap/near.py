"""Near search of one corpus: embedded once, joined shard by shard, its neighbours as candidates."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus
from heldout.engine import Engine, progress
from heldout.overlap.embeddings import embed_benchmark, embed_corpus
from heldout.overlap.encoders import Encoder, open_encoder
from heldout.overlap.neighbours import NEAREST, NeighbourIndex, NeighbourTask, neighbours_in
from heldout.overlap.regrade import Bounds
from heldout.store import Dropped, Run, Stage


@dataclass(frozen=True)
class NearSearch:
    """How to look beyond exact copies: with which encoder, and how many neighbours of a picture.

    ``embeddings`` is a folder that several runs share; without one they lie in the run folder.
    ``bounds`` are the encoder's hard and soft degree; without them those that were measured for it.
    """

    encoder: str = "pixels"
    nearest: int = NEAREST
    embeddings: Path | None = None
    bounds: Bounds | None = None


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
        self.index = NeighbourIndex(queries, near.nearest)

    def search(self, corpus: Corpus, folder: str, settings: dict[str, Any]) -> Neighbours:
        """Two stages over the corpus: its rows, which outlive the question, and who is near."""
        near, engine = self.near, self.engine
        rows = embed_corpus(
            corpus,
            near.encoder,
            self.encoder,
            self.run,
            engine,
            place=near.embeddings,
            quiet=self.quiet,
        )
        settings = {**settings, "encoder": self.encoder.identity, "nearest": near.nearest}
        stage = self.run.stage(f"neighbours/{folder}", settings)
        failed = dict(rows.failed)
        title = f"neighbours in {corpus.name}"
        with progress(title, len(rows.saved), "shards", disabled=self.quiet) as step:

            def to_do() -> Iterator[NeighbourTask]:
                for index, saved in rows.saved.items():
                    if stage.plan(index, rows.shards[index].key):
                        task = NeighbourTask(index, saved)
                        # Only workers on this machine see its disk.
                        seen = engine.name == "local"
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
