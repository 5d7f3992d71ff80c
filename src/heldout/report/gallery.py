"""The matches as people judge them: pairs of pictures with their questions, the worst leaks first."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from heldout.evidence import GRAVEST, SUREST, Modality, Relation
from heldout.overlap import read_matches
from heldout.store import Run

LEAKED = {
    Modality.FULL: "image, question and answer",
    Modality.IMAGE_AND_QUESTION: "image and question",
    Modality.IMAGE_ONLY: "image only",
}
QUESTIONS = 8  # of one picture; the table holds all
_LONGEST = 400  # characters of somebody else's text in one card


def all_pairs(run: Run) -> list[dict[str, Any]]:
    """Every pair of pictures that is not unrelated, with the questions asked of it."""
    matches = read_matches(run)
    matches = matches.filter(pl.col("relation") != Relation.UNRELATED)
    if matches.is_empty():
        return []
    # One pair of pictures can carry many questions on either side: group them, the worst leak decides.
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    theirs = pl.col("evidence").str.json_path_match("$.corpus_image").fill_null(pl.col("corpus_id"))
    severity = pl.col("modality").replace_strict(GRAVEST, return_dtype=pl.Int32)
    sureness = pl.col("relation").replace_strict(SUREST, return_dtype=pl.Int32)
    grouped = (
        matches.with_columns(
            picture, theirs.alias("theirs"), (len(GRAVEST) * sureness + severity).alias("severity")
        )
        .group_by("picture", "corpus", "theirs", maintain_order=True)
        .agg(pl.all().sort_by("severity", maintain_order=True))
        .sort(pl.col("severity").list.first(), maintain_order=True)
    )
    items = _items(run, set(matches["benchmark_id"].to_list()))
    return [_pair(group, items) for group in grouped.iter_rows(named=True)]


def _pair(group: dict[str, Any], items: dict[str, dict[str, Any]]) -> dict[str, Any]:
    evidence = json.loads(group["evidence"][0])
    worst: dict[str, str] = {}  # rows come the worst first
    for one, modality in zip(group["benchmark_id"], group["modality"], strict=True):
        worst.setdefault(one, modality)
    questions = [
        {
            "question": _short(items[one]["question"]),
            "answer": _short(items[one]["answer"]),
            "leaked": modality == Modality.FULL,
        }
        for one, modality in worst.items()
    ]
    registration = evidence.get("registration") or {}
    return {
        "corpus": group["corpus"],
        "corpus_id": group["corpus_id"][0],
        "corpus_items": len(set(group["corpus_id"])),
        "method": group["method"][0],
        "relation": group["relation"][0],
        "transform": group["transform"][0],
        "leaked": LEAKED.get(group["modality"][0], ""),
        "full": group["modality"][0] == Modality.FULL,
        "other_answer": group["label_relation"][0] == "different",
        "left": evidence["benchmark_image"],
        "right": evidence["corpus_image"],
        "warp": registration.get("warp"),
        "inverted": bool(registration.get("inverted")),
        "similarity": group["similarity"][0],
        "detail": registration.get("detail"),
        "image": items[group["benchmark_id"][0]]["image_names"][group["image_index"][0]],
        "corpus_text": _short(evidence["corpus_text"]),
        "corpus_question": _short(evidence["corpus_question"]),
        "corpus_answer": _short(evidence["corpus_answer"]),
        "questions": questions[:QUESTIONS],
        "asked": len(questions),
    }


def _short(words: str | None) -> str:
    message = words or ""
    return message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"


def _items(run: Run, wanted: set[str]) -> dict[str, dict[str, Any]]:
    kept = run.frame("items").filter(pl.col("benchmark_id").is_in(list(wanted)))
    return {row["benchmark_id"]: row for row in kept.iter_rows(named=True)}
