"""Verify candidates: read each pair again and let registration decide what it is."""

from __future__ import annotations

import functools
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from heldout.corpus import Corpus, CorpusItem, Shard
from heldout.image import ImageError, ImageRef, byte_digest, decode, pixel_digest
from heldout.overlap.calibration import degree
from heldout.overlap.exact import Place
from heldout.overlap.modality import relate_text
from heldout.overlap.recoloured import recoloured_in_part
from heldout.overlap.registration import (
    Features,
    Registration,
    aligned_panel,
    cheap_features,
    register,
)
from heldout.overlap.thumbnails import thumbnail
from heldout.store import Dropped, ShardResult, dropped_table, make_table

PAIRS = 64


@dataclass(frozen=True)
class Candidate:
    picture: str
    corpus_id: str
    similarity: float
    view: str


@dataclass(frozen=True)
class VerifyTask:
    """Some candidates of one shard; a shard with many is read by several workers."""

    index: int
    shard: Shard
    candidates: tuple[Candidate, ...]


def nearest_overall(rows: Iterable[Mapping[str, Any]], nearest: int) -> dict[int, list[Candidate]]:
    """Per shard, the candidates that are among the ``nearest`` of their picture in the whole corpus."""
    by_picture: dict[str, list[tuple[float, str, int, str]]] = defaultdict(list)
    for row in rows:
        entry = (-row["similarity"], row["corpus_id"], row["shard"], row["view"])
        by_picture[row["picture"]].append(entry)
    by_shard: dict[int, list[Candidate]] = defaultdict(list)
    for picture, found in sorted(by_picture.items()):
        for similarity, corpus_id, shard, view in sorted(found)[:nearest]:
            by_shard[shard].append(Candidate(picture, corpus_id, -similarity, view))
    return dict(by_shard)


def verify_tasks(
    shards: Mapping[int, Shard], by_shard: Mapping[int, list[Candidate]]
) -> Iterator[VerifyTask]:
    """Tasks of at most PAIRS pairs, the pairs of one corpus item together: it is decoded once."""
    index = 0
    for number in sorted(by_shard):
        waiting: list[Candidate] = []
        for _, group in itertools.groupby(
            sorted(by_shard[number], key=lambda one: (one.corpus_id, one.picture)),
            key=lambda one: one.corpus_id,
        ):
            waiting += group
            if len(waiting) >= PAIRS:
                yield VerifyTask(index, shards[number], tuple(waiting))
                index, waiting = index + 1, []
        if waiting:
            yield VerifyTask(index, shards[number], tuple(waiting))
            index += 1


def verify_shard(
    pictures: Mapping[str, tuple[ImageRef, list[Place]]],
    identity: str,
    corpus: Corpus,
    task: VerifyTask,
) -> ShardResult:
    """Registration of every candidate pair of one shard. Pure: the caller stores the result."""
    wanted: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in task.candidates:
        wanted[candidate.corpus_id].append(candidate)
    matches: list[dict[str, Any]] = []
    thumbnails: dict[str, dict[str, Any]] = {}
    dropped: list[Dropped] = []
    for item in corpus.read(task.shard):
        if isinstance(item, Dropped) or item.image is None or item.id not in wanted:
            continue
        try:
            data = item.image.read()
            image = decode(data)
        except ImageError as error:
            dropped.append(Dropped("corpus", item.id, error.reason, error.detail))
            continue
        own, pixels = byte_digest(data), pixel_digest(image)
        theirs = cheap_features(image)
        for candidate in wanted.pop(item.id):
            ref, places = pictures[candidate.picture]
            if any(place.bytes == own for place in places) or pixels == candidate.picture:
                continue  # an exact copy is in the table already
            found = _in_doubt(register(_features(ref), theirs), ref, image)
            panel = None
            if found.relation in _SHOWN:
                panel = f"panel:{candidate.picture[:32]}:{own[:32]}"
                thumbnails[panel] = thumbnail(panel, aligned_panel(ref.open(), image, found))
                thumbnails.setdefault(own, thumbnail(own, image))
            matches += _rows(places, candidate, item, found, identity, corpus.name, own, panel)
    return ShardResult(
        tables={
            "matches": make_table("matches", matches),
            "thumbnails": make_table("thumbnails", thumbnails.values()),
            "dropped": dropped_table(dropped),
        },
        counts={"pairs": len(task.candidates)},
    )


@functools.lru_cache(maxsize=256)
def _features(ref: ImageRef) -> Features:
    return cheap_features(ref.open())  # a picture meets many candidates


def _in_doubt(found: Registration, ref: ImageRef, image: Image.Image) -> Registration:
    """A copy that was edited may show something else now: that is for people to decide."""
    if found.is_copy and "changed in part" in found.transform:
        return replace(found, relation="undecided")
    if found.is_copy and recoloured_in_part(ref.open(), image, found):
        return replace(found, relation="undecided", transform="recoloured in part")
    return found


_SHOWN = ("same image", "transformed copy", "same view, other subject", "undecided")


def _rows(
    places: list[Place],
    candidate: Candidate,
    item: CorpusItem,
    found: Registration,
    identity: str,
    corpus: str,
    own: str,
    panel: str | None,
) -> Iterator[dict[str, Any]]:
    for place in places:
        text = relate_text(place.question, place.answer, item)
        evidence = {
            "benchmark_image": place.bytes,
            "benchmark_pixels": candidate.picture,
            "corpus_image": own,
            "corpus_source": item.image.source if item.image else "",
            "corpus_text": (item.text or "")[:500],
            "corpus_question": (item.question or "")[:500],
            "corpus_answer": (item.answer or "")[:200],
            "view": candidate.view,
            "panel": panel,
            "registration": found.as_json(),
        }
        yield {
            "benchmark_id": place.benchmark_id,
            "image_index": place.image_index,
            "corpus": corpus,
            "corpus_id": item.id,
            "method": identity,
            "similarity": candidate.similarity,
            "degree": degree(candidate.similarity, identity).degree,
            "relation": found.relation,
            "transform": found.transform,
            "modality": text.modality if found.is_copy else "none",
            "label_relation": text.label_relation if found.is_copy else "unknown",
            "evidence": json.dumps(evidence, ensure_ascii=False),
        }
