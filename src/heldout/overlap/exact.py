"""Exact copies: the same bytes, or the same native-resolution pixels in another file.

The benchmark is indexed (it is small), the corpus is streamed (it is not). An image is decoded only
if the benchmark holds a picture of its size; every other image cannot have the same pixels.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from heldout.benchmark import Benchmark
from heldout.benchmark.normal import normal
from heldout.corpus import Corpus, CorpusItem, Shard
from heldout.image import (
    Digests,
    ImageError,
    byte_digest,
    decode,
    native_size,
    pixel_digest,
)
from heldout.overlap.modality import TextRelation, relate_text
from heldout.overlap.thumbnails import thumbnail
from heldout.store import Dropped, ShardResult, dropped_table, make_table

STAGE = "overlap"


@dataclass(frozen=True, slots=True)
class Place:
    """One image of one benchmark item."""

    benchmark_id: str
    image_index: int
    bytes: str
    question: str  # normalised, for the comparison with the corpus item's text
    answer: str


@dataclass
class ExactIndex:
    """Digests of every benchmark image that identifies anything, and where it is shown."""

    by_pixels: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    pixels_of_bytes: dict[str, str] = field(default_factory=dict)
    sizes: set[tuple[int, int]] = field(default_factory=set)


def build_index(benchmark: Benchmark) -> tuple[ExactIndex, list[Dropped]]:
    """The index, and the benchmark images that cannot take part, with the reason."""
    index = ExactIndex()
    dropped = []
    for example in benchmark:
        for position, ref in enumerate(example.images):
            found = benchmark.digests[ref]
            if isinstance(found, ImageError):
                dropped.append(Dropped("benchmark", example.id, found.reason, found.detail))
            elif found.blank:
                detail = f"{ref.name}: a flat picture equals every other flat picture"
                dropped.append(Dropped(STAGE, example.id, "blank image", detail))
            else:
                _add(index, found, Place(
                    example.id, position, found.bytes, normal(example.question), normal(example.answer)
                ))  # fmt: skip
    index.by_pixels = dict(index.by_pixels)
    return index, dropped


def scan_shard(index: ExactIndex, corpus: Corpus, shard: Shard) -> ShardResult:
    """Every exact copy in one shard. Pure: the caller stores what is returned."""
    matches: list[dict[str, Any]] = []
    thumbnails: dict[str, dict[str, Any]] = {}
    dropped: list[Dropped] = []
    counts = {"items": 0, "images": 0, "decoded": 0, "with_answer": 0, "dropped": 0}
    for item in corpus.read(shard):
        if isinstance(item, Dropped):
            dropped.append(item)
            continue
        counts["items"] += 1
        counts["with_answer"] += bool(item.answer)
        if item.image is None:
            continue
        try:
            data = item.image.read()
            pixels, decoded = _same_picture(index, data)
        except ImageError as error:
            detail = f"{item.image.source}: {error.detail}"
            dropped.append(Dropped("corpus", item.id, error.reason, detail))
            continue
        counts["images"] += 1
        counts["decoded"] += decoded
        if pixels is not None:
            own = byte_digest(data)
            matches += _matches(index.by_pixels[pixels], corpus.name, item, own, pixels)
            if own not in thumbnails:
                thumbnails[own] = thumbnail(own, decode(data))
    counts["dropped"] = len(dropped)
    return ShardResult(
        tables={
            "matches": make_table("matches", matches),
            "thumbnails": make_table("thumbnails", thumbnails.values()),
            "dropped": dropped_table(dropped),
        },
        counts=counts,
    )


def _add(index: ExactIndex, found: Digests, place: Place) -> None:
    index.by_pixels[found.pixels].append(place)
    index.pixels_of_bytes[found.bytes] = found.pixels
    index.sizes.add((found.width, found.height))


def _same_picture(index: ExactIndex, data: bytes) -> tuple[str | None, bool]:
    """The pixel digest of the benchmark picture that ``data`` shows, if any; was it decoded?"""
    known = index.pixels_of_bytes.get(byte_digest(data))
    if known is not None:
        return known, False
    if native_size(data) not in index.sizes:
        return None, False
    pixels = pixel_digest(decode(data))
    return (pixels if pixels in index.by_pixels else None), True


def _matches(
    places: list[Place], corpus: str, item: CorpusItem, own: str, pixels: str
) -> Iterator[dict[str, Any]]:
    for place in places:
        text: TextRelation = relate_text(place.question, place.answer, item)
        evidence = {
            "benchmark_image": place.bytes,
            "benchmark_pixels": pixels,
            "corpus_image": own,
            "corpus_source": item.image.source if item.image else "",
            "corpus_text": (item.text or "")[:500],
            "corpus_question": (item.question or "")[:500],
            "corpus_answer": (item.answer or "")[:200],
        }
        yield {
            "benchmark_id": place.benchmark_id,
            "image_index": place.image_index,
            "corpus": corpus,
            "corpus_id": item.id,
            "method": "bytes" if place.bytes == own else "pixels",
            "similarity": 1.0,
            "degree": "hard",
            "relation": "same image",
            "transform": "none" if place.bytes == own else "lossless re-encoding",
            "modality": text.modality,
            "label_relation": text.label_relation,
            "evidence": json.dumps(evidence, ensure_ascii=False),
        }
