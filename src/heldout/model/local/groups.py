"""Requests that show the same pictures, found in windows of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from PIL import Image

from heldout.image import ImageError, ImageRef, byte_digest, decode, to_rgb
from heldout.model.request import Request
from heldout.store.dropped import Dropped

STAGE = "score"
WINDOW = 512


@dataclass(frozen=True)
class Group:
    requests: tuple[Request, ...]

    def pictures(self) -> list[Image.Image]:
        return [to_rgb(decode(picture.read())) for picture in self.requests[0].images]


def groups(requests: Iterable[Request]) -> Iterator[Group | Dropped]:
    """Groups by the pictures' own bytes: files that hold the same picture are one."""
    stream = iter(requests)
    while window := list(itertools.islice(stream, WINDOW)):
        found: dict[tuple[str, ...], list[Request]] = {}
        digests: dict[ImageRef, str] = {}
        for request in window:
            try:
                key = tuple(_digest(picture, digests) for picture in request.images)
            except ImageError as error:
                yield Dropped(STAGE, request.id, error.reason, error.detail)
                continue
            found.setdefault(key, []).append(request)
        for members in found.values():
            yield Group(tuple(members))


def _digest(picture: ImageRef, known: dict[ImageRef, str]) -> str:
    if picture not in known:
        known[picture] = byte_digest(picture.read())
    return known[picture]
