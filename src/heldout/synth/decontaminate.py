"""Decontaminate: remove every item that overlaps a benchmark, by image, by words, or by its article.

An item is removed for a copy of a benchmark's image (also cropped, resized, re-encoded or inside a
panel), for an image pair that nobody could decide, for question and answer in the same or reworded
form, and for coming from an article that the benchmark names as a source. Stock questions about
other images are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import Corpus
from heldout.cure.leaks import Grade, Leak, leaks_of
from heldout.errors import InputError
from heldout.overlap import NearSearch, scan
from heldout.overlap.text import TextSearch
from heldout.overlap.text.encoders import DEFAULT as TEXT_ENCODER
from heldout.overlap.texts import scan_texts
from heldout.overlap.verify import can_register
from heldout.store import Dropped, Run
from heldout.synth.contamination import contamination_report
from heldout.synth.context import StageContext, StageWork
from heldout.synth.corpus_of_items import balanced_items, write_corpus
from heldout.synth.ledger import StageWriter, folder
from heldout.synth.settings import SynthStage

STAGE = "decontaminate"
_REMOVED = frozenset({Grade.TEXT, Grade.UNDECIDED, Grade.COPY, Grade.FULL})
_REWORDED = ("paraphrase candidate", "edited", "same question", "same item")
_ARTICLE = re.compile(r"\bPMC\d{4,}\b|\b10\.\d{4,9}/[^\s\"'<>]+", re.IGNORECASE)


def _decontaminate(context: StageContext, writer: StageWriter) -> None:
    settings, run = context.settings, context.run
    if not settings.against:
        raise InputError(
            "the stage 'decontaminate' needs the setting against: name the benchmarks that the "
            "dataset must not "
            "overlap, or leave the stage out"
        )
    corpus = write_corpus(run)
    articles = {item.draft.id: item.figure.article for item in balanced_items(run)}
    removed: dict[str, tuple[str, str, str]] = {}  # item → benchmark, relation, detail
    reports = []
    for spec in settings.against:
        benchmark = read_benchmark(spec)
        for item, relation, detail in _overlaps(context, benchmark, corpus, articles):
            removed.setdefault(item, (benchmark.name, relation, detail))
        reports.append(
            contamination_report(context, benchmark, text_encoder(settings.text_encoder))
        )
    run.write_json("synth/contamination.json", {"schema_version": 1, "benchmarks": reports})
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
)


def text_encoder(name: str | None) -> str | None:
    """The encoder that was asked for, else the default one where it is installed."""
    if name is not None:
        return name
    import importlib.util

    return TEXT_ENCODER if importlib.util.find_spec(TEXT_ENCODER) else None


def overlap_folder(run: Run, benchmark: str) -> Path:
    return folder(run) / "overlap" / re.sub(r"[^\w.-]+", "-", benchmark)


def _overlaps(
    context: StageContext, benchmark: Benchmark, corpus: Corpus, articles: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """(item, relation, detail) of every item to remove. Several rows of one item come gravest first."""
    settings = context.settings
    searched = Run.create(overlap_folder(context.run, benchmark.name), seed=settings.seed)
    near = None
    if settings.image_encoder is not None and can_register():
        near = NearSearch(settings.image_encoder)
    search = TextSearch(encoder=text_encoder(settings.text_encoder))
    with searched.writing():
        scan(benchmark, [corpus], searched, context.engine, near=near, quiet=context.quiet)
        scan_texts(benchmark, [corpus], searched, context.engine, search, quiet=context.quiet)
    found: list[tuple[int, str, str, str]] = []
    for identifier, leaked in leaks_of(searched).items():
        for leak in leaked.leaks:
            relation = removal(leak)
            if relation is not None:
                detail = f"{relation} of {identifier} by {leak.row['method']}"
                found.append((-leak.grade, str(leak.row["corpus_id"]), relation, detail))
    for _, corpus_id, relation, detail in sorted(found):
        yield _item(corpus_id, articles), relation, detail
    sources = _sources(benchmark)
    for item, article in articles.items():
        if article.lower() in sources:
            yield item, "same article", f"{article} is a source of {sources[article.lower()]}"


def removal(leak: Leak) -> str | None:
    """Why this match removes the item, or None where it does not."""
    if leak.grade is Grade.UNDECIDED:
        return "undecided image"
    if leak.grade in (Grade.COPY, Grade.FULL):
        return "image and text copy" if leak.grade is Grade.FULL else "image copy"
    if leak.grade is Grade.TEXT:
        return "same question and answer"
    row = leak.row
    reworded = leak.grade is Grade.SIMILAR and row.get("relation") in _REWORDED
    if reworded and row.get("answer_relation", row.get("label_relation")) == "same":
        return "reworded question and answer"
    return None


def _item(corpus_id: str, articles: Mapping[str, Any]) -> str:
    """The item that a corpus id names; one of several images adds its number to the id."""
    if corpus_id in articles:
        return corpus_id
    for separator in ("#", "/"):
        head = corpus_id.rpartition(separator)[0]
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
