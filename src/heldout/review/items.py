"""Cards of items: a benchmark, synthesized or not, to be rated on four scales and accepted or not."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.benchmark import Benchmark, canonical_metadata
from heldout.image import ImageRef
from heldout.review.card import Card
from heldout.review.pictures import Album, Picture, same_pixels
from heldout.store import Run

MOST = 6  # pictures of one item that are shown
_OPINION = ("rubric", "verif", "accepted", "rejected")  # in names of columns that give it away


@dataclass(frozen=True)
class Verifier:
    """What a verifier said of an item: accepted or not, and its rubric line by line."""

    accepted: bool | None
    rubric: tuple[Mapping[str, Any], ...]

    @property
    def failed(self) -> list[str]:
        """Titles of the essential criteria that it found missing."""
        return [
            str(line.get("title", "?"))
            for line in self.rubric
            if str(line.get("category", "")).lower() == "essential"
            and line.get("score") in (0, "0")
        ]


def run_cards(run: Run) -> list[Card]:
    album = Album(run)
    return [_from_table(row, album) for row in run.read_table("items").to_pylist()]


def benchmark_cards(benchmark: Benchmark) -> list[Card]:
    return [
        _card(
            example.id,
            example.images[0].name if example.images else example.id,
            example.question,
            example.options,
            example.answer,
            canonical_metadata(example.metadata),
            [_found(ref) for ref in example.images[:MOST]],
        )
        for example in benchmark
    ]


def _found(ref: ImageRef) -> Picture:
    # Read from the benchmark itself a moment ago: there is nothing to compare it with.
    return Picture(ref.name, lambda: [ref], lambda data, image: True)


def _from_table(row: Mapping[str, Any], album: Album) -> Card:
    identifier = row["benchmark_id"]
    shown = zip(row["image_names"][:MOST], row["image_digests"], strict=False)
    pictures = [
        Picture(name, functools.partial(album.of_benchmark, identifier, index), same_pixels(digest))
        for index, (name, digest) in enumerate(shown)
    ]
    metadata = json.loads(row["metadata"] or "{}")
    words = (row["question"], row["options"] or (), row["answer"])
    return _card(identifier, row["cluster"], *words, metadata, pictures)


def _card(
    identifier: str,
    cluster: str,
    question: str | None,
    options: Iterable[str],
    answer: str | None,
    metadata: Mapping[str, str],
    pictures: Iterable[Picture],
) -> Card:
    verifier = verifier_of(metadata)
    shown = {
        key: value
        for key, value in metadata.items()
        if not any(part in key.lower() for part in _OPINION)
    }
    return Card(
        subject=identifier,
        cluster=cluster,
        told={
            "id": identifier,
            "question": question or "",
            "options": list(options),
            "answer": answer or "",
            "metadata": shown,
        },
        hint={
            "accepted": verifier.accepted,
            "failed": verifier.failed,
            "rubric": [dict(line) for line in verifier.rubric],
        },
        pictures={f"image {place}": picture for place, picture in enumerate(pictures, 1)},
    )


def verifier_of(metadata: Mapping[str, Any]) -> Verifier:
    """The verifier's opinion as an item's columns carry it: ``rubric`` (a list of lines with title,

    category and score), ``accepted``, or both inside ``verifier``. Without ``accepted``, an item whose
    rubric fails an essential criterion was rejected.
    """
    inside = _parsed(metadata.get("verifier"))
    inside = inside if isinstance(inside, dict) else {}
    rubric = _parsed(metadata.get("rubric", inside.get("rubric")))
    if isinstance(rubric, dict):
        rubric = rubric.get("rubric")
    lines = (
        tuple(line for line in rubric if isinstance(line, dict)) if isinstance(rubric, list) else ()
    )
    accepted = _truth(metadata.get("accepted", inside.get("accepted")))
    if accepted is None and lines:
        accepted = not Verifier(None, lines).failed
    return Verifier(accepted, lines)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _truth(value: Any) -> bool | None:
    message = str(value).strip().lower()
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
        message
    )
