"""EmbeddingStore: the rows of one corpus by one encoder, shard by shard, for every run that asks.

A shard's number is a digest of its input, so a corpus that grew keeps what it has, and several runs
may share a folder without asking each other. What a run uses, and in which order, its sheet tells.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.corpus import Corpus, Shard
from heldout.errors import InputError, blame_the_machine
from heldout.image import PIXEL_DIGEST
from heldout.overlap.encoders.embed import Embedded
from heldout.overlap.encoders.encoder import require_same
from heldout.overlap.encoders.saved import (
    SavedEmbeddings,
    SavedShard,
    claim_identity,
    read_identity,
    save_shard,
    saved_shard,
    shard_counts,
)
from heldout.store import FAILED, MAY_PASS, exclusive, write_json

PARTS = "parts-1"  # how pictures are cut (overlap/parts.py): rows of another cut are other rows
_DIGITS = 15  # hexadecimal: a file's number has at most 19 digits


def corpus_settings(corpus: Corpus) -> dict[str, str]:
    """How a corpus is read. Its name is the user's choice of the day and changes no row."""
    known: dict[str, str] = (
        {one.name: repr(getattr(corpus, one.name)) for one in dataclasses.fields(corpus)}
        if dataclasses.is_dataclass(corpus)
        else {}
    )
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

    def save(self, shard: Shard, embedded: Embedded) -> None:
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
                    path.unlink(missing_ok=True)


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
        content = json.loads(path.read_text())
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
    made = {"encoder": saved.identity, "parts": PARTS, "digests": PIXEL_DIGEST}
    return {**made, "corpus": corpus_settings(corpus)}
