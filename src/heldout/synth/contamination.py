"""Appendix F of MedVLSynther as a report: how near the items come to a benchmark, in words and images.

Overlap@τ has two populations. Of the benchmark: the share of its questions or images whose nearest item
is at least that near, with an interval by image, because questions about one image are near or far
together. Of the items: the share with a question or image of the benchmark as near, with an interval by
article. Both are counted before anything was removed and for the items that are left.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.image import ImageError, ImageRef
from heldout.overlap import (
    benchmark_pictures,
    mask,
    open_text_encoder,
    phash,
    read_matches,
    read_text_matches,
    whole_pictures,
)
from heldout.store import Run
from heldout.synth._against import first_problem
from heldout.synth._corpus_of_items import NAME, BalancedItem, balanced_items
from heldout.synth._generate import figure_images
from heldout.synth.context import StageContext
from heldout.synth.planting import cluster_rate

TEXT_THRESHOLD, NEAREST = 0.88, 5
FIELDS = ("question", "question and options")
HAMMING = (4, 8, 16)
IMAGE_THRESHOLDS = (0.85, 0.88, 0.90)
_BINS = tuple(round(0.05 * step, 2) for step in range(21))
_BLOCK = 2_048
_FAR = 65  # larger than any distance
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
    counts = [len(hit) for hit in hits.values()]
    best = [max(hit) for hit in hits.values()]
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
        "histogram": {
            "edges": list(_BINS),
            "counts": np.histogram(np.clip(nearest, 0, 1), _BINS)[0].tolist(),
        },
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
    rate = cluster_rate(hit.astype(float).tolist(), list(clusters))
    return {**rate, "hits": int(rate["hits"])}


def item_statistics(
    nearness: Mapping[str, float],
    articles: Mapping[str, str],
    removed: Collection[str],
    near: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.bool_]]],
) -> dict[str, Any]:
    """By item: how many have a query of the benchmark as near as each threshold, before the removal and of
    those that are left. ``near``: by the threshold's name what is near enough."""
    record: dict[str, Any] = {}
    for name, gone in (("before_removal", ()), ("published", removed)):
        kept = {item: value for item, value in nearness.items() if item not in gone}
        values = np.asarray(list(kept.values()), np.float64)
        clusters = [articles[item] for item in kept]
        record[name] = {
            "items": len(kept),
            "overlap_at": {at: _rate(is_near(values), clusters) for at, is_near in near.items()},
            "nearest": _summary(values),
        }
    return record


def _summary(values: Any) -> dict[str, float] | None:
    array = np.asarray(values, np.float64)
    if not len(array):
        return None
    return {
        "mean": float(array.mean()),
        "median": float(np.median(array)),
        "p95": float(np.quantile(array, 0.95)),
        "max": float(array.max()),
    }


def contamination_report(
    context: StageContext,
    benchmark: Benchmark,
    searched: Run,
    encoder: str | None,
    articles: Mapping[str, str],
    removed: Collection[str],
    hashes: BenchmarkHashes,
) -> dict[str, Any]:
    """Texts and images of the items against one benchmark. All images of an item count, in their native
    resolution. ``searched``: the ``overlap`` run, whose embeddings are used again; ``articles``: of all
    items, before the removal. Memory holds one part of the items at a time."""
    report: dict[str, Any] = {
        "benchmark": benchmark.name,
        "items_before_removal": len(articles),
        "items": sum(name not in removed for name in articles),
    }
    skipped = {"skipped": "no text encoder: pip install 'heldout[text]'"}
    items = balanced_items(context.run)
    report["text"] = _texts(benchmark, items, encoder, articles, removed) if encoder else skipped
    report["images"] = hashes.as_json()
    report["hashes"] = _hashes(hashes.codes, context.run, articles, removed)
    embedded = _embeddings(searched, articles, removed)
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


