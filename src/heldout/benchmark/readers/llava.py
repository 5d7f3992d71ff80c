"""LLaVA conversations (and role/content messages): every question with its answer becomes a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import FileRow, head
from heldout.benchmark.readers.json_rows import (
    JsonLinesReader,
    load_object,
    numbered,
    stream_array,
    too_deep,
)
from heldout.errors import InputError
from heldout.store import Dropped

_ASKS = ("human", "user")
_ANSWERS = ("gpt", "assistant", "model", "bot")
_TAG = re.compile(r"(?<=\s)<image>\s|<image>\n?")


class LlavaReader:
    name = "llava"
    suffixes = (".json", ".jsonl", ".ndjson")

    def recognises(self, path: Path) -> bool:
        start = head(path)
        if start.lstrip()[:1] not in (b"[", b"{"):
            return False
        return (b'"conversations"' in start and b'"from"' in start) or (
            b'"messages"' in start and b'"role"' in start and b'"content"' in start
        )

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        if head(path).lstrip()[:1] == b"[":
            items = numbered(path, stream_array(path))
        else:
            items = JsonLinesReader().rows(path)
        number = 0
        for item in items:
            if isinstance(item, Dropped):
                yield item
                continue
            for row in turns(item, f"{path.name} row {item.number}"):
                if isinstance(row, Dropped):
                    yield row
                else:
                    number += 1
                    yield FileRow(number, row)


def turns(item: FileRow, where: str) -> Iterator[dict[str, Any] | Dropped]:
    """One row per question and answer; what does not pair is dropped with its turn."""
    key = "conversations" if "conversations" in item.values else "messages"
    if key not in item.values:  # a row of another form beside them
        yield dict(item.values)
        return
    conversation = item.values.get(key)
    if not isinstance(conversation, list) or not conversation:
        detail = f"expected '{key}' with a list of turns, found {conversation!r:.80}"
        yield Dropped("read", where, "broken conversation", detail)
        return
    rest = {name: value for name, value in item.values.items() if name not in (key, "id")}
    identity = str(item.values.get("id", item.number))
    pairs: list[tuple[str, str]] = []
    pictures: list[Any] = []
    question: str | None = None
    problem = ""
    for position, turn in enumerate(conversation, 1):
        role, text, images = _turn(turn)
        if role == "system" and text is not None and question is None:
            rest["system"] = text
        elif role in _ASKS and text is not None and question is None:
            question = text
            pictures += images
        elif role in _ANSWERS and text is not None and question is not None:
            pairs.append((question, text))
            question = None
        else:
            problem = f"turn {position} of {len(conversation)}: {turn!r:.80}"
            break
    if question is not None and not problem:
        problem = f"the question in turn {len(conversation)} has no answer"
    # One name for the column, so that items with one image and with several read alike.
    several = rest.pop("images", None)
    rest["image"] = rest.get("image") or several or pictures or None
    for turn_number, (asked, answered) in enumerate(pairs, 1):
        single = len(pairs) == 1
        row = {
            **rest,
            "id": identity if single else f"{identity}_{turn_number}",
            "question": _TAG.sub("", asked).strip(),
            "answer": answered.strip(),
        }
        if turn_number > 1:  # a later question may only make sense after the earlier ones
            row["conversation"] = "\n".join(f"{q}\n{a}" for q, a in pairs[: turn_number - 1])
        yield row
    if problem or not pairs:
        detail = problem or "no question with an answer"
        yield Dropped("read", where, "broken conversation", f"{identity}: {detail}")


def _turn(turn: Any) -> tuple[str, str | None, list[Any]]:
    """Role, text and images of one turn; the text is None where the turn is not one."""
    if not isinstance(turn, dict):
        return "", None, []
    role = str(turn.get("from", turn.get("role", ""))).lower()
    content = turn.get("value", turn.get("content"))
    if isinstance(content, str):
        return role, content, []
    if not isinstance(content, list):
        return role, None, []
    texts: list[str] = []
    pictures: list[Any] = []
    for part in content:  # [{"type": "image", "image": …}, {"type": "text", "text": …}]
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict):
            named = [part.get(name) for name in ("image", "image_url", "path", "url")]
            picture = next((value for value in named if value), None)
            if isinstance(picture, dict):
                picture = picture.get("url")
            pictures += [picture] if isinstance(picture, str) else []
    return role, "\n".join(texts), pictures


# COCO captions: ``{"images": […], "annotations": […]}``, one row per caption.


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

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
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
            text = ", ".join(list(objects[0])[:5])
            raise InputError(
                f"{path}: the annotations have no 'caption', only {text}; "
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


def _captions(
    path: Path, files: dict[str, str], annotations: list[Any]
) -> Iterator[FileRow | Dropped]:
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
        yield FileRow(
            number, {"id": identity, "image": files[image], "answer": caption, "img_id": image}
        )
    for image, name in files.items():  # the test sets are released without captions
        if image not in described:
            number += 1
            yield FileRow(
                number, {"id": f"image_{image}", "image": name, "answer": None, "img_id": image}
            )
