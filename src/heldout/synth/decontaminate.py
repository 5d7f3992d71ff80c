"""Decontaminate: remove every item that overlaps a benchmark, by image, by words, or by its article.

An item is removed for a copy of a benchmark's image (also cropped, resized, re-encoded or inside a
panel), for an undecided image pair, for question and answer in the same, edited or
reworded form, and for coming from an article that the benchmark names as a source. Stock questions
about other images are kept and counted; so are near misses: images of which one part differs from the
benchmark's, unless the item asks one of its questions and gives the answer.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from heldout.benchmark import Benchmark, parse_source, script_of
from heldout.corpus import Corpus
from heldout.errors import InputError
from heldout.evidence import (
    CHANGED,
    COPIES,
    IN_PART,
    RECOLOURED,
    Leak,
    Relation,
    Rung,
    evidence_of,
    leak_batches,
)
from heldout.overlap import DEFAULT as TEXT_ENCODER
from heldout.overlap import (
    NEAREST,
    NearSearch,
    TextSearch,
    can_register,
    read_matches,
    scan,
    scan_texts,
)
from heldout.store import Dropped, Run
from heldout.synth._against import open_benchmarks, refuse_unreadable
from heldout.synth._benchmark_questions import REWORDED, BenchmarkQuestions, QuestionMatch
from heldout.synth._corpus_of_items import balanced_items, write_corpus
from heldout.synth._rewordings import READ, RewordingJudge, rewording_judge
from heldout.synth.contamination import (
    BenchmarkHashes,
    contamination_report,
    found_by_method,
)
from heldout.synth.context import StageContext, StageWork, files_digest
from heldout.synth.ledger import BATCH, StageWriter, folder
from heldout.synth.settings import SynthStage

STAGE = "decontaminate"
RULES = "heldout-decontaminate/6"  # raise with any change of what is removed or reported
# Kept, unless something else removes the item.
STOCK, NEAR_MISS = "stock question and answer", "near miss: image differs in one part"
_WHOLE = 0.95  # of both frames: a panel of a compound figure covers less of one of them
_EQUAL = 0.99  # correlation of detail in half of the windows
SCHEMA = 5  # of contamination.json
_FURTHER = 4  # times as many neighbours, where all that were looked at are copies
_ARTICLE = re.compile(
    r"(?<![a-z0-9])PMC\d{4,}(?!\d)|(?<![\d.])10\.\d{4,9}/(?:(?![,;]10\.\d)[^\s\"'<>|?#])+",
    re.IGNORECASE,
)
_VIEW = re.compile(r"/(?:full|pdf|epdf|abstract)$")  # of an article, behind its DOI in an address


def _decontaminate(context: StageContext, writer: StageWriter) -> None:
    settings, run = context.settings, context.run
    articles: dict[str, str] = {}
    ids: dict[str, set[str]] = {}
    scripts: set[str] = set()
    for balanced_item in balanced_items(run):
        figure = balanced_item.figure
        articles[balanced_item.draft.id] = figure.article
        ids[balanced_item.draft.id] = article_ids(f"{figure.article} {figure.attribution}")
        scripts.add(script_of(balanced_item.draft.question))
    if not articles:  # no accepted items: nothing to search
        run.write_json("synth/contamination.json", {"schema_version": SCHEMA, "benchmarks": []})
        return
    corpus = write_corpus(run)
    removed: dict[str, tuple[str, str, str]] = {}  # item → benchmark, relation, detail
    kept: dict[str, tuple[str, str, str]] = {}  # remarks on items that stay
    benchmarks, words = open_benchmarks(context.settings, context.benchmarks), {}
    encoder = text_encoder(settings.text_encoder)
    undecided: set[str] = set()
    with rewording_judge(context, STAGE) as judge:
        for benchmark in benchmarks:
            refuse_unreadable(benchmark)
            questions = BenchmarkQuestions(benchmark, encoder, REWORDED if judge is None else READ)
            matches = list(_worded(context, questions, judge))
            asked = {match.item: match for match in matches if match.stock}
            for item, relation, detail in _overlaps(context, benchmark, corpus, ids, matches):
                overlaps = kept if relation == NEAR_MISS else removed
                overlaps.setdefault(item, (benchmark.name, relation, detail))
            words[benchmark.name] = (questions.counts(scripts), asked)
            for item, match in asked.items():
                kept.setdefault(item, (benchmark.name, STOCK, _detail(match)))
            if judge is not None:
                words[benchmark.name][0]["judge"] = judge.counts()
                undecided |= judge.lost
    reports = []
    for benchmark in benchmarks:
        searched = Run.open(overlap_folder(run, benchmark))
        hashes = BenchmarkHashes.of(benchmark)
        report = contamination_report(
            context, benchmark, searched, encoder, articles, removed, hashes
        )
        gone = Counter(why for name, why, _ in removed.values() if name == benchmark.name)
        counts, asked = words[benchmark.name]
        report |= {"questions": {**counts, "items_kept": len(asked.keys() - removed.keys())}}
        report["near_misses_kept"] = sum(
            relation == NEAR_MISS and name == benchmark.name and item not in removed
            for item, (name, relation, _) in kept.items()
        )
        reports.append({**report, "removed": dict(gone), "found": found_by_method(searched)})
    run.write_json("synth/contamination.json", {"schema_version": SCHEMA, "benchmarks": reports})
    for item in articles:
        name, relation, detail = removed.get(item) or kept.get(item) or ("", "", "")
        row = {"id": item, "removed": item in removed, "benchmark": name, "relation": relation}
        writer.keep({**row, "detail": detail}, again=item in undecided - removed.keys())
        if item in removed:
            writer.drop(Dropped(STAGE, item, relation, f"{name}: {detail}"))


DECONTAMINATE = StageWork(
    SynthStage.DECONTAMINATE,
    _decontaminate,
    ("against", "image_encoder", "text_encoder", "judge", "seed"),
    (SynthStage.SELECT, SynthStage.GENERATE, SynthStage.BALANCE),
    (RULES,),
    outside=lambda context: [_revision(spec, context) for spec in context.settings.against],
)


def _revision(spec: str, context: StageContext) -> str:
    opened = context.benchmarks.get(spec)
    return files_digest(parse_source(spec).path) if opened is None else opened.fingerprint


def text_encoder(name: str | None) -> str | None:
    """The encoder that was asked for, else the default one where it is installed."""
    if name is not None:
        return name
    import importlib.util

    return TEXT_ENCODER if importlib.util.find_spec(TEXT_ENCODER) else None


def overlap_folder(run: Run, benchmark: Benchmark, number: int = 0) -> Path:
    """The ``overlap`` run against one revision of a benchmark; further rounds have numbers."""
    safe = re.sub(r"[^\w.-]+", "-", benchmark.name)[:80]
    name = f"{safe}-{benchmark.fingerprint[:12]}"
    return folder(run) / "overlap" / (f"{name}-{number}" if number else name)


def _overlaps(
    context: StageContext,
    benchmark: Benchmark,
    corpus: Corpus,
    articles: Mapping[str, Collection[str]],
    matches: Iterable[QuestionMatch],
) -> Iterator[tuple[str, str, str]]:
    """(item, relation, detail) of every item to remove, and of near misses. The gravest reason of an item
    comes first."""
    overlaps: list[tuple[int, str, str, str]] = []
    matches = list(matches)
    asking = {match.item for match in matches}
    for searched in _searches(context, benchmark, corpus, len(articles)):
        for frame in leak_batches(searched):  # every corpus item is an item that may have to go
            for row in frame.iter_rows(named=True):
                leak = Leak(Rung(row["rung"]), row)
                asks = _item(row["corpus_id"], articles) in asking
                if (relation := image_overlap(leak, asks)) is not None:
                    method = row["method"].partition(" |")[0]  # without its settings
                    detail = f"{relation} of {row['benchmark_id']} by {method}"
                    overlaps.append((-leak.rung, row["corpus_id"], relation, detail))
    for _, corpus_id, relation, detail in sorted(overlaps):
        yield _item(corpus_id, articles), relation, detail
    for match in matches:
        if not match.stock:
            yield match.item, match.relation, _detail(match)
    sources = _sources(benchmark)
    for item, named in articles.items():
        for article in sorted(sources.keys() & set(named))[:1]:
            yield item, "same article", f"{article} is a source of {sources[article]}"


def _searches(
    context: StageContext, benchmark: Benchmark, corpus: Corpus, items: int
) -> Iterator[Run]:
    """Runs of ``overlap``. A benchmark picture whose neighbours are all copies may have further ones behind
    them: it is searched again, with more neighbours, until that is no longer so."""
    settings, nearest, queries = context.settings, NEAREST, benchmark
    encoder = settings.image_encoder if can_register() else None
    shared = folder(context.run) / "overlap" / "embeddings"
    for number in itertools.count():
        path = overlap_folder(context.run, benchmark, number)
        searched = Run.create(path, seed=settings.seed)
        near = NearSearch(encoder, nearest, shared) if encoder is not None else None
        with searched.writing():
            scanned = scan(
                queries, [corpus], searched, context.engine, near=near, quiet=context.quiet
            )
            if not number:
                words = TextSearch.installed(settings.text_encoder)
                scan_texts(
                    benchmark,
                    [corpus],
                    searched,
                    context.engine,
                    words,
                    scanned=scanned,
                    quiet=context.quiet,
                )
        yield searched
        graves = Counter(
            row["benchmark_id"]
            for row in read_matches(searched).to_dicts()
            if row["relation"] in (*COPIES, Relation.UNDECIDED)
        )
        crowded = [query for query in queries if graves[query.id] >= nearest]
        if encoder is None or not crowded or nearest >= items:
            return
        queries, nearest = Benchmark(benchmark.name, tuple(crowded)), nearest * _FURTHER


def _detail(match: QuestionMatch) -> str:
    return f"{match.relation} of {match.example}, similarity {match.similarity:.2f}"


def image_overlap(leak: Leak, asks: bool) -> str | None:
    """How this match of an image concerns the item, or None where it does not: all but ``NEAR_MISS`` remove it.

    ``asks``: the item asks a question of the benchmark and gives its answer, a stock question included. Then
    an image that differs in one part may as well be an edited copy.
    """
    if leak.rung is Rung.UNDECIDED:
        return NEAR_MISS if _differs_in_part(leak) and not asks else "undecided image"
    if leak.rung in (Rung.COPY, Rung.FULL):
        return "image and text copy" if leak.rung is Rung.FULL else "image copy"
    return None


def _differs_in_part(leak: Leak) -> bool:
    """Whether whole frames lie on each other and agree but for one part."""
    registration = evidence_of(leak.row).get("registration") or {}
    return (
        registration.get("reason") in (IN_PART, CHANGED, RECOLOURED)
        and min(registration["overlap"]) >= _WHOLE
        and registration["detail"] >= _EQUAL
    )


def _worded(
    context: StageContext, questions: BenchmarkQuestions, judge: RewordingJudge | None
) -> Iterator[QuestionMatch]:
    """Items that ask what the benchmark asks and give its answer. An item with another picture is removed, too,
    if it was written from the benchmark's text."""
    items = (item.draft for item in balanced_items(context.run))
    while batch := list(itertools.islice(items, BATCH)):
        if judge is None:
            yield from questions.compare(batch)
        else:
            yield from judge.decide(batch, questions.matches(batch))