class NearestItem:
    """The nearest items of every query, as parts of the items come along. ``nearest`` and ``pairs`` leave
    out the items in ``removed``; ``before`` has them all. ``items``: how near each item comes to any
    query."""

    def __init__(
        self, queries: Floats, top: int, threshold: float, removed: Collection[str] = ()
    ) -> None:
        self._queries, self._top, self._threshold = queries, top, threshold
        self._removed = removed
        self.nearest = np.full(len(queries), -1.0)
        self.before = np.full(len(queries), -1.0)
        self.items: dict[str, float] = {}
        self._pairs: list[list[tuple[float, str]]] = [[] for _ in range(len(queries))]

    def compare(
        self, names: Sequence[str], rows: Floats, items: Sequence[str] | None = None
    ) -> None:
        """``items``: whose images the rows are, where they have names of their own."""
        items = names if items is None else items
        left = [place for place, item in enumerate(items) if item not in self._removed]
        own = np.full(len(rows), -1.0)
        for start in range(0, len(self._queries), _BLOCK):
            block = self._queries[start : start + _BLOCK] @ rows.T
            end = start + len(block)
            self.before[start:end] = np.maximum(self.before[start:end], block.max(axis=1))
            own = np.maximum(own, block.max(axis=0))
            if not left:
                continue
            block = block[:, left]
            best = block.max(axis=1)
            self.nearest[start:end] = np.maximum(self.nearest[start:end], best)
            for query in np.flatnonzero(best > self._threshold):
                near = np.flatnonzero(block[query] > self._threshold)
                known_pair = self._pairs[start + query]
                known_pair += [(float(block[query, at]), names[left[at]]) for at in near.tolist()]
                known_pair.sort(key=lambda pair: (-pair[0], pair[1]))
                del known_pair[self._top :]
        for item, value in zip(items, own.tolist(), strict=True):
            self.items[item] = max(value, self.items.get(item, -1.0))

    def both(
        self,
        near: NearPairs,
        thresholds: Sequence[float],
        articles: Mapping[str, str],
    ) -> dict[str, Any]:
        """The statistics of both populations; ``near``: the pairs, with the clusters of the queries."""
        above = {f"{t:g}": functools.partial(np.less, t) for t in thresholds}
        before = {at: _rate(is_near(self.before), near.clusters) for at, is_near in above.items()}
        return {
            **near_statistics(near, thresholds),
            "before_removal": {"overlap_at": before, "max_similarity": _summary(self.before)},
            "by_item": item_statistics(self.items, articles, self._removed, above),
        }

    def pairs(self, queries: Sequence[str]) -> NearPairs:
        """``queries``: their names; the same name is one cluster."""
        pairs = [
            (query, name, similarity)
            for query, pair in zip(queries, self._pairs, strict=True)
            for similarity, name in pair
        ]
        return NearPairs(pairs, self.nearest.tolist(), queries)


def _texts(
    benchmark: Benchmark,
    items: Iterator[BalancedItem],
    encoder: str,
    articles: Mapping[str, str],
    removed: Collection[str],
) -> dict[str, Any]:
    """A question with options is compared with whole items, one without options with the questions of items
    alone. Rows hold both texts, and a query has zeros where it has no options, or else where
    the question stands alone, so that one product compares each with its own kind."""
    asked = [example for example in benchmark if (example.question or "").strip()]
    model = open_text_encoder(encoder)

    def embed(texts: Iterable[tuple[str, Sequence[str]]]) -> Floats:
        return model.embed([mask(_query(question, options).lower()) for question, options in texts])

    chosen = np.asarray(
        [[len(example.options) < 2, len(example.options) > 1] for example in asked], np.float32
    )
    queries = embed((example.question or "", example.options) for example in asked)
    queries = np.hstack([queries * chosen[:, :1], queries * chosen[:, 1:]]) if asked else queries
    nearest = NearestItem(queries, NEAREST, TEXT_THRESHOLD, removed) if asked else None
    while nearest is not None and (batch := list(itertools.islice(items, _BLOCK))):
        drafts = [item.draft for item in batch]
        alone = embed((draft.question, ()) for draft in drafts)
        whole = embed((draft.question, draft.options) for draft in drafts)
        nearest.compare([draft.id for draft in drafts], np.hstack([alone, whole]))
    if nearest is None or nearest.items.keys() <= set(removed):
        return {"skipped": "no texts to compare"}
    near = nearest.pairs([example.id for example in asked])
    clusters = [example.images[0].name if example.images else example.id for example in asked]
    by_image = NearPairs(near.pairs, near.nearest, clusters)
    counts = dict(zip(FIELDS, chosen.sum(axis=0).astype(int).tolist(), strict=True))
    record = {"encoder": model.identity, "threshold": TEXT_THRESHOLD, "top": NEAREST}
    record["fields"] = {name: count for name, count in counts.items() if count}
    return {**record, **nearest.both(by_image, (TEXT_THRESHOLD,), articles)}


