"""The rows of the tables text_matches and text_queries, made of what a shard's ledger kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.overlap.text.fields import Source
from heldout.overlap.text.index import TextIndex
from heldout.overlap.text.ledger import LISTED, Ledger, Pair
from heldout.overlap.text.normalise import PROFILES, profiled
from heldout.overlap.text.relation import SAME_SOURCE, relate

_DEGREES = ("none", "soft", "hard")
SHOWN = 500  # characters of a text that travel as evidence


@dataclass(slots=True)
class SourceHits:
    """Corpus items that carry one id: how many, and the first of them."""

    pairs: int = 0
    listed: list[str] = field(default_factory=list)

    def add(self, corpus_id: str) -> None:
        self.pairs += 1
        if len(self.listed) < LISTED:
            self.listed.append(corpus_id)


def match_rows(
    index: TextIndex, ledger: Ledger, sources: Mapping[Source, SourceHits], corpus: str
) -> Iterator[dict[str, Any]]:
    best: dict[tuple[str, int, str], dict[str, Any]] = {}
    for method, entry, item, pair in ledger.listed():
        row = _row(index, corpus, method, entry, item, pair)
        # A question, and the same question with its options, are one pair: the stronger match.
        key = (method, item, pair.document.corpus_id)
        if key not in best or _strength(row) > _strength(best[key]):
            best[key] = row
    yield from best.values()
    for source, hits in sorted(sources.items()):
        for item in index.provenance.by_source[source]:
            for corpus_id in hits.listed:
                yield {
                    "benchmark_id": index.ids[item],
                    "corpus": corpus,
                    "corpus_id": corpus_id,
                    "method": "provenance",
                    "field": source.kind,
                    "corpus_field": source.kind,
                    "similarity": 1.0,
                    "degree": "soft",
                    "relation": SAME_SOURCE,
                    "answer_relation": "unknown",
                    "evidence": json.dumps({"source": source.value}, ensure_ascii=False),
                }


def _strength(row: Mapping[str, Any]) -> tuple[int, float, int]:
    return _DEGREES.index(row["degree"]), row["similarity"], row["field"].count("+")


def query_rows(
    index: TextIndex, ledger: Ledger, sources: Mapping[Source, SourceHits], corpus: str
) -> Iterator[dict[str, Any]]:
    for row in ledger.queries():
        yield {**row, "corpus": corpus}
    pairs: dict[int, tuple[int, str]] = {}
    for source, hits in sorted(sources.items()):
        for item in index.provenance.by_source[source]:
            count, first = pairs.get(item, (0, ""))
            pairs[item] = (count + hits.pairs, first or hits.listed[0])
    for item, (count, corpus_id) in sorted(pairs.items()):
        yield {
            "benchmark_id": index.ids[item],
            "corpus": corpus,
            "method": "provenance",
            "pairs": count,
            "same_answer": 0,
            "other_answer": 0,
            "max_similarity": 1.0,
            "corpus_id": corpus_id,
        }


def _row(
    index: TextIndex, corpus: str, method: str, number: int, item: int, pair: Pair
) -> dict[str, Any]:
    entry, document, texts = index.entries[number], pair.document, index.items[item]
    text_relation = relate(
        method,
        entry,
        texts,
        document,
        pair.similarity,
        template=bool(pair.evidence.get("template")),
        apart=item in entry.apart,
    )
    evidence: dict[str, Any] = {
        **pair.evidence,
        "benchmark_text": entry.text[:SHOWN],
        "corpus_text": document.text[:SHOWN],
        "corpus_answers": [answer[:200] for answer in document.answers[:5]],
        "same_file_name": document.image in texts.names,
        "pictured": document.pictured,
        "short": entry.short,
        "generic": entry.generic,
        "apart": item in entry.apart,
        "bits": entry.bits,
    }
    if method == "exact":
        evidence["profile"] = next(
            p for p in PROFILES if profiled(entry.text, p) == profiled(document.text, p)
        )
    if texts.options and document.options:
        evidence["options"] = "same" if texts.options == document.options else "different"
    return {
        "benchmark_id": index.ids[item],
        "corpus": corpus,
        "corpus_id": document.corpus_id,
        "method": method,
        "field": text_relation.field,
        "corpus_field": document.field,
        "similarity": pair.similarity,
        "degree": text_relation.degree,
        "relation": text_relation.relation,
        "answer_relation": text_relation.answer,
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }
