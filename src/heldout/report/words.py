"""The report's section on words: what was found by which method, of which kind, and the pairs to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from heldout.detect import Finding, count_kinds, text_kinds

SHOWN = 30  # pairs on the page; the table holds all
_DEGREE = {"hard": 0, "soft": 1, "none": 2}
_WHOLE = ["same item", "same question", "same caption"]


def word_sections(
    texts: Mapping[str, Mapping[str, Any]],
    findings: Sequence[Finding],
    items: pl.DataFrame,
    matches: pl.DataFrame,
    text_matches: pl.DataFrame | None,
) -> list[dict[str, Any]]:
    """One per corpus whose texts were searched; ``texts`` is the manifest's record of that."""
    if text_matches is None:
        return []
    kinds = text_kinds(text_matches, matches)
    by_id = {finding.id: finding for finding in findings}
    questions = dict(items.select("benchmark_id", "answer").iter_rows())
    return [
        {
            "corpus": corpus,
            "scanned": scanned,
            "methods": [
                {"method": method, "finding": by_id[f"text-overlap/{corpus}/{method}"]}
                for method in scanned["methods"]
            ],
            "kinds": count_kinds(kinds, corpus),
            "joined": by_id[f"joined-leakage/{corpus}"].details,
            **_pairs(text_matches.filter(pl.col("corpus") == corpus), questions),
        }
        for corpus, scanned in texts.items()
    ]


def _pairs(here: pl.DataFrame, answers: Mapping[str, str | None]) -> dict[str, Any]:
    evident = here.filter(pl.col("degree") != "none")
    order = pl.col("degree").replace_strict(_DEGREE, return_dtype=pl.Int8)
    whole = ~pl.col("relation").is_in(_WHOLE)
    best = (
        evident.sort(order, whole, -pl.col("similarity"), "benchmark_id", maintain_order=True)
        .unique(["benchmark_id", "corpus_id"], keep="first", maintain_order=True)
        .head(SHOWN)
    )
    rows = []
    for row in best.iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        rows.append({**row, "evidence": evidence, "answer": answers.get(row["benchmark_id"])})
    return {"pairs": rows, "evident": evident.select("benchmark_id", "corpus_id").n_unique()}
