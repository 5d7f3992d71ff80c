"""Text overlap of one shard: documents in, matches out. Pure: the caller stores what is returned."""

from __future__ import annotations

import dataclasses

from rapidfuzz.distance import LCSseq

from heldout.corpus import Corpus, CorpusItem, Shard, read_items
from heldout.errors import counted
from heldout.overlap.text.batch import WordBatch
from heldout.overlap.text.edits import same_words
from heldout.overlap.text.embedding import EmbeddingPass
from heldout.overlap.text.fields import COMPARABLE, LONGEST, Document, Source, document_texts
from heldout.overlap.text.index import TextIndex
from heldout.overlap.text.ledger import Ledger
from heldout.overlap.text.ngrams import RUN
from heldout.overlap.text.normalise import loose, mask, same_numbers, strict
from heldout.overlap.text.rows import SHOWN, SourceHits, match_rows, query_rows
from heldout.store import MAY_PASS, Dropped, ShardResult, dropped_table, make_table

STAGE = "text"
COUNTS = (
    "text_items",
    "text_documents",
    "text_answers",
    "text_wordless",
    "text_lost_items",
    "text_lost_containers",
)
_CHARACTERS, _DOCUMENTS = 2**18, 4096  # of one batch: fits the processor's cache
_QUOTE = 2 * RUN  # words in a row that are a quotation, whatever became of the rest
_FEW_WORDS = 5  # words whose loss does not yet mean that a quotation breaks off
_WORD = 40  # characters, generously
_SLACK = 3  # words more on either side, in case some were put in
_MARKUP = 4  # a raw text may be so many times as long as what is left of it


def lost_text(dropped: Dropped) -> ShardResult:
    """What is left of an item that this search lost; the rest of a shard is listed by the scan of
    the pictures, which reads it, too."""
    lost = dropped.scope == "item"
    counts = dict.fromkeys(COUNTS, 0) | {
        "text_lost_items": int(lost),
        "text_lost_containers": int(not lost),
        "missing": int(dropped.reason in MAY_PASS),
    }
    listed = [dataclasses.replace(dropped, stage=STAGE)] if lost else []
    return ShardResult({"dropped": dropped_table(listed)}, counts)


def scan_text_shard(index: TextIndex, corpus: Corpus, shard: Shard) -> ShardResult:
    """Every text match in one shard, with the tables ``text_matches``, ``text_queries``, ``dropped``."""
    scan = _Scan(index)
    for item in read_items(corpus, shard):
        scan.read(item)
    scan.finish(shard)
    queries = list(query_rows(index, scan.ledger, scan.sources, corpus.name))
    if scan.embedding is not None:
        queries += scan.embedding.below(scan.ledger, corpus.name)
    return ShardResult(
        tables={
            "text_matches": make_table(
                "text_matches", match_rows(index, scan.ledger, scan.sources, corpus.name)
            ),
            "text_queries": make_table("text_queries", queries),
            "dropped": dropped_table(scan.dropped),
        },
        counts=scan.counts,
    )


