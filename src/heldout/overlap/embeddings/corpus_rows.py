"""embed_corpus: every shard of a corpus as saved rows, embedded where nobody has done so before."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from heldout.corpus import Corpus, EmbeddingCorpus, Shard
from heldout.engine import Engine, map_salvaged, progress
from heldout.errors import InputError
from heldout.overlap.embeddings import folders
from heldout.overlap.embeddings.store import EmbeddingStore, write_sheet
from heldout.overlap.encoders import Embedded, Encoder, embed_shard, open_encoder, require_same
from heldout.overlap.encoders.embed import join_embedded
from heldout.overlap.encoders.saved import SavedEmbeddings, SavedShard, read_identity
from heldout.overlap.parts import parts
from heldout.overlap.salvage import ShardSalvage
from heldout.store import Dropped, Run

SHEET = "sheet.json"


@dataclass
class EmbeddedCorpus:
    """By shard index: the shard and its saved rows. ``failed`` shards have none."""

    identity: str
    shards: dict[int, Shard] = field(default_factory=dict)
    saved: dict[int, SavedShard] = field(default_factory=dict)
    embedded: int = 0  # shards that were embedded now; the others were there
    failed: dict[str, str] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)  # lost with their worker or by an error


def embed_corpus(
    corpus: Corpus,
    spec: str,
    encoder: Encoder,
    run: Run,
    engine: Engine,
    *,
    place: Path | None = None,
    quiet: bool = False,
) -> EmbeddedCorpus:
    """The rows of ``corpus``, in the run folder or in ``place``, where other runs find them.

    ``spec`` is how the user named ``encoder``: workers open it themselves.
    """
    folder = folders.of_corpus(run, corpus.name, encoder.identity)
    if isinstance(corpus, EmbeddingCorpus):
        result = _already_embedded(corpus, encoder)
    else:
        saved = SavedEmbeddings(encoder.identity, encoder.dimension)
        store = (
            EmbeddingStore.of_run(folder, corpus, saved)
            if place is None
            else EmbeddingStore.within(place, corpus, saved)
        )
        result = _embed(corpus, spec, encoder, store, engine, quiet)
        store.sweep()
    write_sheet(folder / SHEET, encoder.identity, list(result.saved.values()))
    return result


def _embed(
    corpus: Corpus, spec: str, encoder: Encoder, store: EmbeddingStore, engine: Engine, quiet: bool
) -> EmbeddedCorpus:
    result = EmbeddedCorpus(encoder.identity)

    def of_lost(dropped: Dropped) -> Embedded:
        result.dropped.append(dropped)
        nothing = np.zeros((0, encoder.dimension), np.float16)
        return Embedded(encoder.identity, rows=nothing, dropped=[dropped])

    title = f"embedding {corpus.name}"
    with progress(title, corpus.count_shards(), "shards", disabled=quiet) as step:

        def to_do() -> Iterator[Shard]:
            for shard in corpus.shards():
                result.shards[shard.index] = shard
                if store.plan(shard):
                    yield shard
                else:
                    step()

        work = functools.partial(embed_with_parts, spec, corpus)
        salvage = ShardSalvage(corpus, of_lost, join_embedded)
        for outcome in map_salvaged(engine, work, to_do(), salvage):
            if outcome.value is None:
                result.failed[outcome.task.id] = outcome.error or "no result"
            else:
                # A worker may have loaded other weights under the same name.
                require_same(encoder.identity, outcome.value.identity)
                store.save(outcome.task, outcome.value)
                result.embedded += 1
            step()
    result.saved = store.shards()
    return result


def embed_with_parts(spec: str, corpus: Corpus, shard: Shard) -> Embedded:
    """One shard, with panels and frames cut. Pure: the caller stores what is returned."""
    return embed_shard(corpus, shard, opened(spec), parts=parts)


@functools.lru_cache(maxsize=1)
def opened(spec: str) -> Encoder:
    return open_encoder(spec)  # once per worker, not once per shard


def _already_embedded(corpus: EmbeddingCorpus, encoder: Encoder) -> EmbeddedCorpus:
    """A corpus that is embeddings: its rows are used as they lie, if they are of this encoder."""
    result = EmbeddedCorpus(encoder.identity)
    whose: dict[Path, SavedEmbeddings | None] = {}
    for shard in corpus.shards():
        matrix, metadata = shard.payload
        folder = Path(matrix).parent
        for place in (folder, folder.parent):
            if place not in whose:
                whose[place] = read_identity(place)
        said = whose[folder] or whose[folder.parent]
        if said is None:
            raise InputError(
                f"{corpus.source}: nobody wrote down which encoder made these embeddings. If you "
                f"know that it was the encoder '{encoder.identity}', say so in {folder.parent}/"
                f'encoder.json: {{"format": 1, "identity": "…", "dimension": {encoder.dimension}}}'
            )
        require_same(said.identity, encoder.identity)
        result.shards[shard.index] = shard
        try:
            corpus.embeddings(shard)
        except InputError as error:
            result.failed[shard.id] = str(error)
        else:
            result.saved[shard.index] = SavedShard(matrix, metadata, shard.id)
    return result
