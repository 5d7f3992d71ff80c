"""What is saved of a shard that failed: its items one by one, and a word about those that are lost."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pyarrow as pa

from heldout.corpus import Corpus, Shard, read_items
from heldout.engine import PIECES, Engine
from heldout.overlap.images._pairs import VerifyTask
from heldout.store import (
    FAILED,
    OUT_OF_MEMORY,
    WORKER_DIED,
    Dropped,
    ShardResult,
    dropped_table,
)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Listed:
    """How many items a shard gives, and the error that ended it early."""

    items: int
    error: str | None = None


@dataclass
class ShardSalvage(Generic[Result]):
    """Takes shards apart by their items. ``of_lost`` is the result of a piece that is one lost item,
    or (``scope`` "many") of what a reader could not read."""

    corpus: Corpus
    of_lost: Callable[[Dropped], Result]
    of_pieces: Callable[[Sequence[Result]], Result]

    def __post_init__(self) -> None:
        self._cut: dict[int, Dropped] = {}  # by shard, what its reader did not read

    def split(self, engine: Engine, task: Shard) -> list[Shard]:
        if task.span is None:
            (listed,) = engine.map(functools.partial(list_items, self.corpus), [task])
            if listed.value is None:  # reading alone fails, too
                return []
            if listed.value.error is not None:
                detail = f"after {listed.value.items:,} items: {listed.value.error}"
                self._cut[task.index] = Dropped(
                    "corpus", task.id, "shard cut short", detail, scope="many"
                )
            start, stop = 0, listed.value.items
        else:
            start, stop = task.span
        if self.is_item(task):
            return []
        size = max(1, -(-(stop - start) // PIECES))
        return [
            replace(task, span=(first, min(first + size, stop)))
            for first in range(start, stop, size)
        ]

    def is_item(self, task: Shard) -> bool:
        return task.span is not None and task.span[1] - task.span[0] == 1

    def lost(self, engine: Engine, task: Shard, error: str) -> Result:
        assert task.span is not None  # it is an item
        (named,) = engine.map(functools.partial(name_item, self.corpus), [task])
        item, source = named.value or (f"{task.id} item {task.span[0] + 1}", "")
        return self.of_lost(lost_item(item, source, error))

    def join(self, task: Shard, results: list[Result]) -> Result:
        cut = self._cut.pop(task.index, None) if task.span is None else None
        return self.of_pieces([*results, *([self.of_lost(cut)] if cut is not None else [])])


def list_items(corpus: Corpus, shard: Shard) -> Listed:
    """Read a shard without looking at its items."""
    count = 0
    try:
        for _ in read_items(corpus, shard):
            count += 1
    except Exception as error:
        return Listed(count, f"{type(error).__name__}: {error}"[:500])
    return Listed(count)


def name_item(corpus: Corpus, shard: Shard) -> tuple[str, str]:
    """The id of the one item of a piece, and where it is."""
    (item,) = read_items(corpus, shard)
    source = "" if isinstance(item, Dropped) or item.image is None else item.image.source
    return item.id, source


def lost_item(item: str, source: str, error: str) -> Dropped:
    reason = FAILED
    if "MemoryError" in error:
        reason = OUT_OF_MEMORY
    elif "worker died" in error:
        reason = WORKER_DIED
    return Dropped("corpus", item, reason, f"{source}: {error}" if source else error)


def lost_result(counts: Callable[[Dropped], Mapping[str, int]], dropped: Dropped) -> ShardResult:
    return ShardResult({"dropped": dropped_table([dropped])}, dict(counts(dropped)))


def joined_results(results: Sequence[ShardResult]) -> ShardResult:
    """Tables one after the other, counts summed."""
    names = list(dict.fromkeys(name for result in results for name in result.tables))
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    return ShardResult(
        {
            name: pa.concat_tables(r.tables[name] for r in results if name in r.tables)
            for name in names
        },
        dict(counts),
    )


@dataclass
class PairSalvage:
    """Takes the pairs of a task apart that is to verify them; a pair that is lost stays unverified."""

    def split(self, engine: Engine, task: VerifyTask) -> list[VerifyTask]:
        pairs = task.candidates
        size = max(1, -(-len(pairs) // PIECES))
        if self.is_item(task):
            return []
        return [
            replace(task, candidates=pairs[start : start + size])
            for start in range(0, len(pairs), size)
        ]

    def is_item(self, task: VerifyTask) -> bool:
        return len(task.candidates) == 1

    def lost(self, engine: Engine, task: VerifyTask, error: str) -> ShardResult:
        (pair,) = task.candidates
        dropped = lost_item(pair.corpus_id, "while it was verified", error)
        counts = {"pairs": 1, "unverified_pairs": 1, "failed_pairs": 1, "missing": 1}
        return lost_result(lambda _: counts, dropped)

    def join(self, task: VerifyTask, results: list[ShardResult]) -> ShardResult:
        return joined_results(results)