class _Scan:
    def __init__(self, index: TextIndex) -> None:
        self.index = index
        self.ledger = Ledger(index)
        self.embedding = EmbeddingPass(index) if index.search.uses("embedding") else None
        self.sources: dict[Source, SourceHits] = {}
        self.counts = dict.fromkeys(COUNTS, 0)
        self.dropped: list[Dropped] = []
        self.documents: list[Document] = []
        self.characters = 0

    def read(self, item: CorpusItem | Dropped) -> None:
        if isinstance(item, Dropped):  # listed by the scan of the pictures, which reads it, too
            self.counts["text_lost_items"] += item.scope == "item"
            self.counts["text_lost_containers"] += item.scope == "many"
            return
        self.counts["text_items"] += 1
        if self.index.search.uses("provenance"):
            for source, _ in self.index.provenance.find(item):
                self.sources.setdefault(source, SourceHits()).add(item.id)
        documents = list(document_texts(item))
        self.counts["text_wordless"] += not documents
        self.counts["text_answers"] += any(document.answers for document in documents)
        for document in documents:
            if document.cut:
                detail = f"{len(document.text):,} characters; the first {LONGEST:,} are compared"
                self.dropped.append(Dropped(STAGE, item.id, "text cut", detail, scope="words"))
                document = dataclasses.replace(document, text=document.text[:LONGEST])
            self.documents.append(document)
            self.characters += len(document.text)
            if self.characters >= _CHARACTERS or len(self.documents) >= _DOCUMENTS:
                self.flush()

    def flush(self) -> None:
        documents, self.documents, self.characters = self.documents, [], 0
        if not documents:
            return
        self.counts["text_documents"] += len(documents)
        search = self.index.search
        if search.uses("exact") or search.uses("ngram"):
            batch = WordBatch.of([document.text for document in documents])
            if search.uses("exact"):
                self._exact(batch, documents)
            if search.uses("ngram"):
                self._ngrams(batch, documents)
        if search.uses("edit"):
            self._edits(documents)
        if self.embedding is not None:
            self.embedding.read(documents)

    def _exact(self, batch: WordBatch, documents: list[Document]) -> None:
        """The same words and the same numbers; "T2" for "T1" is a matter of the edit pass."""
        here, which = self.index.exact.find(batch.keys())
        for place, entry in zip(here.tolist(), which.tolist(), strict=True):
            document, ours = documents[place], self.index.entries[entry]
            if (
                document.field in COMPARABLE[ours.field]
                and loose(document.text) == loose(ours.text)
                and same_numbers(document.text, ours.text)
            ):
                self.ledger.add("exact", entry, document, 1.0)

    def _ngrams(self, batch: WordBatch, documents: list[Document]) -> None:
        lines: dict[int, str] = {}  # a long document may hold many benchmark texts: read it once
        for contained in self.index.ngrams.find(batch):
            entry, document = self.index.whole[contained.text], documents[contained.document]
            if document.field == "options":
                continue
            if contained.document not in lines:
                lines[contained.document] = f" {loose(document.text)} "
            words = loose(self.index.entries[entry].text).split()
            stretch = " ".join(words[contained.place : contained.place + contained.words])
            at = lines[contained.document].find(f" {stretch} ")
            if at >= 0:
                window = _around(
                    lines[contained.document], at, stretch, contained.place, len(words)
                )
                template = contained.words < len(words) and _is_template(
                    words, window, contained.words
                )
                self.ledger.add(
                    "ngram",
                    entry,
                    document,
                    contained.containment,
                    runs=contained.runs,
                    of=contained.of,
                    run_words=contained.size,
                    template=template,
                    shared=stretch[:SHOWN],
                )

    def _edits(self, documents: list[Document]) -> None:
        edits = self.index.edits
        # Markup and spaces may be most of a text, up to a point.
        ready = [
            mask(strict(document.text))
            if document.field != "options" and len(document.text) <= _MARKUP * edits.longest
            else ""
            for document in documents
        ]
        for near in edits.find(ready):
            entry, document = self.index.whole[near.text], documents[near.document]
            if document.field in COMPARABLE[self.index.entries[entry].field]:
                self.ledger.add("edit", entry, document, near.similarity)

    def finish(self, shard: Shard) -> None:
        self.flush()
        if self.embedding is not None:
            self.embedding.settle(self.ledger)
        wordless = self.counts["text_wordless"]
        if wordless:
            items = counted(self.counts["text_items"], "item", "items")
            detail = f"{wordless:,} of {items} {'has' if wordless == 1 else 'have'} no text"
            self.dropped.append(Dropped(STAGE, shard.id, "no text", detail, scope="words"))


def _is_template(words: list[str], window: list[str], stretch: int) -> bool:
    """The text stands there with another word in it; a long quotation that breaks off is none."""
    lost = len(words) - LCSseq.similarity(words, window)
    if stretch >= _QUOTE and lost > _FEW_WORDS:
        return False
    return not same_words(words, window, open_ended=True)


def _around(line: str, at: int, stretch: str, place: int, words: int) -> list[str]:
    """The words of a document where a text of so many words would stand, and a few more."""
    rest = words - place - len(stretch.split()) + _SLACK
    reach = _WORD * (place + rest + _SLACK)  # no need to part a whole page into its words
    end = at + len(stretch) + 2
    before = line[max(0, at - reach) : at].split()[-(place + _SLACK) :]
    return [*before, *stretch.split(), *line[end : end + reach].split()[:rest]]
