"""Scan corpora for a benchmark's words, into the run folder of its image scan."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
from rapidfuzz.distance import LCSseq

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, CorpusItem, Shard, read_items
from heldout.engine import Engine, map_salvaged, progress, underway
from heldout.errors import counted
from heldout.overlap.condensed import matches_of
from heldout.overlap.images._salvage import ShardSalvage, joined_results
from heldout.overlap.images.scan import CorpusScan, stage_settings
from heldout.overlap.settings import WHOLE, Part
from heldout.overlap.texts._fields import (
    COMPARABLE,
    Document,
    TextSource,
    document_texts,
    picture_text,
)
from heldout.overlap.texts._ledger import MatchLedger, collect_text
from heldout.overlap.texts._reading import settle_rewordings
from heldout.overlap.texts._rewordings import OwnPictures, RewordingPass
from heldout.overlap.texts.edits import RUN, same_words
from heldout.overlap.texts.index import TextIndex, TextSearch, build_text_index
from heldout.overlap.texts.normalise import (
    NUMBER_WORD,
    WordBatch,
    figures,
    loose,
    mask,
    same_numbers,
    strict,
)
from heldout.overlap.texts.relation import (
    SHOWN,
    SourceHits,
    match_rows,
    query_rows,
    settle_pictures,
)
from heldout.store import (
    MAY_PASS,
    SCHEMAS,
    Dropped,
    Run,
    ShardResult,
    Stage,
    dropped_table,
    file_name,
    make_table,
)

# Text overlap of one shard: documents in, matches out. Pure: the caller stores what is returned.


STAGE = "text"
COUNTS = (
    "text_items",
    "text_documents",
    "text_answers",
    "text_wordless",
    "text_other_language",
    "text_lost_items",
    "missing",  # of what was lost, what may be there the next time
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
        "missing": int(dropped.reason in MAY_PASS),
        **dropped.unread(),
    }
    listed = [dataclasses.replace(dropped, stage=STAGE)] if lost else []
    return ShardResult({"dropped": dropped_table(listed)}, counts)


@dataclass(frozen=True, slots=True)
class TextShard(Shard):
    """A shard, and which of its items show which pictures of the benchmark."""

    own: OwnPictures = field(default_factory=OwnPictures)

    @classmethod
    def of(cls, shard: Shard, own: OwnPictures) -> TextShard:
        return cls(shard.index, shard.id, shard.key, shard.payload, shard.span, own)


def scan_text_shard(index: TextIndex, corpus: Corpus, shard: Shard) -> ShardResult:
    """Every text match in one shard, with the tables ``text_matches``, ``text_queries``, ``dropped``."""
    scan = _Scan(index, shard.own if isinstance(shard, TextShard) else OwnPictures())
    for item in underway(read_items(corpus, shard)):
        scan.read(item)
    scan.finish(shard)
    matches = list(match_rows(index, scan.ledger, scan.sources, corpus.name))
    queries = list(query_rows(index, scan.ledger, scan.sources, corpus.name))
    if scan.rewordings is not None:
        matches += scan.rewordings.rows(corpus.name)
        queries += scan.rewordings.queries(corpus.name)
    return ShardResult(
        tables={
            "text_matches": make_table("text_matches", matches),
            "text_queries": make_table("text_queries", queries),
            "dropped": dropped_table(scan.dropped),
        },
        counts=scan.counts,
    )


class _Scan:
    def __init__(self, index: TextIndex, own: OwnPictures) -> None:
        self.index = index
        self.ledger = MatchLedger(index)
        self.rewordings = RewordingPass(index, own) if index.search.uses("embedding") else None
        self.sources: dict[TextSource, SourceHits] = {}
        self.counts = dict.fromkeys(COUNTS, 0)
        self.dropped: list[Dropped] = []
        self.documents: list[Document] = []
        self.characters = 0

    def read(self, item: CorpusItem | Dropped) -> None:
        if isinstance(item, Dropped):  # listed by the scan of the pictures, which reads it, too
            self.counts["text_lost_items"] += item.scope == "item"
            for kind, count in item.unread().items():
                self.counts[kind] = self.counts.get(kind, 0) + count
            self.counts["missing"] += item.reason in MAY_PASS
            return
        self.counts["text_items"] += 1
        if self.index.search.uses("provenance"):
            for source, _ in self.index.provenance.find(item):
                self.sources.setdefault(source, SourceHits()).add(item.id)
        documents = list(document_texts(item))
        if self.index.search.ocr:
            documents += picture_text(item)
        self.counts["text_wordless"] += not documents
        self.counts["text_answers"] += any(document.answers for document in documents)
        for document in documents:
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
        if self.rewordings is not None:
            self.rewordings.read(documents)

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
        # A long document may hold many benchmark texts: read it once.
        lines: dict[int, tuple[str, tuple[str, ...]]] = {}
        for contained in self.index.ngrams.find(batch):
            entry, document = self.index.whole[contained.text], documents[contained.document]
            if document.field == "options":
                continue
            if contained.document not in lines:
                lines[contained.document] = f" {loose(document.text)} ", figures(document.text)
            line, named = lines[contained.document]
            text = self.index.entries[entry].text
            words = loose(text).split()
            stretch = " ".join(words[contained.place : contained.place + contained.words])
            at = line.find(f" {stretch} ")
            if at >= 0:
                window = _around(line, at, stretch, contained.place, len(words))
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
                    renumbered=_renumbered(text, (contained.place, stretch), line, named),
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
        if self.rewordings is not None:
            self.counts["text_other_language"] = self.rewordings.unreadable
        wordless = self.counts["text_wordless"]
        if wordless:
            items = counted(self.counts["text_items"], "item", "items")
            detail = f"{wordless:,} of {items} {'has' if wordless == 1 else 'have'} no text"
            self.dropped.append(Dropped(STAGE, shard.id, "no text", detail, scope="words"))


def _renumbered(text: str, shared: tuple[int, str], line: str, named: Sequence[str]) -> bool:
    """Does the ``shared`` stretch (its place among the text's words, its words) stand in the line around other
    numbers, wherever it stands? ``named``: the figures of the line."""
    place, stretch = shared
    count = stretch.count(NUMBER_WORD)
    if not count:
        return False
    first = " ".join(loose(text).split()[:place]).count(NUMBER_WORD)
    ours = figures(text)[first : first + count]
    at, sought = -1, f" {stretch} "
    while (at := line.find(sought, at + 1)) >= 0:
        first = line.count(NUMBER_WORD, 0, at)
        if tuple(named[first : first + count]) == ours:
            return False
    return True


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


# Text search of one corpus, shard by shard: a killed search continues where it was.


VERSION = 10  # raised when the same texts would give other rows


@dataclass
class TextResult:
    """The stage that holds the shards' tables, and what became of the work."""

    stage: Stage
    counts: dict[str, int]
    failed: dict[str, str]


def search_text(
    index: TextIndex,
    corpus: Corpus,
    run: Run,
    folder: str,
    settings: Mapping[str, Any],
    engine: Engine,
    quiet: bool,
    own: Callable[[int], OwnPictures] | None = None,
    part: Part = WHOLE,
) -> TextResult:
    """Scan what is not scanned yet. ``settings`` name the benchmark and how the corpus is read.

    ``own``: of a shard, its items that show pictures of the benchmark; rewordings are looked for beside them.
    """
    beside = own if own is not None and index.search.uses("embedding") else lambda _: OwnPictures()
    how = {
        "methods": index.search.methods,
        "nearest": index.search.nearest,
        "read": index.proposed,
        "encoder": index.encoder_identity,
        "text": VERSION,
        "ocr": index.search.ocr,
    }
    stage = run.stage(f"{STAGE}/{folder}", {**settings, "search": how})
    failed: dict[str, str] = {}
    title = f"texts of {corpus.name}"
    with progress(title, part.count_shards(corpus), "shards", disabled=quiet) as step:

        def to_do() -> Iterator[TextShard]:
            for each in part.shards(corpus):
                shard = TextShard.of(each, beside(each.index))
                digest = shard.own.digest
                if stage.plan(shard.index, f"{shard.key}\n{digest}" if digest else shard.key):
                    yield shard
                else:
                    step()

        look = functools.partial(scan_text_shard, index, corpus)
        salvage = ShardSalvage(corpus, lost_text, joined_results)
        for outcome in map_salvaged(engine, look, to_do(), salvage):
            if outcome.value is None:
                failed[outcome.task.id] = outcome.error or "no result"
                step()
            else:
                stage.save(outcome.task.index, outcome.value)
                step(items=outcome.value.counts["text_items"])
    return TextResult(stage, stage.counts(), failed)


TABLES = ("text_matches", "text_queries")


@dataclass
class CorpusTextScan:
    """What became of one corpus' texts. ``failed`` shards have no result."""

    corpus: str
    methods: list[str]
    encoder: str | None = None
    reader: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    rewordings: dict[str, Any] = field(default_factory=dict)  # how their threshold was settled


def scan_texts(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    search: TextSearch,
    *,
    scanned: Sequence[CorpusScan],
    quiet: bool = False,
) -> list[CorpusTextScan]:
    """Write the tables text_matches and text_queries. Call after ``scan``, whose results are ``scanned``,
    inside run.writing()."""
    index, dropped = build_text_index(benchmark, search)
    place = {identifier: number for number, identifier in enumerate(index.ids)}
    pictures_of = {result.corpus: result.copies_in for result in scanned}
    methods = [method for method in search.methods if search.uses(method)]
    results: list[CorpusTextScan] = []
    stages: list[Stage] = []
    for corpus in corpora:
        settings = stage_settings(benchmark, corpus)
        folder = file_name(corpus.name)
        copies_in = pictures_of[corpus.name]

        def own(shard: int, copies_in: Any = copies_in) -> OwnPictures:
            return OwnPictures.of(copies_in(shard), place)

        text_result = search_text(index, corpus, run, folder, settings, engine, quiet, own)
        stages.append(text_result.stage)
        dropped += [
            Dropped("text", shard, "shard failed", why) for shard, why in text_result.failed.items()
        ]
        scanned_texts = CorpusTextScan(
            corpus.name,
            methods,
            index.encoder_identity,
            counts=text_result.counts,
            failed=text_result.failed,
        )
        results.append(scanned_texts)
    # The image scan has just written what could not be read at all; this adds what has no words.
    seen = run.read_table("dropped")
    Stage.merge_all(
        stages,
        "dropped",
        run.table_path("dropped"),
        first=pa.concat_tables([seen, dropped_table(dropped)]),
    )
    collect_text(run, stages, nearest=search.nearest, read=index.proposed)
    matches = run.frame("text_matches")
    pictures = matches_of(run, matches)
    if search.uses("embedding"):
        matches, calibrations = settle_rewordings(matches, pictures, index, quiet=quiet)
        for scanned_texts in results:
            record = calibrations.get(scanned_texts.corpus, {})
            record["items_in_other_language"] = index.unreadable
            record["programs"] = index.programs
            scanned_texts.reader, scanned_texts.rewordings = record.get("reader"), record
    settled = settle_pictures(matches, pictures, run.frame("items"), _unread(run))
    run.write_table("text_matches", settled.to_arrow().cast(SCHEMAS["text_matches"]))
    run.update(
        "text",
        {scanned_texts.corpus: vars(scanned_texts) for scanned_texts in results},
        replace=True,
    )
    return results


def scan_text_part(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    search: TextSearch,
    part: Part,
    *,
    quiet: bool = False,
) -> dict[str, str]:
    """Compare the texts of one part's shards, and no more; returns the shards that failed, and why.

    Which corpus items show a picture of the benchmark is known once all parts are: the few shards that hold
    such items are read again then.
    """
    index, _ = build_text_index(benchmark, search)
    failed: dict[str, str] = {}
    for corpus in corpora:
        settings, folder = stage_settings(benchmark, corpus), file_name(corpus.name)
        result = search_text(index, corpus, run, folder, settings, engine, quiet, part=part)
        result.stage.sweep()
        failed |= result.failed
    return failed


def _unread(run: Run) -> pl.DataFrame:
    """(corpus, corpus_id) of items whose picture the image scan could not read.

    What was dropped does not say of which corpus: an id is looked for in those that lost items.
    """
    lost = [
        stage["corpus"]
        for stage in run.manifest().get("stages", {}).values()
        if stage["counts"].get("lost_items", 0)
    ]
    dropped = run.frame("dropped").filter(pl.col("stage") == "corpus")
    ids = dropped.select(pl.col("id").alias("corpus_id")).unique()
    return pl.DataFrame({"corpus": lost}, schema={"corpus": pl.String}).join(ids, how="cross")


def forget_texts(run: Run) -> None:
    """A run without a text search says nothing of an earlier one's words."""
    for name in TABLES:
        run.remove(f"tables/{name}.parquet")
    run.update("text", {}, replace=True)
