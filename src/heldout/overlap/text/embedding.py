"""Embedding neighbours of every benchmark text among the documents of one shard, by an exact join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heldout.overlap.join import Hits, select
from heldout.overlap.text.encoders import open_text_encoder
from heldout.overlap.text.fields import COMPARABLE, Document
from heldout.overlap.text.index import TextIndex
from heldout.overlap.text.ledger import Ledger
from heldout.overlap.text.normalise import mask, strict


class EmbeddingPass:
    """Keeps the k nearest documents of every text, and forgets the rest as it goes."""

    def __init__(self, index: TextIndex) -> None:
        assert index.join is not None and index.search.encoder is not None
        self._index, self._join = index, index.join
        self._encoder = open_text_encoder(index.search.encoder)
        self._fields = {name for k in index.embedded for name in COMPARABLE[index.entries[k].field]}
        self._nearest = index.search.nearest
        self._hits = Hits.empty()
        self._documents: dict[int, Document] = {}
        self._read = 0

    def read(self, documents: Sequence[Document]) -> None:
        chosen = [document for document in documents if document.field in self._fields]
        rows = self._encoder.embed([mask(strict(document.text)) for document in chosen])
        known = np.flatnonzero(rows.any(axis=1))
        hits = self._join.scan(rows[known], self._read, self._join.floor_of(self._hits))
        for position in np.unique(hits.position).tolist():
            self._documents[position] = chosen[known[position - self._read]]
        self._read += len(known)
        self._hits = select((self._hits, hits), self._nearest, None)
        kept = set(self._hits.position.tolist())
        self._documents = {p: d for p, d in self._documents.items() if p in kept}

    def settle(self, ledger: Ledger) -> None:
        """Enter what reaches the threshold."""
        for entry, document, similarity in self._pairs():
            if similarity >= self._index.search.threshold:
                ledger.add("embedding", entry, document, similarity)

    def below(self, ledger: Ledger, corpus: str) -> Iterator[dict[str, Any]]:
        """The best neighbour of every item that has none above the threshold: MaxSim needs them all."""
        best: dict[int, tuple[float, str]] = {}
        for entry, document, similarity in self._pairs():
            if ("embedding", entry) in ledger.tallies:
                continue
            for item in self._index.entries[entry].items:
                best[item] = max(best.get(item, (-2.0, "")), (similarity, document.corpus_id))
        listed = {
            item
            for method, entry in ledger.tallies
            if method == "embedding"
            for item in self._index.entries[entry].items
        }
        for item, (similarity, corpus_id) in sorted(best.items()):
            if item not in listed:
                yield {
                    "benchmark_id": self._index.ids[item],
                    "corpus": corpus,
                    "method": "embedding",
                    "pairs": 0,
                    "same_answer": 0,
                    "other_answer": 0,
                    "max_similarity": similarity,
                    "corpus_id": corpus_id,
                }

    def _pairs(self) -> Iterator[tuple[int, Document, float]]:
        for row, position, similarity in zip(
            self._hits.query.tolist(),
            self._hits.position.tolist(),
            self._hits.similarity.tolist(),
            strict=True,
        ):
            entry, document = self._index.embedded[row], self._documents[position]
            if document.field in COMPARABLE[self._index.entries[entry].field]:
                yield entry, document, min(1.0, similarity)
