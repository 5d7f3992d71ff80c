"""COCO captions: chosen captions with their images; licences and everything else as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.json_rows import load_object
from heldout.benchmark.writers.base import FilePart
from heldout.benchmark.writers.json_rows import (
    Entries,
    elements,
    first_value,
    joined,
    load_text,
    members,
    store_text,
)


class CocoWriter:
    name = "coco"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[FilePart], target: Path) -> None:
        images: list[tuple[Entries, list[int]]] = []
        captions: list[tuple[Entries, list[int]]] = []
        taken: set[str] = set()
        for part in parts:
            chosen = _Chosen.of(part)
            text = load_text(part.path)
            lists = {member.key: member.value for member in members(text, first_value(text))}
            shown = [i for i, image in chosen.images if image not in taken]
            taken |= {image for _, image in chosen.images}
            images.append((_entries(text, lists["images"]), shown))
            if "annotations" in lists:
                captions.append((_entries(text, lists["annotations"]), chosen.captions))
        text = images[0][0].text
        edits = [(images[0][0].inside, joined(images))]
        if captions:
            edits.append((captions[0][0].inside, joined(captions)))
        for (begin, end), inside in sorted(edits, reverse=True):
            text = text[:begin] + inside + text[end:]
        store_text(target, text)


def _entries(text: str, start: int) -> Entries:
    return Entries.of(text, start, list(elements(text, start)))


@dataclass(frozen=True)
class _Chosen:
    captions: list[int]  # positions from 0
    images: list[tuple[int, str]]  # positions and ids

    @classmethod
    def of(cls, part: FilePart) -> _Chosen:
        """Rows are counted as the reader does: good captions first, then images without any."""
        content = load_object(part.path)
        places: dict[str, int] = {}
        for position, image in enumerate(content["images"]):
            if _is_image(image):
                places[str(image["id"])] = position
        captions: list[int] = []
        used: set[str] = set()
        described: set[str] = set()
        number = 0
        for position, note in enumerate(content.get("annotations", [])):
            if not isinstance(note, dict) or not isinstance(note.get("caption"), str):
                continue
            image = str(note.get("image_id"))
            if image not in places:
                continue
            described.add(image)
            number += 1
            if number in part.rows:
                captions.append(position)
                used.add(image)
        for image in places:
            if image not in described:
                number += 1
                if number in part.rows:
                    used.add(image)
        return cls(captions, [(places[place], place) for place in places if place in used])


def _is_image(image: Any) -> bool:
    return isinstance(image, dict) and "id" in image and isinstance(image.get("file_name"), str)
