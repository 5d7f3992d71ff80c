"""Corpus: what a benchmark may have leaked into, as a stream of items in shards.

A corpus is never assumed to fit in memory, and neither is the list of its items. It is a small
picklable object: workers receive it with one shard and read that shard themselves. Shards, their
order and the ids of their items depend on the data alone, never on how many workers read them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heldout.image import ImageRef
from heldout.store import Dropped


@dataclass(frozen=True, slots=True)
class Shard:
    """A piece of a corpus that one worker reads from start to end.

    ``key`` changes when the shard's input changes (name, size, modification time), so that a
    resumed run repeats exactly the shards whose input is new. ``payload`` is what the reader that
    made the shard needs to find it again; nobody else looks inside. ``span`` makes it a piece of a
    shard: the items (and what was dropped) from the first number up to, not including, the second.
    """

    index: int
    id: str
    key: str
    payload: Any = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CorpusItem:
    """One item: an image, a text, or both. Structured text keeps its question and answer apart.

    ``also`` holds further pairs: later turns of a conversation, other accepted answers.
    """

    id: str
    image: ImageRef | None = None
    text: str | None = None
    question: str | None = None
    answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[tuple[str | None, str], ...] = ()


@runtime_checkable
class Corpus(Protocol):
    name: str
    source: str  # as the user wrote it
    reader: str  # which reader reads it

    def shards(self) -> Iterator[Shard]:
        """Shards in their stable order, listed lazily."""
        ...

    def count_shards(self) -> int | None:
        """How many shards there are, if that is known without reading the corpus."""
        ...

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        """Items of one shard in their stable order; whatever cannot be read, as Dropped."""
        ...


def read_items(corpus: Corpus, shard: Shard) -> Iterator[CorpusItem | Dropped]:
    """What ``corpus.read`` gives of a shard or of a piece of one."""
    items = corpus.read(shard)
    return items if shard.span is None else itertools.islice(items, *shard.span)


@runtime_checkable
class EmbeddingCorpus(Corpus, Protocol):
    """A corpus whose images somebody already embedded, as LAION ships it."""

    def embeddings(self, shard: Shard) -> NDArray[np.generic]:
        """One row per item of the shard, memory-mapped, as stored."""
        ...
