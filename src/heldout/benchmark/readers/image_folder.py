"""Folders of images: ``root/class/image.jpg`` or a flat folder; the class is the answer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from heldout.benchmark.readers.base import Row
from heldout.benchmark.readers.pipes import PipesReader
from heldout.benchmark.source import split_of
from heldout.store import Dropped

EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jp2", ".avif", ".ppm",
    ".pgm", ".dcm",
})  # fmt: skip
_DATA = (".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".csv", ".tsv", ".tab", ".arrow")
_SIDECARS = (".md", ".txt", ".rst", ".html", ".pdf", ".yaml", ".yml", ".xml", ".bib", ".cff")
_SIDECAR_NAMES = ("readme", "license", "licence", "copying", "notice", "thumbs.db", "desktop.ini")
_NOT_CLASSES = ("images", "image", "imgs", "img", "data", "pictures", "photos")
_LOOK = 200  # entries of a class folder that are looked at: recognising must stay cheap


class ImageFolderReader:
    name = "image-folder"
    suffixes = ("",)

    def recognises(self, path: Path) -> bool:
        """Images below, and no data file that would say more about them than the folders do."""
        return not split_images(path) and _has_images(path)

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        number = 0
        for file in _walk(path):
            relative = file.relative_to(path).as_posix()
            try:
                relative.encode()
            except UnicodeEncodeError:
                name = os.fsencode(relative).decode("utf-8", errors="replace")
                yield Dropped("read", name, "file name is not UTF-8", repr(os.fsencode(relative)))
                continue
            if file.is_dir():
                yield Dropped("read", relative, "link to a folder", f"to {file.resolve()}")
                continue
            if file.suffix.lower() not in EXTENSIONS:
                if not _is_sidecar(file.name):
                    detail = f"'{file.suffix}' is not the ending of an image"
                    yield Dropped("read", relative, "not an image file", detail)
                continue
            number += 1
            parts = relative.split("/")
            named = len(parts) > 1 and parts[0].lower() not in _NOT_CLASSES
            label = {"label": parts[0]} if named else {}
            yield Row(number, {"id": relative, "image": relative, **label})


def split_images(folder: Path) -> dict[str, Path]:
    """Folders of images named after splits (root/train, root/val); empty in another layout."""
    if not folder.is_dir():
        return {}
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    folders = [entry for entry in entries if entry.is_dir()]
    if not folders or not all(split_of(entry.name) for entry in folders) or _data_file(folder):
        return {}
    return {entry.name: entry for entry in folders if _has_images(entry)}


def _has_images(folder: Path) -> bool:
    if _data_file(folder):
        return False
    found = False
    for entry in _entries(folder):
        if entry.is_dir():
            children = list(itertools.islice(_entries(entry), _LOOK))
            if any(_is_data(child) for child in children):
                return False
            found = found or any(_is_image(child) for child in children)
        else:
            found = found or _is_image(entry)
    return found


def _data_file(folder: Path) -> bool:
    return any(_is_data(entry) for entry in _entries(folder))


def _entries(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield Path(entry.path)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS and path.is_file()


def _is_data(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix == ".txt" and path.is_file():
        return PipesReader().recognises(path)
    return suffix in _DATA and path.is_file()


def _is_sidecar(name: str) -> bool:
    lowered = name.lower()
    return lowered.endswith(_SIDECARS) or lowered.split(".")[0] in _SIDECAR_NAMES or (
        lowered in _SIDECAR_NAMES
    )  # fmt: skip


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below, in one stable order, hidden ones left alone."""
    entries = sorted(_entries(folder), key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        # A link to a folder above would never end: it is listed, not entered.
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        else:
            yield entry