def _query(question: str, options: Sequence[str]) -> str:
    shown = " ".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(options))
    return f"{question} {shown}".strip()


@dataclass(frozen=True)
class BenchmarkHashes:
    """``codes``: by name, of every distinct image that can be read; ``problems``: of those that cannot."""

    codes: Mapping[str, int]
    problems: Mapping[str, ImageError]

    @classmethod
    def of(cls, benchmark: Benchmark) -> BenchmarkHashes:
        problems: dict[str, ImageError] = {}
        images = (image for example in benchmark for image in example.images)
        return cls(dict(_hashed(images, problems)), problems)

    def as_json(self) -> dict[str, Any]:
        reasons = Counter(error.reason for error in self.problems.values())
        record: dict[str, Any] = {"images": len(self.codes) + len(self.problems)}
        record |= {"compared": len(self.codes), "unreadable": dict(reasons.most_common())}
        return record | ({"first": first_problem(self.problems)} if self.problems else {})


def images_compared(report: Mapping[str, Any]) -> str:
    """How many images of a benchmark could be compared; empty where all could."""
    known = report.get("images", {})
    if not known.get("unreadable"):
        return ""
    return (
        f"{known['compared']:,} of {known['images']:,} images of {report['benchmark']} could be compared; "
        f"copies of the others would not be found (the first, {known['first']})."
    )


def _hashes(
    theirs: Mapping[str, int], run: Run, articles: Mapping[str, str], removed: Collection[str]
) -> dict[str, Any]:
    codes = np.asarray(list(theirs.values()), np.uint64)
    before, nearest = (np.full(len(theirs), _FAR, np.int64) for _ in range(2))
    by_item: dict[str, float] = {}
    for item in balanced_items(run) if len(codes) else ():
        for _, own in _hashed(figure_images(item.figure, run.path)):
            apart = np.bitwise_count(codes ^ np.uint64(own)).astype(np.int64)
            before = np.minimum(before, apart)
            if item.draft.id not in removed:
                nearest = np.minimum(nearest, apart)
            known = by_item.get(item.draft.id, float(_FAR))
            by_item[item.draft.id] = min(known, float(apart.min()))
    if not len(nearest) or nearest[0] == _FAR:
        return {"skipped": "no images to compare"}
    within = {str(d): functools.partial(np.greater_equal, d) for d in HAMMING}
    overlap = {at: _rate(is_near(before), list(theirs)) for at, is_near in within.items()}
    return {
        **hamming_statistics(nearest.tolist(), list(theirs)),
        "before_removal": {"overlap_at": overlap, "minimum": int(before.min())},
        "by_item": item_statistics(by_item, articles, removed, within),
    }


def _hashed(
    refs: Iterable[ImageRef], problems: dict[str, ImageError] | None = None
) -> Iterator[tuple[str, int]]:
    """Every distinct image once, by its name; those that cannot be decoded go to ``problems``."""
    seen: set[str] = set()
    for ref in refs:
        if ref.name not in seen:
            seen.add(ref.name)
            try:
                code = phash(ref.open())
            except ImageError as error:
                if problems is not None:
                    problems[ref.name] = error
                continue
            yield ref.name, code


def _embeddings(
    searched: Run, articles: Mapping[str, str], removed: Collection[str]
) -> dict[str, Any] | None:
    """By the rows that the search saved, of whole pictures; None where it embedded none."""
    if not (searched.path / "queries").is_dir():
        return None
    theirs = benchmark_pictures(searched)
    ours = whole_pictures(searched, NAME, theirs.identity)
    queries = theirs.rows.astype(np.float32)
    nearest = NearestItem(queries, _MOST_PAIRS, IMAGE_THRESHOLDS[1], removed)
    start = 0
    for rows in ours.rows:
        names = ours.ids[start : start + len(rows)]
        start += len(rows)
        items = [name if name in articles else name.rpartition("#")[0] for name in names]
        if names:
            nearest.compare(names, np.asarray(rows, np.float32), items)
    if not theirs.pictures or nearest.items.keys() <= set(removed):
        return None
    statistics = nearest.both(nearest.pairs(theirs.pictures), IMAGE_THRESHOLDS, articles)
    return {"encoder": theirs.identity, **statistics}
