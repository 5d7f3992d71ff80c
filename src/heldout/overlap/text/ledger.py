"""The ledger of one shard: every pair is counted, and of the pairs of an item the best are kept.

A question that half the corpus asks makes millions of pairs. Counting goes by distinct benchmark text,
and what is kept per text is bounded; the pairs worth keeping are those that share a picture's name or
the answer, so there are places of their own for them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from heldout.overlap.text.fields import Document
from heldout.overlap.text.index import TextIndex

LISTED = 10  # pairs of one item and one method that one shard lists
_FEW = 3  # pairs listed of a text that identifies nothing


@dataclass(frozen=True, slots=True)
class Pair:
    document: Document
    similarity: float
    evidence: dict[str, Any]


@dataclass(slots=True)
class Tally:
    """What one method found of one text."""

    pairs: int = 0
    answered: int = 0  # documents that give the question an answer, whatever it is
    best: float = -1.0
    best_id: str = ""
    answers: Counter[str] = field(default_factory=Counter)  # of those the benchmark gives
    last: str = ""
    entered: int = 0
    any: list[tuple[float, int, Pair]] = field(default_factory=list)  # a heap: least similar first
    by_answer: dict[str, list[Pair]] = field(default_factory=dict)
    by_image: dict[str, list[Pair]] = field(default_factory=dict)


class Ledger:
    def __init__(self, index: TextIndex) -> None:
        self._index = index
        self.tallies: dict[tuple[str, int], Tally] = {}

    def add(
        self, method: str, entry: int, document: Document, similarity: float, **evidence: Any
    ) -> None:
        tally = self.tallies.setdefault((method, entry), Tally())
        if tally.last != document.corpus_id:  # several texts of one corpus item are one pair
            tally.pairs += 1
            tally.answered += bool(document.answers)
            tally.last = document.corpus_id
            known = self._index.answers[entry]
            tally.answers.update(answer for answer in document.answers if answer in known)
        if similarity > tally.best:
            tally.best, tally.best_id = similarity, document.corpus_id
        pair = Pair(document, similarity, evidence)
        tally.entered += 1
        _keep(tally.any, pair, tally.entered)
        for answer in document.answers:
            if answer in self._index.answers[entry]:
                _append(tally.by_answer, answer, pair)
        if document.image in self._index.names[entry]:
            _append(tally.by_image, document.image, pair)

    def listed(self) -> Iterator[tuple[str, int, int, Pair]]:
        """(method, entry, item, pair): for every item what shares its picture, its answer, the rest."""
        for (method, entry), tally in sorted(self.tallies.items(), key=lambda one: one[0]):
            items = self._index.entries[entry].items
            most = _FEW if self._index.entries[entry].generic else LISTED
            rest = [pair for _, _, pair in sorted(tally.any, key=lambda one: (-one[0], one[1]))]
            for item in items:
                texts = self._index.items[item]
                own = [
                    pair for name in sorted(texts.names) for pair in tally.by_image.get(name, ())
                ]
                # The same picture first, but never alone: the question may be asked of others, too.
                some = most // 2 + 1
                pairs = [*own[:some], *tally.by_answer.get(texts.answer, ()), *rest, *own[some:]]
                chosen: dict[str, Pair] = {}
                for pair in pairs:
                    if len(chosen) < most:
                        chosen.setdefault(pair.document.corpus_id, pair)
                for pair in chosen.values():
                    yield method, entry, item, pair

    def queries(self) -> Iterator[dict[str, Any]]:
        """Per method and item: all pairs, with which answers, and the nearest."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for (method, entry), tally in sorted(self.tallies.items(), key=lambda one: one[0]):
            for item in self._index.entries[entry].items:
                answered = tally.answered if method == "exact" else 0  # others are like, not equal
                same = tally.answers.get(self._index.items[item].answer, 0) if answered else 0
                row = {
                    "benchmark_id": self._index.ids[item],
                    "method": method,
                    "pairs": tally.pairs,
                    "same_answer": same,
                    "other_answer": max(0, answered - same),
                    "max_similarity": tally.best,
                    "corpus_id": tally.best_id,
                }
                # A question, and the same question with its options, are one query.
                before = found.get((method, item))
                if before is None or (row["pairs"], row["max_similarity"]) > (
                    before["pairs"], before["max_similarity"],
                ):  # fmt: skip
                    found[method, item] = row
        yield from found.values()


def _keep(heap: list[tuple[float, int, Pair]], pair: Pair, arrival: int) -> None:
    """The most similar; of equals the first to come, so that the order of reading decides nothing."""
    place = (pair.similarity, -arrival, pair)
    if len(heap) < LISTED:
        heapq.heappush(heap, place)
    elif place[:2] > heap[0][:2]:
        heapq.heapreplace(heap, place)


def _append(lists: dict[str, list[Pair]], key: str, pair: Pair) -> None:
    kept = lists.setdefault(key, [])
    if len(kept) < LISTED:
        kept.append(pair)
