"""The matches as people judge them: two pictures side by side, the worst leaks first."""

from __future__ import annotations

import base64
import json
from typing import Any

import polars as pl

from heldout.overlap.judged import read_matches
from heldout.store import Run

SHOWN = 60
_WORST = {"full": 0, "image and question": 1, "image only": 2}
_SUREST = {"same image": 0, "transformed copy": 1, "undecided": 2, "same view, other subject": 3}


def pairs_shown(run: Run, limit: int = SHOWN) -> tuple[list[dict[str, Any]], int]:
    """Up to ``limit`` picture pairs with their questions, and how many pairs there are in all."""
    matches = read_matches(run)
    if matches.is_empty():
        return [], 0
    matches = matches.filter(pl.col("relation") != "unrelated")
    if matches.is_empty():
        return [], 0
    # One pair of pictures can carry many questions: group them, the worst leak decides the order.
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    severity = pl.col("modality").replace_strict(_WORST, default=3, return_dtype=pl.Int32)
    sureness = pl.col("relation").replace_strict(_SUREST, default=4, return_dtype=pl.Int32)
    grouped = (
        matches.with_columns(picture, (4 * sureness + severity).alias("severity"))
        .group_by("picture", "corpus", "corpus_id", maintain_order=True)
        .agg(pl.all().sort_by("severity", maintain_order=True))
        .sort(pl.col("severity").list.first(), maintain_order=True)
    )
    shown = list(grouped.head(limit).iter_rows(named=True))
    items = _items(run, {one for pair in shown for one in pair["benchmark_id"]})
    pairs = [_pair(pair, items) for pair in shown]
    sides = ("left", "right", "panel")
    pictures = _pictures(run, {pair[side] for pair in pairs for side in sides if pair[side]})
    for pair in pairs:
        for side in sides:
            pair[side] = pictures.get(pair[side])
    return pairs, len(grouped)


def _pair(group: dict[str, Any], items: dict[str, dict[str, Any]]) -> dict[str, Any]:
    evidence = json.loads(group["evidence"][0])
    questions = [
        {**items[one], "modality": modality, "label_relation": label}
        for one, modality, label in zip(
            group["benchmark_id"], group["modality"], group["label_relation"], strict=True
        )
    ]
    return {
        "corpus": group["corpus"],
        "corpus_id": group["corpus_id"],
        "method": group["method"][0],
        "relation": group["relation"][0],
        "transform": group["transform"][0],
        "modality": group["modality"][0],
        "label_relation": group["label_relation"][0],
        "left": evidence["benchmark_image"],
        "right": evidence["corpus_image"],
        "panel": evidence.get("panel"),
        "similarity": group["similarity"][0],
        "correlation": (evidence.get("registration") or {}).get("detail"),
        "image": items[group["benchmark_id"][0]]["image_names"][group["image_index"][0]],
        "corpus_text": evidence["corpus_text"],
        "corpus_question": evidence["corpus_question"],
        "corpus_answer": evidence["corpus_answer"],
        "questions": questions,
    }


def _items(run: Run, wanted: set[str]) -> dict[str, dict[str, Any]]:
    items = pl.from_arrow(run.read_table("items"))
    assert isinstance(items, pl.DataFrame)
    kept = items.filter(pl.col("benchmark_id").is_in(list(wanted)))
    return {row["benchmark_id"]: row for row in kept.iter_rows(named=True)}


def _pictures(run: Run, wanted: set[str]) -> dict[str, dict[str, Any]]:
    thumbnails = pl.from_arrow(run.read_table("thumbnails"))
    assert isinstance(thumbnails, pl.DataFrame)
    return {
        row["digest"]: {
            "url": "data:image/webp;base64," + base64.b64encode(row["webp"]).decode(),
            "width": row["width"],
            "height": row["height"],
        }
        for row in thumbnails.filter(pl.col("digest").is_in(list(wanted))).iter_rows(named=True)
    }
