"""Decontaminate: remove every item that overlaps a benchmark, by image, by words, or by its article.

An item is removed for a copy of a benchmark's image (also cropped, resized, re-encoded or inside a
panel), for an image pair that nobody could decide, for question and answer in the same or reworded
form, and for coming from an article that the benchmark names as a source. Stock questions about
other images are kept.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from heldout.benchmark import Benchmark, parse_source, read_benchmark
from heldout.corpus import Corpus
from heldout.errors import InputError
from heldout.evidence import COPIES, Leak, Relation, Rung, evidence_of, leaks_of
from heldout.overlap import DEFAULT as TEXT_ENCODER
from heldout.overlap import (
    NEAREST,
    SHORT_BITS,
    NearSearch,
    Rarity,
    TextSearch,
    can_register,
    common_questions,
    loose,
    read_matches,
    read_text_matches,
    scan,
    scan_texts,
)
from heldout.store import Dropped, Run
from heldout.synth.contamination import contamination_report, found_by_method
from heldout.synth.context import StageContext, StageWork, files_digest
from heldout.synth.corpus_of_items import balanced_items, write_corpus
from heldout.synth.ledger import StageWriter, folder
from heldout.synth.settings import SynthStage

STAGE = "decontaminate"
RULES = "heldout-decontaminate/2"  # raise with any change of what is removed or reported
_WORDED = {
    "same item": "same question and answer",
    "same question": "reworded question and answer",  # with other options
    "edited": "reworded question and answer",
    "paraphrase candidate": "reworded question and answer",
}
_TELLING_WORDS, _TELLING_BITS = 12, 2 * SHORT_BITS
_SPLITS = {"test", "train", "val", "valid", "validation", "dev", "data", "benchmark", "questions"}
_FURTHER = 4  # times as many neighbours, where all that were looked at are copies
_ARTICLE = re.compile(r"\bPMC\d{4,}\b|\b10\.\d{4,9}/[^\s\"'<>]+", re.IGNORECASE)


def _decontaminate(context: StageContext, writer: StageWriter) -> None:
    settings, run = context.settings, context.run
    articles = {item.draft.id: item.figure.article for item in balanced_items(run)}
    if not articles:  # nothing was accepted: nothing to search
        run.write_json("synth/contamination.json", {"schema_version": 2, "benchmarks": []})
        return
    corpus = write_corpus(run)
    removed: dict[str, tuple[str, str, str]] = {}  # item → benchmark, relation, detail
    benchmarks = open_benchmarks(context)
    for benchmark in benchmarks:
        for item, relation, detail in _overlaps(context, benchmark, corpus, articles):
            removed.setdefault(item, (benchmark.name, relation, detail))
    reports = []
    for benchmark in benchmarks:
        encoder = text_encoder(settings.text_encoder)
        searched = Run.open(overlap_folder(run, benchmark))
        report = contamination_report(context, benchmark, searched, encoder, articles, removed)
        gone = Counter(why for name, why, _ in removed.values() if name == benchmark.name)
        reports.append({**report, "removed": dict(gone), "found": found_by_method(searched)})
    run.write_json("synth/contamination.json", {"schema_version": 2, "benchmarks": reports})
    for item in articles:
        name, relation, detail = removed.get(item, ("", "", ""))
        row = {"id": item, "removed": item in removed, "benchmark": name, "relation": relation}
        writer.keep({**row, "detail": detail})
        if item in removed:
            writer.drop(Dropped(STAGE, item, relation, f"{name}: {detail}"))


DECONTAMINATE = StageWork(
    SynthStage.DECONTAMINATE,
    _decontaminate,
    ("against", "image_encoder", "text_encoder", "seed"),
    (SynthStage.SELECT, SynthStage.GENERATE, SynthStage.BALANCE),
    (RULES,),
    outside=lambda context: [_revision(spec, context) for spec in context.settings.against],
)


def _revision(spec: str, context: StageContext) -> str:
    opened = context.benchmarks.get(spec)
    return files_digest(parse_source(spec).path) if opened is None else opened.fingerprint


def open_benchmarks(context: StageContext) -> list[Benchmark]:
    """Those of ``against``, each under a name of its own: two files may both be called test.jsonl."""
    opened: list[Benchmark] = []
    for spec in dict.fromkeys(context.settings.against):
        benchmark = context.benchmarks.get(spec)
        if benchmark is None:
            benchmark = _named(read_benchmark(spec), spec)
        if any(one.name == benchmark.name for one in opened):
            name = f"{benchmark.name} ({spec})"
            benchmark = dataclasses.replace(benchmark, name=name)
        opened.append(benchmark)
    return opened


def _named(benchmark: Benchmark, spec: str) -> Benchmark:
    """A file that is called after its split is named with its folder: "test" tells nobody anything."""
    path = parse_source(spec).path
    if path.is_file() and path.stem.lower() in _SPLITS and path.absolute().parent.name:
        folder_and_name = f"{path.absolute().parent.name}/{benchmark.name}"
        return dataclasses.replace(benchmark, name=folder_and_name)
    return benchmark


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
    context: StageContext, benchmark: Benchmark, corpus: Corpus, articles: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """(item, relation, detail) of every item to remove. Several rows of one item come gravest first."""
    found: list[tuple[int, str, str, str]] = []
    telling = _telling(benchmark, context.run)
    for searched in _searches(context, benchmark, corpus, len(articles)):
        for identifier, leaked in leaks_of(searched).items():
            for leak in leaked.leaks:
                if (relation := removal(leak)) is not None:
                    method = str(leak.row["method"]).partition(" |")[0]  # without its settings
                    detail = f"{relation} of {identifier} by {method}"
                    found.append((-leak.rung, str(leak.row["corpus_id"]), relation, detail))
        found += _worded(searched, telling)
    for _, corpus_id, relation, detail in sorted(found):
        yield _item(corpus_id, articles), relation, detail
    sources = _sources(benchmark)
    for item, article in articles.items():
        if article.lower() in sources:
            yield item, "same article", f"{article} is a source of {sources[article.lower()]}"


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
            scan(queries, [corpus], searched, context.engine, near=near, quiet=context.quiet)
            if not number:
                words = TextSearch(encoder=text_encoder(settings.text_encoder))
                scan_texts(
                    benchmark, [corpus], searched, context.engine, words, quiet=context.quiet
                )
        yield searched
        graves = Counter(
            row["benchmark_id"]
            for row in read_matches(searched).to_dicts()
            if row["relation"] in (*COPIES, Relation.UNDECIDED)
        )
        crowded = [one for one in queries if graves[one.id] >= nearest]
        if encoder is None or not crowded or nearest >= items:
            return
        queries, nearest = Benchmark(benchmark.name, tuple(crowded)), nearest * _FURTHER


def removal(leak: Leak) -> str | None:
    """Why this match of an image removes the item, or None where it does not."""
    if leak.rung is Rung.UNDECIDED:
        return "undecided image"
    if leak.rung in (Rung.COPY, Rung.FULL):
        return "image and text copy" if leak.rung is Rung.FULL else "image copy"
    return None


def _telling(benchmark: Benchmark, run: Run) -> set[str]:
    """Benchmark items whose question identifies them even in other words.

    What many would ask in much the same words ("Which imaging modality is shown?") does not, whatever
    its options are.
    """
    rarity = Rarity()
    asked = {example.id: loose(example.question or "") for example in benchmark}
    rarity.learn([*asked.values(), *(loose(item.draft.question) for item in balanced_items(run))])
    return {
        name for name, words in asked.items()
        if len(words.split()) >= _TELLING_WORDS and rarity.bits(words) >= _TELLING_BITS
    }  # fmt: skip


def _worded(searched: Run, telling: Collection[str]) -> Iterator[tuple[int, str, str, str]]:
    """Items that ask what the benchmark asks and give its answer, in these or other words.

    A picture of its own does not excuse an item that was written from the benchmark's text. Stock
    questions, which the benchmark asks of several pictures or which say little, are nobody's.
    """
    if not searched.table_path("text_matches").exists():
        return
    common = set()
    if searched.table_path("text_queries").exists():
        queries = pl.DataFrame(searched.read_table("text_queries"))
        common = set(common_questions(queries)["benchmark_id"].to_list())
    for row in read_text_matches(searched).to_dicts():
        relation, evidence = _WORDED.get(row["relation"]), evidence_of(row)
        stock = evidence.get("generic") or evidence.get("short") or row["benchmark_id"] in common
        if relation is None or row["answer_relation"] != "same" or stock:
            continue
        if row["relation"] == "same item" or row["benchmark_id"] in telling:
            detail = f"{relation} of {row['benchmark_id']} by {row['method']}"
            yield -Rung.TEXT, str(row["corpus_id"]), relation, detail


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
    found: dict[str, str] = {}
    for example in benchmark:
        for value in (*example.metadata.values(), *(image.name for image in example.images)):
            for match in _ARTICLE.findall(str(value)):
                found.setdefault(match.lower(), example.id)
    return found
