"""Ids that occur once: of several items with one id, the later ones become ``id#2``, ``id#3``, …

Within a shard, which one worker reads in order: who reads it again finds the same names. A shard may
hold millions of items, so what was seen is a table of 64-bit digests, about 16 bytes an item.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace

from heldout.corpus.corpus import CorpusItem
from heldout.store import Dropped


def unique_ids(items: Iterable[CorpusItem | Dropped]) -> Iterator[CorpusItem | Dropped]:
    """``items`` as they come, no two of them called the same."""
    seen = _Seen()
    last: dict[int, int] = {}  # the number given last, for the few ids that repeat
    for item in items:
        if isinstance(item, Dropped) or seen.add(key := _key(item.id)):
            yield item
            continue
        number = last.get(key, 1) + 1
        while not seen.add(_key(f"{item.id}#{number}")):  # somebody is called that already
            number += 1
        last[key] = number
        yield replace(item, id=f"{item.id}#{number}")


def _key(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") or 1


class _Seen:
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
