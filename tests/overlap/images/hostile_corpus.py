"""A corpus with an item that raises, eats memory, or kills whoever reads it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

from heldout.corpus import CorpusItem, Shard
from heldout.image import ImageRef, InlineBytes
from heldout.store import Dropped

PER_SHARD = 12
ERRORS = {
    "memory": MemoryError,
    "depth": RecursionError,
    "bug": KeyError,
    "exit": SystemExit,  # no reader catches it: the whole shard fails
}


@dataclass(frozen=True)
class Deadly:
    """Bytes that end the process that reads them, or raise what no reader expects."""

    how: str

    def read(self) -> bytes:
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ERRORS[self.how](self.how)

    def describe(self) -> str:
        return f"deadly {self.how}"


@dataclass
class HostileCorpus:
    """Shards of ``PER_SHARD`` pictures; ``deadly`` says what item n of the whole corpus does."""

    pictures: list[bytes]
    deadly: dict[int, str] = field(default_factory=dict)
    reader_fails_at: int | None = None
    name: str = "hostile"
    source: str = "hostile"
    reader: str = "hostile"

    def shards(self) -> Iterator[Shard]:
        for index in range(len(self.pictures) // PER_SHARD):
            yield Shard(index, f"shard {index}", f"key {index}", index)

    def count_shards(self) -> int | None:
        return None

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        for number in range(shard.payload * PER_SHARD, (shard.payload + 1) * PER_SHARD):
            if number == self.reader_fails_at:
                raise RecursionError("the reader itself")
            where = f"item {number}"
            place = (
                Deadly(self.deadly[number])
                if number in self.deadly
                else InlineBytes(self.pictures[number], where)
            )
            yield CorpusItem(where, ImageRef(where, place), text=f"words of item {number}")
