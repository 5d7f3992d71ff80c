"""The ledger of one shard: every pair is counted, and of the pairs of an item the best are kept.

A question that half the corpus asks makes millions of pairs. Counting goes by distinct benchmark text,
and what is kept per text is bounded; the pairs worth keeping are those that share a picture's name or
the answer, so there are places of their own for them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from heldout.overlap.texts._answers import compare_answers, gist
from heldout.overlap.texts._fields import Document
from heldout.overlap.texts.index import TextIndex
from heldout.overlap.texts.normalise import settle_degrees
from heldout.store import SCHEMAS, Run, Stage, empty_table

# Ways to a paraphrase candidate: it stands beside the item's own picture, has its answer, or is just near.
OWN, AGREEING, NEAREST = "own picture", "own answer", "nearest"
MOST_OWN = 40  # questions beside copies of an item's picture that are kept
LISTED = 10  # pairs of one item and one method that one shard lists
_FEW_ANSWERS = 20  # of one question, above which an answer that says more counts as another one
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
    answered: int = 0  # documents that give the question the item's answer or another one
    best: float = -1.0
    best_id: str = ""
    answers: Counter[str] = field(default_factory=Counter)  # of those the benchmark gives
    last: str = ""
    entered: int = 0
    any: list[tuple[float, int, Pair]] = field(default_factory=list)  # a heap: least similar first
    by_answer: dict[str, list[Pair]] = field(default_factory=dict)
    by_image: dict[str, list[Pair]] = field(default_factory=dict)


class MatchLedger:
    def __init__(self, index: TextIndex) -> None:
        self._index = index
        self.tallies: dict[tuple[str, int], Tally] = {}

    def add(
        self, method: str, entry: int, document: Document, similarity: float, **evidence: Any
    ) -> None:
        tally = self.tallies.setdefault((method, entry), Tally())
        known = self._index.answers[entry]
        here = [each for each in dict.fromkeys(map(gist, document.answers)) if each in known]
        if tally.last != document.corpus_id:  # several texts of one corpus item are one pair
            tally.pairs += 1
            tally.answered += bool(here) or self._answers_otherwise(document, known)
            tally.last = document.corpus_id
            tally.answers.update(here)
        if similarity > tally.best:
            tally.best, tally.best_id = similarity, document.corpus_id
        pair = Pair(document, similarity, evidence)
        tally.entered += 1
        _keep(tally.any, pair, tally.entered)
        for answer in here:
            _append(tally.by_answer, answer, pair)
        if document.image in self._index.names[entry]:
            _append(tally.by_image, document.image, pair)

    @staticmethod
    def _answers_otherwise(document: Document, known: Collection[str]) -> bool:
        """ "CT scan" is no other answer than "CT"."""
        if len(known) > _FEW_ANSWERS:
            return bool(document.answers)
        relations = {compare_answers(ours, theirs) for ours in known for theirs in document.answers}
        return bool(document.answers) and "unknown" not in relations

    def listed(self) -> Iterator[tuple[str, int, int, Pair]]:
        """(method, entry, item, pair): for every item what shares its picture, its answer, the rest."""
        for (method, entry), tally in sorted(self.tallies.items(), key=lambda keyed: keyed[0]):
            items = self._index.entries[entry].items
            most = _FEW if self._index.entries[entry].generic else LISTED
            rest = [
                pair for _, _, pair in sorted(tally.any, key=lambda ranked: (-ranked[0], ranked[1]))
            ]
            for item in items:
                texts = self._index.items[item]
                own = [
                    pair for name in sorted(texts.names) for pair in tally.by_image.get(name, ())
                ]
                # The same picture first, but never alone: the question may be asked of others, too.
                some = most // 2 + 1
                pairs = [
                    *own[:some],
                    *tally.by_answer.get(gist(texts.answer), ()),
                    *rest,
                    *own[some:],
                ]
                best: dict[str, Pair] = {}
                for pair in pairs:
                    if len(best) < most:
                        best.setdefault(pair.document.corpus_id, pair)
                for pair in best.values():
                    yield method, entry, item, pair

    def queries(self) -> Iterator[dict[str, Any]]:
        """Per method and item: all pairs, with which answers, and the nearest."""
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for (method, entry), tally in sorted(self.tallies.items(), key=lambda keyed: keyed[0]):
            for item in self._index.entries[entry].items:
                answered = tally.answered if method == "exact" else 0  # others are like, not equal
                same = tally.answers.get(gist(self._index.items[item].answer), 0) if answered else 0
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
                before = rows.get((method, item))
                if before is None or (row["pairs"], row["max_similarity"]) > (
                    before["pairs"],
                    before["max_similarity"],
                ):
                    rows[method, item] = row
        yield from rows.values()


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


# Join the shards' text tables: per item and method the best pairs and the sums, whatever the corpus.
#
# Shards are folded in one after the other, so memory is that of the benchmark, not of the corpus.


_GROUP = ("benchmark_id", "corpus", "method")
_ROWS = 200_000  # of new rows, after which the folded table is made small again
_DEGREE_ORDER = {"hard": 2, "soft": 1, "none": 0}


def collect_text(run: Run, stages: Sequence[Stage], *, nearest: int, read: int) -> None:
    """Write the tables text_matches and text_queries of ``run`` from the shards of ``stages``.

    ``nearest``: pairs of an item that the published protocol counts; ``read``: those that are read again.
    """
    queries = _fold(stages, "text_queries", _summed)
    # Each shard gave its own nearest; of the whole corpus an item has no more than one would give.
    capped = pl.when(pl.col("method") == "embedding").then(pl.min_horizontal("pairs", nearest))
    queries = queries.with_columns(capped.otherwise(pl.col("pairs")).alias("pairs"))
    matches = _fold(stages, "text_matches", lambda table: _best(table, read))
    run.write_table("text_queries", _arrow(queries, "text_queries"))
    run.write_table("text_matches", _arrow(settle_degrees(matches, queries), "text_matches"))
    for stage in stages:
        stage.sweep()


def _summed(table: pl.DataFrame) -> pl.DataFrame:
    best = pl.col("corpus_id").get(pl.col("max_similarity").arg_max())
    return table.group_by(*_GROUP, maintain_order=True).agg(
        pl.col("pairs", "same_answer", "other_answer").sum(), pl.col("max_similarity").max(), best
    )


def _best(table: pl.DataFrame, read: int) -> pl.DataFrame:
    """The pairs of every item and method that are worth most, in the order they came.

    Paraphrase candidates go by the way they were found (own picture, own answer, nearest), and of each
    the most similar are kept, whatever they say.
    """
    degree = pl.col("degree").replace_strict(_DEGREE_ORDER, return_dtype=pl.Int8)
    same = pl.col("answer_relation") == "same"
    reworded = pl.col("method") == "embedding"
    way = pl.when(reworded).then(pl.col("evidence").str.json_path_match("$.way")).fill_null("")
    rank = (
        pl.struct(
            pl.when(reworded).then(0).otherwise(degree).alias("degree"),
            pl.when(reworded).then(False).otherwise(same).alias("same"),
            pl.col("similarity"),
        )
        .rank("ordinal", descending=True)
        .over(*_GROUP, way)
    )
    most = pl.when(way == OWN).then(MOST_OWN).when(reworded).then(read).otherwise(LISTED)
    return table.filter(rank <= most)


def _fold(
    stages: Sequence[Stage], name: str, reduce: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    columns = SCHEMAS[name].names
    folded = pl.DataFrame(empty_table(name))
    waiting: list[pl.DataFrame] = []
    for part in _parts(stages, name):
        waiting.append(pl.DataFrame(part).select(columns))
        if sum(len(table) for table in waiting) >= _ROWS:
            folded, waiting = reduce(pl.concat([folded, *waiting])).select(columns), []
    return reduce(pl.concat([folded, *waiting])).select(columns)


def _parts(stages: Sequence[Stage], name: str) -> Iterator[pa.Table]:
    for stage in stages:
        yield from stage.parts(name)


def _arrow(frame: pl.DataFrame, name: str) -> pa.Table:
    return frame.to_arrow().cast(SCHEMAS[name])