def _item(corpus_id: str, articles: Mapping[str, Any]) -> str:
    """The item that a corpus id names; one of several images adds its number to the id."""
    if corpus_id in articles:
        return corpus_id
    head = corpus_id.rpartition("#")[0]
    if head in articles:
        return head
    raise InputError(f"overlap named the item {corpus_id}, which is not among the items")


def _sources(benchmark: Benchmark) -> dict[str, str]:
    """Article ids (PMC numbers, DOIs) that the benchmark's own columns name, with the first item of
    each."""
    sources: dict[str, str] = {}
    for example in benchmark:
        for value in (*example.metadata.values(), *(image.name for image in example.images)):
            for article in article_ids(str(value)):
                sources.setdefault(article, example.id)
    return sources


def article_ids(text: str) -> set[str]:
    """PMC numbers and DOIs in small letters, without what the sentence or the address adds to them."""
    return {_bare(match.lower()) for match in _ARTICLE.findall(unquote(text))}


def _bare(article: str) -> str:
    """A DOI may end in a bracket that it opens itself: 10.1016/S0140-6736(20)30183-5."""
    while True:
        shorter = _VIEW.sub("", article.rstrip(".,;:!*/_"))
        for opening, closing in ("()", "[]", "{}"):
            if shorter.endswith(closing) and shorter.count(closing) > shorter.count(opening):
                shorter = shorter[:-1]
        if shorter == article:
            return article
        article = shorter
