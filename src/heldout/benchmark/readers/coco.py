"""COCO captions: ``{"images": […], "annotations": […]}``, one row per caption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import Row, head
from heldout.benchmark.readers.json_rows import load_object, too_deep
from heldout.errors import InputError
from heldout.store import Dropped


class CocoReader:
    name = "coco"
    suffixes = (".json",)

    def recognises(self, path: Path) -> bool:
        start = head(path)
        if start.lstrip()[:1] != b"{":
            return False
        images = b'"images"' in start and b'"file_name"' in start
        return images or (
            b'"annotations"' in start and b'"image_id"' in start and b'"caption"' in start
        )

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        content = load_object(path)
        images = content.get("images")
        annotations = content.get("annotations", [])
        if not isinstance(images, list) or not isinstance(annotations, list):
            raise InputError(f"{path}: expected COCO's lists 'images' and 'annotations'")
        # What is nested deeper than it could be shown is no image and no caption.
        images = [None if too_deep(image) else image for image in images]
        annotations = [None if too_deep(note) else note for note in annotations]
        objects = [note for note in annotations if isinstance(note, dict)]
        if objects and not any("caption" in note for note in objects[:100]):
            found = ", ".join(list(objects[0])[:5])
            raise InputError(
                f"{path}: the annotations have no 'caption', only {found}; "
                f"name the captions file instead, such as captions_val2017.json"
            )
        files: dict[str, str] = {}
        for position, image in enumerate(images, 1):
            if (
                isinstance(image, dict)
                and "id" in image
                and isinstance(image.get("file_name"), str)
            ):
                files[str(image["id"])] = image["file_name"]
            else:
                where = f"{path.name} image {position}"
                detail = f"expected an id and a file_name, found {image!r:.80}"
                yield Dropped("read", where, "missing field", detail)
        yield from _captions(path, files, annotations)


def _captions(path: Path, files: dict[str, str], annotations: list[Any]) -> Iterator[Row | Dropped]:
    number = 0
    described: set[str] = set()
    for position, note in enumerate(annotations, 1):
        where = f"{path.name} annotation {position}"
        if not isinstance(note, dict) or not isinstance(note.get("caption"), str):
            detail = f"expected an image_id and a caption, found {note!r:.80}"
            yield Dropped("read", where, "missing field", detail)
            continue
        image = str(note.get("image_id"))
        if image not in files:
            detail = f"image_id {image} is not among the {len(files):,} images of the file"
            yield Dropped("read", where, "unknown image", detail)
            continue
        described.add(image)
        number += 1
        caption = note["caption"].strip()
        identity = str(note.get("id", f"{image}_{number}"))
        yield Row(
            number, {"id": identity, "image": files[image], "answer": caption, "img_id": image}
        )
    for image, name in files.items():  # the test sets are released without captions
        if image not in described:
            number += 1
            yield Row(
                number, {"id": f"image_{image}", "image": name, "answer": None, "img_id": image}
            )
