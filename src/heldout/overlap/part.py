"""Part: some shards of a corpus, for a job of its own; the parts together are the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Self

from heldout.corpus import Corpus, Shard
from heldout.errors import InputError


class Part(NamedTuple):
    """Every ``of``-th shard, from the ``number``-th on: neighbouring shards are of one size."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str | None) -> Self:
        """``3/64``; None is the whole."""
        if text is None:
            return cls()
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"part: got '{text}'; expected a part and their number, as in 3/64")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def shards(self, corpus: Corpus) -> Iterator[Shard]:
        """The shards of ``corpus`` that are in this part, with the indices they have in the whole."""
        return (shard for shard in corpus.shards() if shard.index % self.of == self.number - 1)

    def count_shards(self, corpus: Corpus) -> int | None:
        count = corpus.count_shards()
        return None if count is None else (count - self.number) // self.of + 1


WHOLE = Part()
