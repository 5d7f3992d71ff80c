"""Scan corpora for a benchmark's words, into the run folder of its image scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus
from heldout.engine import Engine
from heldout.overlap.embeddings.folders import corpus_folder
from heldout.overlap.scan import stage_settings
from heldout.overlap.text import TextSearch, build_text_index, collect_text, search_text
from heldout.overlap.text.pictures import settle_pictures
from heldout.store import SCHEMAS, Dropped, Run, Stage, dropped_table

TABLES = ("text_matches", "text_queries")


@dataclass
class ScannedTexts:
    """What became of one corpus' texts. ``failed`` shards have no result."""

    corpus: str
    methods: list[str]
    encoder: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def scan_texts(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    search: TextSearch,
    *,
    quiet: bool = False,
) -> list[ScannedTexts]:
    """Write the tables text_matches and text_queries. Call after ``scan``, inside run.writing()."""
    index, dropped = build_text_index(benchmark, search)
    methods = [method for method in search.methods if search.uses(method)]
    scanned: list[ScannedTexts] = []
    stages: list[Stage] = []
    for corpus in corpora:
        settings = stage_settings(benchmark, corpus)
        folder = corpus_folder(corpus.name)
        text_result = search_text(index, corpus, run, folder, settings, engine, quiet)
        stages.append(text_result.stage)
        dropped += [
            Dropped("text", one, "shard failed", why) for one, why in text_result.failed.items()
        ]
        scanned_texts = ScannedTexts(
            corpus.name, methods, index.encoder_identity, text_result.counts, text_result.failed
        )
        scanned.append(scanned_texts)
    # The image scan has just written what could not be read at all; this adds what has no words.
    seen = run.read_table("dropped")
    Stage.merge_all(
        stages,
        "dropped",
        run.table_path("dropped"),
        first=pa.concat_tables([seen, dropped_table(dropped)]),
    )
    collect_text(run, stages, nearest=search.nearest)
    settled = settle_pictures(
        run.frame("text_matches"), run.frame("matches"), run.frame("items"), _unread(run)
    )
    run.write_table("text_matches", settled.to_arrow().cast(SCHEMAS["text_matches"]))
    run.update(
        "text",
        {scanned_texts.corpus: vars(scanned_texts) for scanned_texts in scanned},
        replace=True,
    )
    return scanned


def _unread(run: Run) -> pl.DataFrame:
    """(corpus, corpus_id) of items whose picture the image scan could not read.

    What was dropped does not say of which corpus: an id is looked for in those that lost items.
    """
    lost = [
        one["corpus"]
        for one in run.manifest().get("stages", {}).values()
        if one["counts"].get("lost_items", 0)
    ]
    dropped = run.frame("dropped").filter(pl.col("stage") == "corpus")
    ids = dropped.select(pl.col("id").alias("corpus_id")).unique()
    return pl.DataFrame({"corpus": lost}, schema={"corpus": pl.String}).join(ids, how="cross")


def forget_texts(run: Run) -> None:
    """A run without a text search says nothing of an earlier one's words."""
    for name in TABLES:
        run.table_path(name).unlink(missing_ok=True)
    run.update("text", {}, replace=True)
