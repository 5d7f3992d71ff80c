"""Folders of images: ``root/class/image.jpg`` or a flat folder; the class is the answer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from heldout.benchmark.readers.base import FileRow
from heldout.benchmark.readers.pipes import PipesReader
from heldout.benchmark.source import split_of
from heldout.image import (
    HEAD,
    IMAGE_ENDINGS,
    FileOnDisk,
    ImageRef,
    ending,
    is_sidecar,
    looks_like_image,
    readable,
)
from heldout.remote import entries, located
from heldout.store import Dropped

_DATA = (".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".csv", ".tsv", ".tab", ".arrow")
_NOT_CLASSES = ("images", "image", "imgs", "img", "data", "pictures", "photos")
_LOOK = 200  # entries of a class folder that are looked at: recognising must stay cheap


class ImageFolderReader:
    name = "image-folder"
    suffixes = ("",)

    def recognises(self, path: Path) -> bool:
        """Images below, and no data file that would say more about them than the folders do."""
        return not split_images(path) and _has_images(path)

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        number = 0
        for file in _walk(path):
            if isinstance(file, Dropped):
                where = located(file.id).relative_to(path).as_posix()
                yield Dropped("read", readable(where), file.reason, file.detail, file.scope)
                continue
            if is_sidecar(file.name):
                continue
            name = readable(file.relative_to(path).as_posix())
            if (reason := _refused(file)) is not None:
                yield Dropped("read", name, *reason)
                continue
            number += 1
            parts = name.split("/")
            named = len(parts) > 1 and parts[0].lower() not in _NOT_CLASSES
            label = {"label": parts[0]} if named else {}
            # A link may lead out of the folder: its name is looked up, and refused, like any other.
            image = name if file.is_symlink() else ImageRef(name, FileOnDisk(str(file)))
            yield FileRow(number, {"id": name, "image": image, **label})


def split_images(folder: Path) -> dict[str, Path]:
    """Folders of images named after splits (root/train, root/val); empty in another layout."""
    if not folder.is_dir():
        return {}
    folders = sorted(entry for entry in _entries(folder) if entry.is_dir())
    if not folders or not all(split_of(entry.name) for entry in folders) or _data_file(folder):
        return {}
    return {entry.name: entry for entry in folders if _has_images(entry)}


def _has_images(folder: Path) -> bool:
    if _data_file(folder):
        return False
    has_image = False
    for entry in _entries(folder):
        if entry.is_dir():
            try:
                children = list(itertools.islice(_entries(entry), _LOOK))
            except OSError:
                continue  # reading names the folder
            if any(_is_data(child) for child in children):
                return False
            has_image = has_image or any(_is_image(child) for child in children)
        else:
            has_image = has_image or _is_image(entry)
    return has_image


def _data_file(folder: Path) -> bool:
    return any(_is_data(entry) for entry in _entries(folder))


def _entries(folder: Path) -> Iterator[Path]:
    yield from (entry for entry in entries(folder) if not entry.name.startswith("."))


def _is_image(path: Path) -> bool:
    end = ending(path.name)
    return path.is_file() and (end in IMAGE_ENDINGS or (not end and looks_like_image(_head(path))))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _refused(file: Path) -> tuple[str, str] | None:
    """Why an entry that is no folder and no sidecar is no item either, or None if it is one."""
    try:
        if file.is_dir():
            return "link to a folder", readable(f"to {file.resolve()}; its files are read there")
        if not file.is_file() and not file.is_symlink():
            return "not a regular file", "expected an image file"
    except (OSError, RuntimeError) as error:
        return "unreadable file", str(error)
    if ending(file.name) in IMAGE_ENDINGS:
        return None
    start = _head(file) if file.is_file() else b""
    if looks_like_image(start):
        return None
    return "not an image", f"ending '{ending(file.name)}', first bytes {start[:16]!r}"


def _is_data(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix == ".txt" and path.is_file():
        return PipesReader().recognises(path)
    return suffix in _DATA and path.is_file()


def _walk(folder: Path) -> Iterator[Path | Dropped]:
    """Every file below in one stable order, and the folders that are not entered."""
    try:
        names = sorted((entry.name for entry in folder.iterdir()), key=os.fsencode)
    except OSError as error:
        yield Dropped("read", str(folder), "unreadable folder", str(error.strerror), "many")
        return
    for name in names:
        entry = folder / name
        # A link to a folder above would never end: it is listed, not entered.
        if entry.is_symlink() or not entry.is_dir():
            yield entry
        elif name.startswith("."):
            yield Dropped("read", str(entry), "hidden folder", "not walked", "many")
        else:
            yield from _walk(entry)
