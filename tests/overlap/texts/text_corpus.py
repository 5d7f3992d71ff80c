"""Helpers of the text tests: a benchmark from rows, a corpus from rows, one search over both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from heldout.benchmark import Benchmark, Example
from heldout.corpus import Corpus, open_corpus
from heldout.overlap.texts._reading import settle_rewordings
from heldout.overlap.texts._rewordings import OwnPictures
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import TextShard, scan_text_shard
from heldout.store import SCHEMAS, ShardResult, make_table

_NO_MATCH = {
    "image_index": 0,
    "method": "pixels",
    "similarity": 1.0,
    "degree": "hard",
    "relation": "same image",
    "transform": "",
    "modality": "image only",
    "label_relation": "unknown",
    "evidence": "{}",
}
LONG = "Which vascular structure is most likely affected in the patient with acute infarction?"
LONG_OPTIONS = ("left carotid artery", "right middle cerebral artery", "basilar artery")


def bench(*items: Mapping[str, Any]) -> Benchmark:
    examples = [Example(id=str(k), **item) for k, item in enumerate(items)]
    return Benchmark("test", tuple(examples))


def corpus(folder: Path, *rows: Mapping[str, Any] | str) -> Corpus:
    """A JSON Lines corpus; a row that is a string is written as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return open_corpus(path)


def scan_all(
    benchmark: Benchmark,
    source: Corpus,
    search: TextSearch | None = None,
    own: OwnPictures | None = None,
) -> ShardResult:
    """One shard, read and settled; ``own``: corpus items that show an item's picture."""
    index, _ = build_text_index(benchmark, search)
    (shard,) = source.shards()
    result = scan_text_shard(index, source, TextShard.of(shard, own or OwnPictures()))
    if index.search.uses("embedding"):
        pictures = [
            {**_NO_MATCH, "benchmark_id": index.ids[item], "corpus_id": there}
            for there, items in (own or OwnPictures()).items.items()
            for item in items
        ]
        settled, _ = settle_rewordings(
            frame(result.tables["text_matches"]),
            frame(make_table("matches", [{**row, "corpus": source.name} for row in pictures])),
            index,
            quiet=True,
        )
        result.tables["text_matches"] = settled.to_arrow().cast(SCHEMAS["text_matches"])
    return result


def matches(result: ShardResult, method: str | None = None) -> list[dict[str, Any]]:
    rows = result.tables["text_matches"].to_pylist()
    for row in rows:
        row["evidence"] = json.loads(row["evidence"])
    return [row for row in rows if method is None or row["method"] == method]


def found(result: ShardResult, method: str) -> set[tuple[str, str, str, str]]:
    return {
        (row["benchmark_id"], row["corpus_id"], row["relation"], row["degree"])
        for row in matches(result, method)
    }


def frame(table: Any) -> pl.DataFrame:
    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


def ids(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(row["corpus_id"]) for row in rows}
