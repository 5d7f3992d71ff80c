"""Corpus: what a benchmark may have leaked into, as a stream of items in shards.

A corpus is never assumed to fit in memory, and neither is the list of its items. It is a small
picklable object: workers receive it with one shard and read that shard themselves. Shards, their
order and the ids of their items depend on the data alone, never on how many workers read them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heldout.image import ImageRef
from heldout.store import Dropped


@dataclass(frozen=True, slots=True)
class Shard:
    """A piece of a corpus that one worker reads from start to end.

    ``key`` changes when the shard's input changes (name, size, modification time), so that a
    resumed run repeats exactly the shards whose input is new. ``payload`` is what the reader that made the
    shard needs to find it again; it is private to that reader. ``span`` makes it a piece of a
    shard: the items (and what was dropped) from the first number up to, not including, the second.
    """

    index: int
    id: str
    key: str
    payload: Any = None
    span: tuple[int, int] | None = None


Place = tuple[str, int | str]  # a file of the corpus, and the row or the member of it


@dataclass(frozen=True, slots=True)
class CorpusItem:
    """One item: an image, a text, or both. Structured text keeps its question and answer apart.

    ``also`` holds further pairs: later turns of a conversation, other accepted answers. ``place`` is where it can be
    taken out: the file, and the number of its row (0: the whole file) or the key of its member.
    """

    id: str
    image: ImageRef | None = None
    text: str | None = None
    question: str | None = None
    answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[tuple[str | None, str], ...] = ()
    place: Place = ("", 0)


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


@dataclass(slots=True)
class LimitedCorpus:
    """The first ``limit`` items of ``inner``, for a first look. Listing its shards reads their names."""

    inner: Corpus
    limit: int
    name: str
    source: str
    reader: str

    def shards(self) -> Iterator[Shard]:
        left = self.limit
        for shard in self.inner.shards():
            rows = 0
            for item in self.inner.read(shard):
                rows += 1
                left -= isinstance(item, CorpusItem)
                if left == 0:
                    break
            yield replace(shard, key=f"{shard.key}:{rows}", payload=(shard.payload, rows))
            if left == 0:
                return

    def count_shards(self) -> int | None:
        return None  # counting them would read their items once more

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        payload, rows = shard.payload
        return itertools.islice(self.inner.read(replace(shard, payload=payload)), rows)


@runtime_checkable
class EmbeddingCorpus(Corpus, Protocol):
    """A corpus whose images are already embedded, as LAION ships it."""

    def embeddings(self, shard: Shard) -> NDArray[np.generic]:
        """One row per item of the shard, memory-mapped, as stored."""
        ...


# What identifies a corpus: the ids and keys of its shards, in order.


def corpus_fingerprint(corpus: Corpus) -> str:
    """Changes when a file is added, removed, renamed or modified; reads no data."""
    hasher = hashlib.sha256(f"heldout-corpus-1\n{corpus.reader}\n".encode())
    for shard in corpus.shards():
        hasher.update(f"{shard.id}\0{shard.key}\n".encode())
    return hasher.hexdigest()


def reading_settings(corpus: Corpus) -> dict[str, str]:
    """How a corpus is read: with other settings its rows are others."""
    if not dataclasses.is_dataclass(corpus):
        return {}
    fields = (field for field in dataclasses.fields(corpus) if field.repr)
    return {field.name: repr(getattr(corpus, field.name)) for field in fields}


# How large shards are: by the work in them, small at first, so that a small corpus has several.
#
# What a shard holds must depend on the data alone, and the number of files is not known before all are
# listed. So the first shards are small, and later ones grow up to a size that justifies a shard: three hundred
# pictures keep several workers busy, and a million do not make a million shards.


SMALLEST, LARGEST = 2 << 20, 64 << 20  # work in a shard, about bytes
FILE_WORK = 16 << 10  # opening and comparing a picture, in bytes read and decoded
STEP = 8  # shards of one size, before the next are twice as large


def shard_work(index: int) -> int:
    """How much work shard ``index`` of a corpus may hold."""
    return min(SMALLEST << min(index // STEP, 16), LARGEST)


# Ids that occur once: of several items with one id, the later ones become ``id#2``, ``id#3``, …
#
# Within a shard, which one worker reads in order: reading it again gives the same names. A shard may
# hold millions of items, so what was seen is a table of 64-bit digests, about 16 bytes an item.


def unique_ids(items: Iterable[CorpusItem | Dropped]) -> Iterator[CorpusItem | Dropped]:
    """``items`` as they come, no two of them called the same."""
    seen = _NumberSet()
    last: dict[int, int] = {}  # the number given last, for the few ids that repeat
    for item in items:
        if isinstance(item, Dropped) or seen.add(key := _key(item.id)):
            yield item
            continue
        number = last.get(key, 1) + 1
        while not seen.add(_key(f"{item.id}#{number}")):  # another item already has that id
            number += 1
        last[key] = number
        yield replace(item, id=f"{item.id}#{number}")


def _key(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") or 1


class _NumberSet:
    """A set of numbers above 0 that costs their bytes: open addressing in one flat array."""

    def __init__(self) -> None:
        self.slots = array("Q", bytes(8 * 1024))
        self.count = 0

    def add(self, key: int) -> bool:
        """True if ``key`` is new."""
        if self.count * 3 > len(self.slots) * 2:
            old, self.slots = self.slots, array("Q", bytes(16 * len(self.slots)))
            for held in old:
                if held:
                    self.slots[self._slot(held)] = held
        slot = self._slot(key)
        if self.slots[slot]:
            return False
        self.slots[slot] = key
        self.count += 1
        return True

    def _slot(self, key: int) -> int:
        mask = len(self.slots) - 1
        slot = key & mask
        while self.slots[slot] not in (0, key):
            slot = (slot + 1) & mask
        return slot
