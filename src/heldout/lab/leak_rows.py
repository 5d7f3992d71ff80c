"""What an overlap audit said of every item of a leaky corpus, beside what is known of it: one row each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from heldout.corpus import Corpus
from heldout.evidence import COPIES, Relation
from heldout.overlap.judged import read_matches
from heldout.overlap.text.testable import untestable_items
from heldout.store import Dropped, Run

STRANGER = "stranger"
BROKEN = "broken"
SCHEMA = pl.Schema({
    "world": pl.String, "seed": pl.Int64, "corpus_id": pl.String, "kind": pl.String, "group": pl.String,
    "detail": pl.String, "image": pl.String, "benchmark_id": pl.String, "found_by": pl.String,
    "words": pl.String, "label_relation": pl.String, "pictured": pl.Boolean,
    # The pair with its own picture; degree and relation are empty where it was not listed.
    "method": pl.String, "similarity": pl.Float64, "degree": pl.String, "relation": pl.String,
    "transform": pl.String, "label_said": pl.String,
    # Pairs with other pictures of the benchmark: none of them is right.
    "other_pairs": pl.Int64, "other_graded": pl.Int64, "other_hard": pl.Int64,
    "other_undecided": pl.Int64, "other_copies": pl.Int64,
    "other_image": pl.String, "other_relation": pl.String,  # the one that comes nearest to a copy
    # Its words and its own item's, and with other items'.
    "untestable": pl.String, "text_methods": pl.String, "text_degree": pl.String,
    "text_relation": pl.String, "answer_said": pl.String, "other_texts": pl.Int64,
    "other_text_hard": pl.Int64,
})  # fmt: skip
_GRADE = {"hard": 2, "soft": 1, "none": 0}


@dataclass
class _Said:
    """What the audit says of one corpus item."""

    pictures: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the benchmark's picture
    labels: dict[str, str] = field(default_factory=dict)  # by item
    texts: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))


def leak_rows(
    run: Run, corpus: Corpus, truth: Path, *, world: str, seed: int
) -> pl.DataFrame:  # fmt: skip
    """One row per item of the corpus that could be read. Broken files are dropped, and are not here."""
    items = run.frame("items").with_columns(image=pl.col("image_names").list.first())
    said = _said(items, read_matches(run), run.frame("text_matches"))
    untestable = _untestable(run, items)
    known = {row["corpus_id"]: row for row in map(json.loads, truth.read_text().splitlines())}
    rows = [
        {"world": world, "seed": seed, **_row(id, pictured, known.get(id), said[id], untestable)}
        for id, pictured in _corpus_items(corpus)
        if known.get(id, {}).get("group") != BROKEN
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(
    id: str,
    pictured: bool,
    truth: Mapping[str, Any] | None,
    said: _Said,
    untestable: Mapping[str, str],
) -> dict[str, Any]:
    planted = truth or {"kind": STRANGER, "group": STRANGER, "detail": ""}
    image, item = planted.get("image"), planted.get("benchmark_id")
    own = said.pictures.get(image or "", {})
    strange = {name: pair for name, pair in said.pictures.items() if name != image}
    others = list(strange.values())
    worst = max(strange.items(), key=lambda pair: _grade(pair[1]), default=("", {}))
    words = max(said.texts.get(item or "", []), key=_gravity, default={})
    other_words = [
        max(pairs, key=_gravity) for name, pairs in said.texts.items() if name != item
    ]  # fmt: skip
    return {
        "corpus_id": id,
        **{
            name: planted.get(name)
            for name in ("kind", "group", "detail", "image", "benchmark_id", "found_by", "words")
        },
        "label_relation": planted.get("label_relation"),
        "pictured": pictured,
        "method": str(own.get("method", "")).split(" |")[0],
        "similarity": own.get("similarity"),
        "degree": own.get("degree", ""),
        "relation": own.get("relation", ""),
        "transform": own.get("transform", ""),
        "label_said": said.labels.get(item or "", ""),
        "other_pairs": len(others),
        "other_graded": sum(pair["degree"] != "none" for pair in others),
        "other_hard": sum(pair["degree"] == "hard" for pair in others),
        "other_undecided": sum(pair["relation"] == Relation.UNDECIDED for pair in others),
        "other_copies": sum(pair["relation"] in COPIES for pair in others),
        "other_image": worst[0],
        "other_relation": worst[1].get("relation", ""),
        "untestable": untestable.get(item or "", ""),
        "text_methods": "+".join(sorted({p["method"] for p in said.texts.get(item or "", [])})),
        "text_degree": words.get("degree", ""),
        "text_relation": words.get("relation", ""),
        "answer_said": words.get("answer_relation", ""),
        "other_texts": sum(pair["degree"] != "none" for pair in other_words),
        "other_text_hard": sum(pair["degree"] == "hard" for pair in other_words),
    }


def _said(
    items: pl.DataFrame, matches: pl.DataFrame, texts: pl.DataFrame
) -> defaultdict[str, _Said]:
    found: defaultdict[str, _Said] = defaultdict(_Said)
    shown = dict(items.select("benchmark_id", "image").iter_rows())
    for row in matches.drop("evidence").iter_rows(named=True):
        one = found[row["corpus_id"]]
        one.labels[row["benchmark_id"]] = row["label_relation"]
        before = one.pictures.get(shown[row["benchmark_id"]])
        if before is None or _grade(row) > _grade(before):
            one.pictures[shown[row["benchmark_id"]]] = row
    words = texts.filter(
        (pl.col("method") != "provenance") & (pl.col("relation") != "same options")
    )
    for row in words.drop("evidence").iter_rows(named=True):
        found[row["corpus_id"]].texts[row["benchmark_id"]].append(row)
    return found


def _untestable(run: Run, items: pl.DataFrame) -> dict[str, str]:
    """Items that no method could find by their words, each with the reason."""
    (scanned,) = run.manifest()["text"].values()
    methods = [method for method in scanned["methods"] if method != "provenance"]
    answered = scanned["counts"].get("text_answers", 0) > 0
    reasons = untestable_items(items, run.frame("text_queries"), methods, answered)
    everywhere = set.intersection(*(set(found) for found in reasons.values()))
    return {item: reasons[methods[0]][item] for item in everywhere}


def _corpus_items(corpus: Corpus) -> Iterator[tuple[str, bool]]:
    for shard in corpus.shards():
        read: Iterable[Any] = corpus.read(shard)
        for item in read:
            if not isinstance(item, Dropped):
                yield item.id, item.image is not None


def _grade(row: Mapping[str, Any]) -> int:
    """How near to a copy it is said to be: a verdict is worth more than a degree."""
    said = 20 if row["relation"] in COPIES else 10 if row["relation"] == Relation.UNDECIDED else 0
    return said + _GRADE[row["degree"]]


def _gravity(row: Mapping[str, Any]) -> tuple[int, bool, float]:
    return _GRADE[row["degree"]], row["relation"] == "same item", row["similarity"]
