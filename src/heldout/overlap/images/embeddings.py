"""EmbeddingStore: the rows of one corpus by one encoder, shard by shard, for every run that asks.

A shard's number is a digest of its input, so a corpus that grew keeps what it has, and several runs
may share a folder without asking each other. What a run uses, and in which order, its sheet tells.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heldout.corpus import Corpus, EmbeddingCorpus, Shard, reading_settings
from heldout.engine import Engine, Kind, Outcome, ProgressStep, Work, progress, work_together
from heldout.errors import InputError, blame_the_machine
from heldout.image import PIXEL_DIGEST
from heldout.overlap.images._salvage import ShardSalvage
from heldout.overlap.images.embed import (
    CorpusRows,
    SavedEmbeddings,
    SavedShard,
    ShardEmbeddings,
    claim_identity,
    embed_shard,
    join_embedded,
    read_identity,
    save_shard,
    saved_shard,
    shard_counts,
)
from heldout.overlap.images.encoder import Encoder, open_encoder, parts, require_same
from heldout.overlap.settings import WHOLE, Part
from heldout.remote import located
from heldout.store import (
    FAILED,
    MAY_PASS,
    Dropped,
    Run,
    exclusive,
    file_name,
    read_document,
    remove,
    write_json,
)

PARTS = "parts-2"  # how pictures are cut (overlap/images/encoder.py): rows of another cut are other rows
_DIGITS = 15  # hexadecimal: a file's number has at most 19 digits


def corpus_settings(corpus: Corpus) -> dict[str, str]:
    """How a corpus is read. Its name is the user's choice of the day and changes no row."""
    known = reading_settings(corpus)
    place = str(Path(corpus.source.partition("#")[0]).resolve())
    return {**known, "name": "", "source": corpus.source, "place": place, "reader": corpus.reader}


