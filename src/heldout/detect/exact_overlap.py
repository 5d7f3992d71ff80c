"""exact-overlap: how much of a benchmark is in a corpus byte for byte or pixel for pixel.

One finding per denominator: images, questions about leaked images, and, where the corpus carries
answers, questions that leaked together with theirs. They are never mixed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from heldout.detect.finding import Cell, Effect, Finding, Statistic
from heldout.stats import binomial_interval, cluster_rate_interval

NAME = "exact-overlap"
BLIND_TO = [
    "re-encoded (lossy), resized, cropped, rotated, flipped or recoloured copies",
    "copies inside compound figures",
    "leaked text without its image",
]


def exact_overlap(
    items: pl.DataFrame,
    matches: pl.DataFrame,
    *,
    benchmark: str,
    corpus: str,
    corpus_images: int,
    corpus_answers: int,
    seed: int = 0,
) -> list[Finding]:
    """``items`` and ``matches`` are the run's tables; only images that can be compared count."""
    cell = Cell(benchmark=benchmark, corpus=corpus)
    # A picture is what it shows: count distinct digests, not file names.
    digests = items.select(pl.col("image_digests").explode()).to_series()
    comparable = {digest for digest in digests if digest}
    testable = items.filter(pl.col("image_digests").list.eval(pl.element() != "").list.any())
    hits = matches.filter(
        (pl.col("corpus") == corpus) & pl.col("method").is_in(["bytes", "pixels"])
    )
    leaked_images = _leaked_images(hits) & comparable
    leaked = set(hits["benchmark_id"])
    with_answer = set(hits.filter(pl.col("modality") == "full")["benchmark_id"])
    ids, clusters = testable["benchmark_id"].to_list(), testable["cluster"].to_list()
    common: dict[str, Any] = {
        "detector": NAME,
        "cell": cell,
        "p": None,
        "blind_to": BLIND_TO,
        "seed": seed,
        "table": "matches",
    }
    details = {
        "corpus_images_compared": corpus_images,
        "copies": len(hits),
        "by_method": _count(hits, "method"),
        "by_modality": _count(hits, "modality"),
        "by_label_relation": _count(hits, "label_relation"),
    }
    n, found = len(comparable), len(leaked_images)
    images = Finding(
        id=f"{NAME}/{corpus}/images",
        unit="images",
        statistic=Statistic(name="leaked images", value=found),
        effect=Effect.of("leak rate per image", _rate(found, n), binomial_interval(found, n)),
        direction="seen" if found else "none",
        n=n,
        clusters=n,
        minimum_detectable_effect=_detectable(n),
        details=details,
        **common,
    )
    findings = [
        images,
        _per_question(f"{NAME}/{corpus}/questions", "questions", leaked, ids, clusters, common),
    ]
    if corpus_answers:
        name = f"{NAME}/{corpus}/answers"
        unit = "questions with their answer"
        findings.append(_per_question(name, unit, with_answer, ids, clusters, common))
    return findings


def _per_question(
    identifier: str,
    unit: str,
    leaked: Collection[str],
    ids: Sequence[str],
    clusters: Sequence[str],
    common: dict[str, Any],
) -> Finding:
    hits = [float(one in leaked) for one in ids]
    found = int(sum(hits))
    interval = cluster_rate_interval(hits, clusters, seed=common["seed"])
    groups = len(set(clusters))
    return Finding(
        id=identifier,
        unit=unit,
        statistic=Statistic(name=f"leaked {unit}", value=found),
        effect=Effect.of("leak rate per question", _rate(found, len(ids)), interval),
        direction="seen" if found else "none",
        n=len(ids),
        clusters=groups,
        minimum_detectable_effect=_detectable(groups),
        **common,
    )


def _leaked_images(hits: pl.DataFrame) -> set[str]:
    if hits.is_empty():
        return set()
    image = pl.col("evidence").str.json_path_match("$.benchmark_pixels")
    return set(hits.select(image).to_series())


def _count(hits: pl.DataFrame, column: str) -> dict[str, int]:
    return {str(key): count for key, count in hits[column].value_counts(sort=True).iter_rows()}


def _rate(found: int, n: int) -> float:
    return found / n if n else 0.0


def _detectable(n: int) -> float:
    """The leak rate at which at least one of n units would have been found 19 times out of 20."""
    return float(1.0 - 0.05 ** (1.0 / n)) if n else 1.0
