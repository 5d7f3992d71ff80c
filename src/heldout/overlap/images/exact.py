"""Exact copies: the same bytes, or the same native-resolution pixels in another file.

The benchmark is indexed (it is small), the corpus is streamed (it is not). Perceptual hashes are taken
in the same pass. An image is decoded whole only if the benchmark holds a picture of its size (every
other image cannot have the same pixels) or its hash, taken from a small decoding, lies near one.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from heldout.benchmark import BYTES_ONLY, Benchmark, normal, picture_key
from heldout.corpus import Corpus, CorpusItem, Shard, read_items
from heldout.engine import underway
from heldout.image import (
    JPEG,
    Digests,
    ImageError,
    ImageRef,
    byte_digest,
    decode,
    decoded_digest,
    image_error,
    native_size,
    to_rgb,
)
from heldout.overlap.images.fingerprint import Fingerprint, fingerprint, screen
from heldout.overlap.images.hashes import HashedShard, HashIndex, Waiting
from heldout.overlap.relations import AnswerRelation, Relation, relate_text
from heldout.store import MAY_PASS, Dropped, ShardResult, dropped_table, make_table

# Small pictures of matched images, kept in the run so that the report is rebuilt offline.


SIDE = 256


def thumbnail(digest: str, image: Image.Image) -> dict[str, Any]:
    """A row of the thumbnails table; ``digest`` is the byte digest of the original file."""
    small = to_rgb(image).copy()  # thumbnail() works in place
    small.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=82, method=2)  # as small as the default, in half the time
    return {
        "digest": digest,
        "width": image.width,
        "height": image.height,
        "webp": buffer.getvalue(),
    }


STAGE = "overlap"
COUNTS = (
    "items",
    "images",
    "decoded",
    "with_answer",
    "dropped",
    "lost_items",  # what could not be compared; files that were not read are counted by their kind
    "missing",  # of the lost items, those that may be there the next time
    "without_image",  # items that never had an image
)


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
    """Every benchmark picture that identifies anything, and the items that show it."""

    by_key: dict[str, list[Place]] = field(default_factory=dict)
    key_of_bytes: dict[str, str] = field(default_factory=dict)
    sizes: set[tuple[int, int]] = field(default_factory=set)

    def add(self, key: str, size: tuple[int, int] | None, place: Place) -> None:
        self.by_key.setdefault(key, []).append(place)
        self.key_of_bytes[place.bytes] = key
        if size is not None:
            self.sizes.add(size)


def build_index(benchmark: Benchmark) -> tuple[ExactIndex, list[Dropped]]:
    """The index, and the benchmark images that cannot take part, with the reason."""
    index = ExactIndex()
    dropped = []
    for example in benchmark:
        question, answer = normal(example.question), normal(example.answer)
        for position, ref in enumerate(example.images):
            digest = benchmark.digests[ref]
            if isinstance(digest, ImageError):
                dropped.append(Dropped("benchmark", example.id, digest.reason, digest.detail))
            elif digest.blank:
                detail = f"{ref.name}: a flat picture equals every other flat picture"
                dropped.append(Dropped(STAGE, example.id, "blank image", detail))
            key = picture_key(benchmark, ref)
            if key:
                size = (digest.width, digest.height) if isinstance(digest, Digests) else None
                own = key.removeprefix(BYTES_ONLY) if size is None else digest.bytes  # type: ignore[union-attr]
                index.add(key, size, Place(example.id, position, own, question, answer))
    return index, dropped


def lost_counts(dropped: Dropped) -> dict[str, int]:
    """What a scan counts of an item that it lost, or of the rest of a shard that cannot be read."""
    return dict.fromkeys(COUNTS, 0) | {
        "items": int(dropped.scope == "item"),
        "lost_items": int(dropped.scope == "item"),
        "missing": int(dropped.reason in MAY_PASS),
        "dropped": 1,
        **dropped.unread(),
    }


def scan_shard(
    index: ExactIndex, hashes: HashIndex | None, corpus: Corpus, shard: Shard
) -> ShardResult:
    """Every exact copy in one shard, and what its hash finds alike. Pure: the caller stores it."""
    matches: list[dict[str, Any]] = []
    thumbnails: dict[str, dict[str, Any]] = {}
    dropped: list[Dropped] = []
    counts = dict.fromkeys(COUNTS, 0)
    looked_at = _Looked(index, hashes)
    for item in underway(read_items(corpus, shard)):
        if isinstance(item, Dropped):
            dropped.append(item)
            counts["lost_items"] += item.scope == "item"
            for kind, count in item.unread().items():
                counts[kind] = counts.get(kind, 0) + count
            counts["missing"] += item.reason in MAY_PASS
            continue
        counts["items"] += 1
        counts["with_answer"] += bool(item.answer)
        if item.image is None:
            counts["without_image"] += 1
            continue
        try:
            data = item.image.read()
            own = byte_digest(data)
            key, decoded = looked_at.same_picture(item.id, item.image, data, own)
        except Exception as error:  # one item's failure must not cost the shard
            problem = image_error(error)
            detail = item.image.lost(problem.detail)
            dropped.append(Dropped("corpus", item.id, problem.reason, detail))
            counts["lost_items"] += 1
            counts["missing"] += problem.reason in MAY_PASS
            continue
        counts["images"] += 1
        counts["decoded"] += decoded
        if key is not None:
            matches += _matches(index.by_key[key], corpus.name, item, own, key)
            if own not in thumbnails and not key.startswith(BYTES_ONLY):
                with contextlib.suppress(ImageError, MemoryError):  # a match needs no picture of it
                    thumbnails[own] = thumbnail(own, decode(data))
    counts["dropped"] = len(dropped)
    return ShardResult(
        tables={
            "matches": make_table("matches", matches),
            "thumbnails": make_table("thumbnails", thumbnails.values()),
            "dropped": dropped_table(dropped),
            "candidates": make_table("candidates", looked_at.candidates(shard.index)),
        },
        counts=counts,
    )


class _Looked:
    """Looks at the pictures of one shard; a file that comes again is not decoded again."""

    def __init__(self, index: ExactIndex, hashes: HashIndex | None) -> None:
        self.index = index
        self.hashed = HashedShard(hashes) if hashes is not None else None
        self._known: dict[str, _Seen] = {}

    def same_picture(
        self, item: str, ref: ImageRef, data: bytes, own: str
    ) -> tuple[str | None, bool]:
        """The key of the benchmark picture that ``data`` shows, if any, and whether it was decoded."""
        decoded = False
        if own not in self._known:
            self._known[own], decoded = self._look(data, own)
        seen = self._known[own]
        if self.hashed is not None and seen.hashes is not None:
            if seen.whole:
                self.hashed.add(item, seen.hashes, seen.key)
            else:
                self.hashed.wait(Waiting(item, ref, seen.hashes, seen.key))
        return seen.key, decoded

    def candidates(self, shard: int) -> list[dict[str, Any]]:
        return self.hashed.candidates(shard) if self.hashed is not None else []

    def _look(self, data: bytes, own: str) -> tuple[_Seen, bool]:
        known = self.index.key_of_bytes.get(own)
        if known is not None and (self.hashed is None or known.startswith(BYTES_ONLY)):
            return _Seen(known), False
        size_fits = native_size(data) in self.index.sizes
        if self.hashed is None:
            if not size_fits:
                return _Seen(None), False
            pixels = decoded_digest(data)
            return _Seen(pixels if pixels in self.index.by_key else None), True
        if (
            self.hashed.screens and not size_fits and data.startswith(JPEG)
        ):  # decoded small for less
            return _Seen(known, screen(data, own), whole=False), False
        printed = fingerprint(data, own, sizes=self.index.sizes)
        return _Seen(
            printed.pixels if printed.pixels in self.index.by_key else known, printed
        ), True


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of one file: the benchmark picture it equals, its hashes, and what those are of."""

    key: str | None
    hashes: Fingerprint | None = None
    whole: bool = True


def _matches(
    places: list[Place], corpus: str, item: CorpusItem, own: str, key: str
) -> Iterator[dict[str, Any]]:
    for place in places:
        text: AnswerRelation = relate_text(place.question, place.answer, item)
        evidence = {
            "benchmark_image": place.bytes,
            "benchmark_pixels": key,
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
            "relation": Relation.SAME_IMAGE,
            "transform": "none" if place.bytes == own else "lossless re-encoding",
            "modality": text.modality,
            "label_relation": text.label_relation,
            "evidence": json.dumps(evidence, ensure_ascii=False),
        }
