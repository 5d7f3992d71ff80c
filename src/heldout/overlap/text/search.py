"""Text search of one corpus, shard by shard: a killed search continues where it was."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.corpus import Corpus, Shard
from heldout.engine import Engine, map_salvaged, progress
from heldout.overlap.salvage import ShardSalvage, joined_results
from heldout.overlap.text.index import TextIndex
from heldout.overlap.text.scan import STAGE, lost_text, scan_text_shard
from heldout.store import Run, Stage

VERSION = 4  # raised when the same texts would give other rows


@dataclass
class TextResult:
    """The stage that holds the shards' tables, and what became of the work."""

    stage: Stage
    counts: dict[str, int]
    failed: dict[str, str]


def search_text(
    index: TextIndex,
    corpus: Corpus,
    run: Run,
    folder: str,
    settings: Mapping[str, Any],
    engine: Engine,
    quiet: bool,
) -> TextResult:
    """Scan what is not scanned yet. ``settings`` name the benchmark and how the corpus is read."""
    how = {**dataclasses.asdict(index.search), "encoder": index.encoder_identity, "text": VERSION}
    stage = run.stage(f"{STAGE}/{folder}", {**settings, "search": how})
    failed: dict[str, str] = {}
    title = f"texts of {corpus.name}"
    with progress(title, corpus.count_shards(), "shards", disabled=quiet) as step:

        def to_do() -> Iterator[Shard]:
            for shard in corpus.shards():
                if stage.plan(shard.index, shard.key):
                    yield shard
                else:
                    step()

        look = functools.partial(scan_text_shard, index, corpus)
        salvage = ShardSalvage(corpus, lost_text, joined_results)
        for outcome in map_salvaged(engine, look, to_do(), salvage):
            if outcome.value is None:
                failed[outcome.task.id] = outcome.error or "no result"
                step()
            else:
                stage.save(outcome.task.index, outcome.value)
                step(items=outcome.value.counts["text_items"])
    return TextResult(stage, stage.counts(), failed)