@dataclass
class EmbeddingStore:
    """``folder`` belongs to one corpus and one encoder; ``shared`` if other runs use it, too."""

    folder: Path
    saved: SavedEmbeddings
    settings: dict[str, Any]
    shared: bool = False
    _planned: dict[int, tuple[int, str]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        try:
            claim_identity(self.folder, self.saved)
        except OSError as error:
            blame_the_machine(error)
            raise InputError(f"{self.folder} cannot be written: {error.strerror}") from error

    @classmethod
    def within(cls, place: Path, corpus: Corpus, saved: SavedEmbeddings) -> EmbeddingStore:
        """The folder for this corpus and encoder below ``place``, the setting ``embeddings``."""
        whose = read_identity(place)
        if whose is not None:
            require_same(whose.identity, saved.identity)
            raise InputError(
                f"embeddings {place}: it holds the embeddings of one corpus; name another folder for "
                f"those that several runs share"
            )
        settings = _settings(corpus, saved)
        name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        return cls(place / name, saved, settings, shared=True)

    @classmethod
    def of_run(cls, folder: Path, corpus: Corpus, saved: SavedEmbeddings) -> EmbeddingStore:
        return cls(folder, saved, _settings(corpus, saved))

    def plan(self, shard: Shard) -> bool:
        """Make ``shard`` part of what this run uses; True if it is still to embed."""
        # The first shard may speak for its corpus as a whole, so it is never just any shard.
        facts = [self.settings, shard.index == 0, shard.id, shard.key]
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        while key in self._taken:  # equal input twice is two shards
            key = hashlib.sha256(key.encode()).hexdigest()
        self._taken.add(key)
        number = int(key[:_DIGITS], 16)
        self._planned[shard.index] = (number, key)
        return self._to_do(number, key)

    def _to_do(self, number: int, key: str) -> bool:
        counts = shard_counts(self.folder, number, key)
        return counts is None or counts.get("missing", 0) > 0  # it may be there now

    def save(self, shard: Shard, embedded: ShardEmbeddings) -> None:
        number, key = self._planned[shard.index]
        # What failed here was compared by its hashes, so nobody else lists it: it is tried again.
        missing = sum(
            dropped.reason in MAY_PASS or dropped.reason == FAILED for dropped in embedded.dropped
        )
        counts = {"embedded": len(embedded.items), "missing": missing}
        with exclusive(self.folder / ".writer.lock"):
            if self.shared and not self._to_do(number, key):
                return  # another run was faster, and may be reading it
            save_shard(self.folder, number, embedded, key=key, counts=counts)

    def shards(self) -> dict[int, SavedShard]:
        """By shard index, what is finished of what was planned."""
        return {
            index: saved_shard(self.folder, number)
            for index, (number, key) in sorted(self._planned.items())
            if shard_counts(self.folder, number, key) is not None
        }

    def sweep(self) -> None:
        """Remove what the run no longer uses; a shared folder is not ours to sweep."""
        if self.shared:
            return
        kept = {
            Path(path)
            for shard in self.shards().values()
            for path in (shard.matrix, shard.metadata)
            if path
        }
        for place in ("img_emb", "metadata"):
            for path in (self.folder / place).glob("*"):
                if path not in kept:
                    remove(path)


def write_sheet(path: Path, identity: str, shards: list[SavedShard]) -> None:
    """Which matrices, in which order, are this corpus by this encoder."""

    def named(file: str | None) -> str | None:
        # Beside the sheet by its relative name, so that a run folder can be moved.
        if file is None or not Path(file).is_relative_to(path.parent):
            return str(Path(file).resolve()) if file else None
        return str(Path(file).relative_to(path.parent))

    rows = [[named(shard.matrix), named(shard.metadata), shard.corpus_name] for shard in shards]
    write_json(path, {"format": 1, "identity": identity, "shards": rows})


def read_sheet(path: Path) -> tuple[str, list[SavedShard]]:
    try:
        content = read_document(path)
        if content["format"] != 1:
            raise InputError(f"{path} has format {content['format']}, this heldout reads 1")
        base = path.parent
        shards = [
            SavedShard(str(base / matrix), str(base / metadata) if metadata else None, name)
            for matrix, metadata, name in content["shards"]
        ]
        return str(content["identity"]), shards
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not what heldout writes there ({error!r})") from error


def _settings(corpus: Corpus, saved: SavedEmbeddings) -> dict[str, Any]:
    identity = {"encoder": saved.identity, "parts": PARTS, "digests": PIXEL_DIGEST}
    return {**identity, "corpus": corpus_settings(corpus)}


# Where embeddings lie in a run folder, and which encoder a run asks for.


def encoder_folder(identity: str) -> str:
    """An encoder's identity as a folder name: the words a person knows it by, and a digest of all."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", identity.partition("|")[0]).strip("-")[:40]
    return f"{words}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def of_corpus(run: Run, corpus: str, identity: str) -> Path:
    return run.path / "embeddings" / file_name(corpus) / encoder_folder(identity)


def of_benchmark(run: Run, identity: str) -> Path:
    return run.path / "queries" / f"{encoder_folder(identity)}.parquet"


def encoder_asked_for(run: Run, identity: str | None, identities: Iterable[str], what: str) -> str:
    """``identity``, or the one encoder whose ``what`` this run holds."""
    known = sorted(set(identities))
    if identity is None:
        if len(known) == 1:
            return known[0]
        if known:
            raise InputError(
                f"{run.path} holds {what} of {len(known)} encoders ({'; '.join(known)}): name one"
            )
    elif identity in known:
        return identity
    wanted = f" of '{identity}'" if identity else ""
    raise InputError(
        f"{run.path} holds no {what}{wanted}: run heldout overlap with the setting encoder into it first"
    )


# embed_corpus: every shard of a corpus as saved rows, embedded where nobody has done so before.


SHEET = "sheet.json"


@dataclass
class EmbeddedCorpus:
    """By shard index: the shard and its saved rows. ``failed`` shards have none."""

    identity: str
    shards: dict[int, Shard] = field(default_factory=dict)
    saved: dict[int, SavedShard | CorpusRows] = field(default_factory=dict)
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
    part: Part = WHOLE,
    quiet: bool = False,
) -> EmbeddedCorpus:
    """The rows of ``corpus``, or of a part of it, in the run folder or in ``place``, where other runs find them.

    ``spec`` is how the user named ``encoder``: workers open it themselves.
    """
    embedding = CorpusEmbedding(corpus, spec, encoder, run, place=place, part=part)
    total = part.count_shards(corpus)
    with progress(f"embedding {corpus.name}", total, "shards", disabled=quiet) as step:
        work_together(engine, embedding.works(step))
    return embedding.finished()


class CorpusEmbedding:
    """What is to be done for the rows of a corpus, for an engine that may do other work beside it."""

    def __init__(
        self,
        corpus: Corpus,
        spec: str,
        encoder: Encoder,
        run: Run,
        *,
        place: Path | None = None,
        part: Part = WHOLE,
    ) -> None:
        self.corpus, self.spec, self.encoder, self.part = corpus, spec, encoder, part
        self.folder = of_corpus(run, corpus.name, encoder.identity)
        self.store: EmbeddingStore | None = None
        if isinstance(corpus, EmbeddingCorpus):
            self.result = _already_embedded(corpus, encoder, part)
            return
        self.result = EmbeddedCorpus(encoder.identity)
        saved = SavedEmbeddings(encoder.identity, encoder.dimension)
        self.store = (
            EmbeddingStore.of_run(self.folder, corpus, saved)
            if place is None
            else EmbeddingStore.within(place, corpus, saved)
        )

    def works(self, step: ProgressStep) -> list[Work[Shard, ShardEmbeddings]]:
        """The shards that nobody has embedded before; nothing where the corpus is embeddings."""
        store, result = self.store, self.result
        if store is None:
            return []

        def to_do() -> Iterator[Shard]:
            for shard in self.part.shards(self.corpus):
                result.shards[shard.index] = shard
                if store.plan(shard):
                    yield shard
                else:
                    step()

        def keep(outcome: Outcome[Shard, ShardEmbeddings]) -> None:
            if outcome.value is None:
                result.failed[outcome.task.id] = outcome.error or "no result"
                step()
                return
            # A worker may have loaded other weights under the same name.
            require_same(self.encoder.identity, outcome.value.identity)
            store.save(outcome.task, outcome.value)
            result.embedded += 1
            step(encoded=len(outcome.value.items) + len(outcome.value.dropped))

        embed = functools.partial(embed_with_parts, self.spec, self.corpus)
        salvage = ShardSalvage(self.corpus, self._lost, join_embedded)
        return [Work(Kind(embed, to_do(), on_gpu=runs_a_model(self.spec)), salvage, keep)]

    def _lost(self, dropped: Dropped) -> ShardEmbeddings:
        self.result.dropped.append(dropped)
        nothing = np.zeros((0, self.encoder.dimension), np.float16)
        return ShardEmbeddings(self.encoder.identity, rows=nothing, dropped=[dropped])

    def finished(self) -> EmbeddedCorpus:
        """What there is once the work is done; the run's sheet names it."""
        if self.store is not None:
            self.result.saved = dict(self.store.shards())
            self.store.sweep()
        files = [saved for saved in self.result.saved.values() if isinstance(saved, SavedShard)]
        write_sheet(self.folder / SHEET, self.encoder.identity, files)
        return self.result


def embed_with_parts(spec: str, corpus: Corpus, shard: Shard) -> ShardEmbeddings:
    """One shard, with panels and frames cut. Pure: the caller stores what is returned."""
    return embed_shard(corpus, shard, opened(spec), parts=parts)


def runs_a_model(spec: str) -> bool:
    """Whether an encoder is a network, which a GPU makes faster."""
    return spec.partition(":")[0] != "pixels"


@functools.lru_cache(maxsize=1)
def opened(spec: str) -> Encoder:
    return open_encoder(spec)  # once per worker, not once per shard


def _already_embedded(corpus: EmbeddingCorpus, encoder: Encoder, part: Part) -> EmbeddedCorpus:
    """A corpus that is embeddings: its rows are used as they lie, if they are of this encoder."""
    result = EmbeddedCorpus(encoder.identity)
    own = getattr(corpus, "encoder", None)
    if own is not None:  # a corpus that gives its rows itself says whose they are
        require_same(str(own), encoder.identity)
        result.shards = {shard.index: shard for shard in part.shards(corpus)}
        result.saved = {index: CorpusRows(corpus, shard) for index, shard in result.shards.items()}
        return result
    whose: dict[Path, SavedEmbeddings | None] = {}
    for shard in part.shards(corpus):
        matrix, metadata = shard.payload
        folder = located(matrix).parent
        for place in (folder, folder.parent):
            if place not in whose:
                whose[place] = read_identity(place)
        description = whose[folder] or whose[folder.parent]
        if description is None:
            raise InputError(
                f"{corpus.source}: there is no record of the encoder that made these embeddings. If you "
                f"know that it was the encoder '{encoder.identity}', say so in {folder.parent}/"
                f'encoder.json: {{"format": 1, "identity": "…", "dimension": {encoder.dimension}}}'
            )
        require_same(description.identity, encoder.identity)
        result.shards[shard.index] = shard
        try:
            corpus.embeddings(shard)
        except InputError as error:
            result.failed[shard.id] = str(error)
        else:
            result.saved[shard.index] = SavedShard(matrix, metadata, shard.id)
    return result
