"""From what a row says about its image to an ImageRef, never leaving the dataset's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.image import EncodedText, FileOnDisk, ImageRef, InlineBytes, Nowhere
from heldout.image.location import split_list

_FOLDERS = (
    "images", "imgs", "image", "img", "Images", "figures", "data", "train_images", "val_images",
    "test_images", "flickr30k-images", "train2014", "val2014", "test2014", "test2015", "train2017",
    "val2017", "test2017",
)  # fmt: skip
# Folders that hold only the tables of a dataset: its images lie beside them.
TABLE_FOLDERS = ("annotations", "annotation", "qa_information", "open-access", "restricted-access")
_EXTENSIONS = ("", ".jpg", ".png", ".jpeg", ".webp", ".JPG", ".JPEG", ".dcm")
_MAX_DEPTH = 8  # lists in lists: no dataset nests its images deeper
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{120,}={0,2}\s*", re.ASCII)
_REMEMBERED = 50_000  # names; a training set of millions must not be kept


class ImageFinder:
    """Looks below ``root`` (the data file's folder), or only below ``images`` if the user named it.

    A file of the same name elsewhere may be another picture: who says where to look means it.
    """

    def __init__(self, root: Path, images: Path | None = None, split: str | None = None) -> None:
        self.bases = [images or root]
        place = self.bases[0]
        while images is None and place.name.lower() in TABLE_FOLDERS:
            place = place.parent
            self.bases.append(place)
        names = list(_FOLDERS)
        if split:
            names += [
                f"{split}_images",
                f"{split}-images",
                f"images_{split}",
                split,
                f"images/{split}",
            ]
        for _ in range(2):  # images/ and images/val2017/
            for base in list(self.bases):
                found = [base / name for name in names if (base / name).is_dir()]
                self.bases += [place for place in found if place not in self.bases]
        self._roots = [base.resolve() for base in self.bases]
        for resolved in list(self._roots):
            # The hub's cache keeps files in blobs/ and links to them from snapshots/<revision>/.
            if "snapshots" in resolved.parts:
                cache = Path(*resolved.parts[: resolved.parts.index("snapshots")])
                self._roots.append(cache / "blobs")
        self._found: dict[str, ImageRef] = {}  # several questions share an image: look it up once

    def find(self, value: Any, origin: str, depth: int = 0) -> tuple[ImageRef, ...]:
        """All images a cell names: a reference, bytes, a path, a data URL, a struct, or a list."""
        if depth > _MAX_DEPTH:
            return (ImageRef(origin, Nowhere("bad image name", "lists nested too deeply")),)
        if value is None or value == "":
            return ()
        if isinstance(value, ImageRef):
            return (value,)
        if isinstance(value, bytes | bytearray):
            return (ImageRef(origin, InlineBytes(bytes(value), origin)),)
        if isinstance(value, dict):
            data, name = value.get("bytes"), str(value.get("path") or origin)
            if isinstance(data, bytes | bytearray):
                return (ImageRef(name, InlineBytes(bytes(data), origin)),)
            if isinstance(data, str):
                return (ImageRef(name, EncodedText(data, origin)),)
            if data is not None:
                detail = f"expected bytes or base64, found {type(data).__name__}"
                return (ImageRef(name, Nowhere("not an image", detail)),)
            return self.find(value.get("path"), origin, depth + 1)
        if isinstance(value, list | tuple):
            return tuple(ref for part in value for ref in self.find(part, origin, depth + 1))
        text = str(value)
        parts = split_list(text)
        if len(parts) != 1:
            return self.find(parts, origin, depth + 1)
        text = parts[0]
        if text.startswith("data:") or _BASE64.fullmatch(text[:4096]):
            return (ImageRef(origin, EncodedText(text, origin)),)
        if text not in self._found:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[text] = self._file(text)
        return (self._found[text],)

    def _file(self, name: str) -> ImageRef:
        if "\0" in name or len(name) > 4096:
            return ImageRef(repr(name[:80]), Nowhere("bad image name", repr(name[:80])))
        if re.match(r"[a-z][a-z0-9+.-]*://", name, re.IGNORECASE):
            return ImageRef(name, Nowhere("remote image", f"{name} is not downloaded"))
        for base in self.bases:
            for candidate in _spellings(name):
                path = base / candidate
                if not _is_file(path):
                    continue
                if not self._inside(path):
                    detail = f"{name} points outside {self.bases[0]}"
                    return ImageRef(name, Nowhere("image outside the dataset folder", detail))
                return ImageRef(name, FileOnDisk(str(path)))
        folder = self.bases[0]
        return ImageRef(name, Nowhere("missing image", f"{name} is not below {folder}"))

    def _inside(self, path: Path) -> bool:
        """True unless the name ('..', an absolute path, a link) leaves the folders we may read."""
        resolved = path.resolve()
        return any(resolved.is_relative_to(root) for root in self._roots)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than the file system allows names no file
        return False


def _spellings(name: str) -> Iterator[str]:
    """The name, with common extensions, and as 'xmlab102.jpg' for SLAKE's 'xmlab102/source.jpg'."""
    for extension in _EXTENSIONS:
        yield name + extension
    parent, slash, last = name.rpartition("/")
    if slash:
        yield Path(parent).name + Path(last).suffix
        yield last
