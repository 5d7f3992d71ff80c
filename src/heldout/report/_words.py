"""The report's section on words: what was found by which method, of which kind, and the pairs to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from heldout.detect import Finding
from heldout.evidence import COPIES, count_kinds, text_kinds
from heldout.overlap import BESIDE, JUDGED_DIFFERENT, SAME_CAPTION, SAME_ITEM, SAME_QUESTION

DOUBTED = 5  # pairs on the page that a judge called different
_DEGREE = {"hard": 0, "soft": 1, "none": 2}
_WHOLE = (SAME_ITEM, SAME_QUESTION, SAME_CAPTION)
# among equals, the plainest method comes first
_METHOD = {"exact": 0, "ngram": 1, "edit": 2, "embedding": 3}


def word_sections(
    texts: Mapping[str, Mapping[str, Any]],
    findings: Sequence[Finding],
    items: pl.DataFrame,
    matches: pl.DataFrame,
    text_matches: pl.DataFrame | None,
    shown: int,
) -> list[dict[str, Any]]:
    """One per corpus whose texts were compared.

    Args:
        texts: The manifest's record of the search, by corpus.
        findings: Those of all corpora.
        items: The run's table of items.
        matches: The run's table of image matches.
        text_matches: The run's table of text matches; None if texts were not compared.
        shown: Items on the page; the table has all of them.
    """
    if text_matches is None:
        return []
    kinds = text_kinds(text_matches, matches)
    by_id = {finding.id: finding for finding in findings}
    answers = dict(items.select("benchmark_id", "answer").iter_rows())
    return [
        {
            "corpus": corpus,
            "scanned": scanned,
            "methods": [
                {"method": method, "finding": by_id[f"text-overlap/{corpus}/{method}"]}
                for method in scanned["methods"]
                if f"text-overlap/{corpus}/{method}" in by_id
            ],
            "kinds": count_kinds(kinds, corpus),
            "judge": scanned.get("judge"),
            "doubted": _doubted(text_matches.filter(pl.col("corpus") == corpus)),
            "joined": by_id[f"joined-leakage/{corpus}"].details,
            **_pairs(
                text_matches.filter(pl.col("corpus") == corpus),
                answers,
                matches.filter((pl.col("corpus") == corpus) & pl.col("relation").is_in(COPIES)),
                shown,
            ),
        }
        for corpus, scanned in texts.items()
        if any(f"text-overlap/{corpus}/{method}" in by_id for method in scanned["methods"])
    ]


def _doubted(here: pl.DataFrame) -> list[dict[str, Any]]:
    """Pairs that do not count because of a model's opinion: people can see whether it was right."""
    rows = here.filter(pl.col("relation") == JUDGED_DIFFERENT).sort(
        -pl.col("similarity"), "benchmark_id", "corpus_id"
    )
    return [
        {**row, "evidence": json.loads(row["evidence"])}
        for row in rows.head(DOUBTED).iter_rows(named=True)
    ]


def _pairs(
    here: pl.DataFrame, answers: Mapping[str, str | None], copies: pl.DataFrame, shown: int
) -> dict[str, Any]:
    """The strongest pair of every item, and how many more there are of it."""
    # A shared source is named in the tables above and has no text to show.
    words = here.filter((pl.col("degree") != "none") & (pl.col("method") != "provenance"))
    order = pl.col("degree").replace_strict(_DEGREE, return_dtype=pl.Int8)
    plain = pl.col("method").replace_strict(_METHOD, return_dtype=pl.Int8)
    whole = ~pl.col("relation").is_in(_WHOLE)
    pairs = words.sort(
        order, whole, -pl.col("similarity"), plain, "benchmark_id", maintain_order=True
    ).unique(["benchmark_id", "corpus_id"], keep="first", maintain_order=True)
    best = pairs.with_columns(pl.len().over("benchmark_id").alias("pairs")).unique(
        "benchmark_id", keep="first", maintain_order=True
    )
    own = set(copies.select("benchmark_id", "corpus_id").iter_rows())
    rows = []
    for row in best.head(shown).iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        other = "another picture" if evidence.get("pictured") else ""
        picture = evidence.get(BESIDE, other)
        if (row["benchmark_id"], row["corpus_id"]) in own:
            picture = "a copy of its picture"
        answer = answers.get(row["benchmark_id"])
        rows.append({**row, "evidence": evidence, "answer": answer, "picture": picture})
    return {"pairs": rows, "evident": len(best), "evident_pairs": len(pairs)}
