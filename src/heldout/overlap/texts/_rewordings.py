"""Paraphrase candidates of one shard: by an encoder that is cheap enough for every text of a corpus.

A rewording of an item stands beside its picture, or has its answer, or is simply near. Each of these is
looked for by itself: among thousands of questions from one template, the nearest one has other numbers and
another answer, and the rewording is the nearest *of those with the item's answer*. Whether a candidate is a
rewording is settled later (``reading``), when the whole corpus is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images._join import Hits, select
from heldout.overlap.images.encoder import Floats
from heldout.overlap.texts._answers import gist
from heldout.overlap.texts._fields import COMPARABLE, Document
from heldout.overlap.texts._ledger import AGREEING, MOST_OWN, NEAREST, OWN, Pair
from heldout.overlap.texts._passages import questions_within
from heldout.overlap.texts._questions import states
from heldout.overlap.texts.encoders import can_read, knows, open_text_encoder
from heldout.overlap.texts.index import TextIndex
from heldout.overlap.texts.normalise import loose, strict
from heldout.overlap.texts.relation import PARAPHRASE, match_row

PUBLISHED = 0.88  # cosine from which on the published protocol counts a pair
# Cosine below which a candidate without the item's answer is not read, where there are too many to read all of
# them. Free rewordings share few words, and the encoder that proposes reads words alone.
_FLOOR = 0.3
_ASKED = 2048  # texts that are compared with a batch of documents at a time
_FREE = ("text", "picture")  # fields of texts that may hold questions among other things
_FEWEST_READ = 20  # words of the longest passage, where all questions are short
_WAYS = (OWN, AGREEING, NEAREST)  # a pair found in several ways is called by the first


@dataclass(frozen=True)
class OwnPictures:
    """Corpus items that show a copy of an item's picture: by id, the items' places in the benchmark."""

    items: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, copies: Iterable[tuple[str, str]], place: Mapping[str, int]) -> OwnPictures:
        """``copies``: (corpus item, benchmark item); ``place``: of the items in the benchmark."""
        items: dict[str, set[int]] = {}
        for corpus_id, identifier in copies:
            if identifier in place:
                items.setdefault(corpus_id, set()).add(place[identifier])
        return cls({corpus_id: tuple(sorted(places)) for corpus_id, places in items.items()})

    @property
    def digest(self) -> str:
        lines = (f"{corpus_id}\0{items}" for corpus_id, items in sorted(self.items.items()))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if self.items else ""


class RewordingPass:
    """Keeps the best candidates of every text, and forgets the rest as it goes."""

    def __init__(self, index: TextIndex, own: OwnPictures) -> None:
        assert index.join is not None and index.search.encoder is not None
        self._index, self._join, self._own = index, index.join, own
        self._encoder = open_text_encoder(index.search.encoder)
        # Options that agree make different questions alike: the question is read without them, and that they
        # agree is weighed by itself.
        self._fields = {
            name for k in index.embedded for name in COMPARABLE[index.entries[k].field]
        } - {"question+options"}
        self._most = index.proposed
        self._floor = _FLOOR if self._most * len(index.ids) > index.readable else -1.0
        self._vectors: Floats = np.asarray(index.join.queries, np.float32)
        self._asked: list[tuple[int, str]] = []  # (row of the join, answer)
        self._by_answer: dict[str, NDArray[np.int32]] = {}
        self._rows_of: dict[int, list[int]] = {}  # of an item
        self._ask()
        words = [len(loose(index.entries[k].text).split()) for k in index.embedded]
        self._longest = max(_FEWEST_READ, int(1.5 * np.quantile(words, 0.95))) if words else 0
        self._read = 0
        self.unreadable = 0  # texts in a language that the encoder cannot read
        self._documents: dict[int, Document] = {}
        self._near, self._agreeing = Hits.empty(), Hits.empty()
        self._owned: dict[int, list[tuple[float, int, int]]] = {}  # item: (cosine, row, position)

    def _ask(self) -> None:
        numbers: dict[str, list[int]] = {}
        for row, entry in enumerate(self._index.embedded):
            for answer in sorted(self._index.answers[entry]):
                numbers.setdefault(answer, []).append(len(self._asked))
                self._asked.append((row, answer))
            for item in self._index.entries[entry].items:
                self._rows_of.setdefault(item, []).append(row)
        self._by_answer = {answer: np.asarray(asked, np.int32) for answer, asked in numbers.items()}

    def read(self, documents: Sequence[Document]) -> None:
        compared = [document for document in documents if document.field in self._fields]
        encoders = self._index.search.encoder, self._index.search.reader
        self.unreadable += sum(not knows(document.text, *encoders) for document in compared)
        compared = [document for document in compared if can_read(document.text, *encoders)]
        compared += [
            passage
            for document in compared
            if document.field in _FREE
            for passage in questions_within(document, self._longest)
        ]
        rows = self._encoder.embed([strict(document.text) for document in compared])
        known = np.flatnonzero(rows.any(axis=1))
        compared, rows = [compared[place] for place in known], rows[known]
        if not compared:
            return
        first, nearest = self._read, self._most
        near = self._join.scan(rows, first, self._join.floor_of(self._near))
        near, agreeing = (
            _one_of_each(hits, compared, first)
            for hits in (near, self._agree(compared, rows, first))
        )
        self._own_pictures(compared, rows, first)
        for hits in (near, agreeing):
            for position in np.unique(hits.position).tolist():
                self._documents[position] = compared[position - first]
        self._read += len(compared)
        self._near = select((self._near, near), nearest, None)
        self._agreeing = select((self._agreeing, agreeing), nearest, None)
        kept = {*self._near.position.tolist(), *self._agreeing.position.tolist()}
        kept |= {position for owned in self._owned.values() for _, _, position in owned}
        self._documents = {p: d for p, d in self._documents.items() if p in kept}

    def _agree(self, documents: Sequence[Document], rows: Floats, first: int) -> Hits:
        """Of the documents with an item's answer the nearest, however near others are."""
        having: dict[str, list[int]] = {}
        for place, document in enumerate(documents):
            for answer in dict.fromkeys(map(gist, document.answers)):
                if answer in self._by_answer:
                    having.setdefault(answer, []).append(place)
        parts = []
        for answer, places in having.items():
            most = min(self._most, len(places))
            for start in range(0, len(self._by_answer[answer]), _ASKED):
                asked = self._by_answer[answer][start : start + _ASKED]
                queries = self._vectors[[self._asked[number][0] for number in asked]]
                cosines = queries @ rows[places].T
                best = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
                similarity = np.take_along_axis(cosines, best, axis=1).astype(np.float64)
                position = np.asarray(places, np.int64)[best] + first
                parts.append(Hits(np.repeat(asked, most), position.ravel(), similarity.ravel()))
        return select(parts, self._most, None) if parts else Hits.empty()

    def _own_pictures(self, documents: Sequence[Document], rows: Floats, first: int) -> None:
        for place, document in enumerate(documents):
            for item in self._own.items.get(document.corpus_id, ()):
                own = self._rows_of.get(item, ())
                cosines = {row: float(self._vectors[row] @ rows[place]) for row in own}
                if not cosines:
                    continue
                row = max(cosines, key=lambda number: (cosines[number], -number))
                owned = self._owned.setdefault(item, [])
                owned.append((cosines[row], row, first + place))
                self._documents[first + place] = document
                if len(owned) > 2 * MOST_OWN:
                    owned.sort(key=lambda candidate: (-candidate[0], candidate[2]))
                    del owned[MOST_OWN:]

    def rows(self, corpus: str) -> Iterator[dict[str, Any]]:
        """Candidates, one row per item and corpus item and way; degree none until they are read."""
        best: dict[tuple[int, str], tuple[bool, int, float, int, Document]] = {}
        near: set[tuple[int, str]] = set()  # found for their nearness, whatever else
        for way, item, row, position, cosine in self._candidates():
            document = self._documents[position]
            entry = self._index.embedded[row]
            if document.field not in COMPARABLE[self._index.entries[entry].field]:
                continue
            key = item, document.corpus_id
            near |= {key} if way != AGREEING else set()
            # A long answer is a text of its own. It may be nearer than its question, and asks nothing.
            asks = not states(document.text) or states(self._index.entries[entry].text)
            candidate = (asks, -_WAYS.index(way), cosine, entry, document)
            if key not in best or candidate[:3] > best[key][:3]:
                best[key] = candidate
        for key, (_, rank, cosine, entry, document) in best.items():
            evidence = {"way": _WAYS[-rank], "near": key in near}
            pair = Pair(document, min(1.0, cosine), evidence)
            match = match_row(self._index, corpus, "embedding", entry, key[0], pair)
            if match["relation"] == PARAPHRASE or cosine >= PUBLISHED:
                yield match

    def _candidates(self) -> Iterator[tuple[str, int, int, int, float]]:
        for item, owned in sorted(self._owned.items()):
            best = sorted(owned, key=lambda candidate: (-candidate[0], candidate[2]))
            for cosine, row, position in best[:MOST_OWN]:
                yield OWN, item, row, position, cosine
        for number, position, cosine in _triples(self._agreeing):
            row, answer = self._asked[number]
            for item in self._index.entries[self._index.embedded[row]].items:
                if gist(self._index.items[item].answer) == answer:
                    yield AGREEING, item, row, position, cosine
        for row, position, cosine in _triples(self._near):
            if cosine >= self._floor:
                entry = self._index.entries[self._index.embedded[row]]
                for item in entry.items[:1] if entry.generic else entry.items:
                    yield NEAREST, item, row, position, cosine

    def queries(self, corpus: str) -> Iterator[dict[str, Any]]:
        """Per item the nearest document, and how many of the nearest the published protocol counts."""
        best: dict[int, tuple[float, int, set[str]]] = {}
        for row, position, cosine in _triples(self._near):
            entry = self._index.entries[self._index.embedded[row]]
            document = self._documents[position]
            if document.field not in COMPARABLE[entry.field]:
                continue
            for item in entry.items:
                highest, where, pairs = best.get(item, (-2.0, position, set()))
                if cosine >= PUBLISHED:
                    pairs = pairs | {document.corpus_id}
                if cosine > highest:
                    highest, where = cosine, position
                best[item] = (highest, where, pairs)
        for item, (highest, position, pairs) in sorted(best.items()):
            yield {
                "benchmark_id": self._index.ids[item],
                "corpus": corpus,
                "method": "embedding",
                "pairs": len(pairs),
                "same_answer": 0,
                "other_answer": 0,
                "max_similarity": min(1.0, highest),
                "corpus_id": self._documents[position].corpus_id,
            }


def _one_of_each(hits: Hits, documents: Sequence[Document], first: int) -> Hits:
    """Of the passages of one text those alone that come nearest to a query: the others crowd out other texts."""
    order = np.lexsort((hits.position, -hits.similarity, hits.query))
    seen: set[tuple[int, str, str]] = set()
    kept = []
    for place in order.tolist():
        document = documents[int(hits.position[place]) - first]
        key = int(hits.query[place]), document.corpus_id, document.field
        if key not in seen:
            seen.add(key)
            kept.append(place)
    return Hits(hits.query[kept], hits.position[kept], hits.similarity[kept], hits.unusable)


def _triples(hits: Hits) -> Iterator[tuple[int, int, float]]:
    return zip(hits.query.tolist(), hits.position.tolist(), hits.similarity.tolist(), strict=True)
