"""From what a row says about its image to an ImageRef, never leaving the dataset's folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.image import (
    IMAGE_ENDINGS,
    EncodedText,
    FileOnDisk,
    ImageRef,
    InlineBytes,
    Nowhere,
    split_list,
)
from heldout.remote import RemoteError, RemotePath, entries, files_below

_FOLDERS = (
    "images",
    "imgs",
    "image",
    "img",
    "Images",
    "figures",
    "data",
    "train_images",
    "val_images",
    "test_images",
    "flickr30k-images",
    "train2014",
    "val2014",
    "test2014",
    "test2015",
    "train2017",
    "val2017",
    "test2017",
)
# Folders that hold only the tables of a dataset: its images lie beside them.
TABLE_FOLDERS = ("annotations", "annotation", "qa_information", "open-access", "restricted-access")
_EXTENSIONS = ("", ".jpg", ".png", ".jpeg", ".webp", ".JPG", ".JPEG", ".dcm")
_MAX_DEPTH = 8  # lists in lists: no dataset nests its images deeper
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{120,}={0,2}\s*", re.ASCII)
_REMEMBERED = 50_000  # names; a training set of millions must not be kept
_MOST_FILES = 1_000_000  # a folder of more is not searched for names: looking takes too long
_ID = re.compile(r"\d+|[0-9a-f]{8,}")
_IMAGE_WORDS = frozenset({"image", "images", "img", "imgs", "picture", "pictures", "figures"})

_ABOUT_IMAGES = re.compile("|".join(_IMAGE_WORDS), re.IGNORECASE)


class ImageFinder:
    """Looks below ``root`` (the data file's folder), or only below ``images`` if the user named it.

    ``folder`` is what the user named, where the data file lies below it: its images may lie beside
    the data file's own folder. A file of the same name elsewhere may be another picture, so only the named
    folder is searched.
    """

    def __init__(
        self,
        root: Path,
        images: Path | None = None,
        split: str | None = None,
        folder: Path | None = None,
    ) -> None:
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
        _list_once(self.bases[0])
        tried = 0
        for _ in range(2):  # images/ and images/val2017/
            fresh, tried = self.bases[tried:], len(self.bases)
            for base in fresh:
                paths = [base / name for name in names if _is_folder(base, name)]
                self.bases += [place for place in paths if place not in self.bases]
                for place in paths:
                    _list_once(place)
        searched = [place]
        if images is None:
            top = folder or root
            searched += [top, *_image_folders_beside(top)]
        self._search = _Search(searched)
        self._roots = [base.resolve() for base in [*self.bases, *searched]]
        for resolved in list(self._roots):
            # The hub's cache keeps files in blobs/ and links to them from snapshots/<revision>/.
            if "snapshots" in resolved.parts:
                cache = Path(*resolved.parts[: resolved.parts.index("snapshots")])
                self._roots.append(cache / "blobs")
        self._found: dict[str, ImageRef] = {}  # several questions share an image: look it up once

    def has_file(self, name: str) -> bool:
        """Whether a cell names a file that can be read as an image."""
        return isinstance(self._file(name).location, FileOnDisk)

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
        place = self._exact(name) or self._by_suffix(name)
        if isinstance(place, Nowhere):
            return ImageRef(name, place)
        if place is None:
            return ImageRef(name, Nowhere("missing image", self._missing(name)))
        if not self._inside(place):
            detail = f"{name} points outside {self.bases[0]}"
            return ImageRef(name, Nowhere("image outside the dataset folder", detail))
        return ImageRef(name, FileOnDisk(str(place)))

    def _exact(self, name: str) -> Path | None:
        """The file of this name, or of this name with a common extension, in one of the folders."""
        for base in self.bases:
            for extension in _EXTENSIONS:
                if _is_file(base, name + extension):
                    return base / (name + extension)
        return None

    def _by_suffix(self, name: str) -> Path | Nowhere | None:
        """The file below the folders whose path ends most like the name; None if none does."""
        parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")]
        if not parts:
            return None
        shared, places = self._search.longest(parts)
        if shared < 2 and len(parts) > 1:
            # SLAKE's 'xmlab102/source.jpg' is published as 'xmlab102.jpg', too.
            flat = self._exact(parts[-2] + Path(parts[-1]).suffix)
            if flat is not None:
                return flat
        if len(places) < 2:
            return places[0][0] / places[0][1] if places else None
        listed = ", ".join(path for _, path in places[:3])
        return Nowhere(
            "ambiguous image", f"{name} may be any of {len(places)} files that end alike: {listed}"
        )

    def _missing(self, name: str) -> str:
        message = f"{name} is not below {self.bases[0]}"
        return (
            f"{message}, which holds too many files to search" if self._search.gave_up else message
        )

    def _inside(self, path: Path) -> bool:
        """True unless the name ('..', an absolute path, a link) leaves the folders we may read."""
        resolved = path.resolve()
        return any(resolved.is_relative_to(root) for root in self._roots)


class _Search:
    """The image files below some folders by their last name, listed when first asked for."""

    def __init__(self, folders: list[Path]) -> None:
        distinct = list(dict.fromkeys(folders))
        self.folders = [
            folder
            for folder in distinct
            if not any(folder != other and folder.is_relative_to(other) for other in distinct)
        ]
        self.gave_up = False
        self._listed: dict[str, list[tuple[int, str]]] | None = None  # folder, path below it

    def longest(self, parts: list[str]) -> tuple[int, list[tuple[Path, str]]]:
        """How many last parts of a path can be matched, and where: a folder, a path below it."""
        if self._listed is None:
            self._listed = self._list()
        stem, _, end = parts[-1].rpartition(".")
        named = f".{end.lower()}" in IMAGE_ENDINGS  # else the name leaves the ending to the file
        best = 0
        places: list[tuple[Path, str]] = []
        for folder, path in self._listed.get(stem if named else parts[-1], []):
            *above, last = path.split("/")
            if named and last != parts[-1]:
                continue
            pairs = list(zip(reversed(parts[:-1]), reversed(above), strict=False))
            shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            if shared < len(pairs) and _are_siblings(*pairs[shared]):
                continue
            if shared + 1 > best:
                best, places = shared + 1, []
            if shared + 1 == best:
                places.append((self.folders[folder], path))
        return best, places

    def _list(self) -> dict[str, list[tuple[int, str]]]:
        listed: dict[str, list[tuple[int, str]]] = {}
        n = 0
        for number, top in enumerate(self.folders):
            for path in _files_below(top):
                n += 1
                if n > _MOST_FILES:
                    self.gave_up = True  # part of a listing would hide what else ends alike
                    return {}
                stem, _, end = path.rpartition("/")[2].rpartition(".")
                if f".{end.lower()}" in IMAGE_ENDINGS:
                    listed.setdefault(stem, []).append((number, path))
        return listed


def _files_below(top: Path) -> Iterator[str]:
    """Paths below ``top``, hidden folders left out."""
    if isinstance(top, RemotePath):
        with contextlib.suppress(RemoteError):  # it may be closed to us
            yield from (child.name for child in files_below(top) if "/." not in f"/{child.name}")
        return
    for place, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(place).relative_to(top)
        for file in sorted(files):
            yield (below / file).as_posix()


def _are_siblings(first: str, second: str) -> bool:
    """'patient1' and 'patient2': names of one kind, and what they hold is not the same picture."""
    return first != second and _ID.sub("#", first) == _ID.sub("#", second)


def _image_folders_beside(root: Path) -> list[Path]:
    """Folders of images beside a folder of tables and called like it: VQA-Med-2020-Test-Images.

    Any other folder beside it may belong to another dataset.
    """
    root = root.resolve()
    own = _words(root.name)
    try:
        # Names first: there may be 100,000 folders beside it, and asking each what it is costs a call.
        called_like_it = [
            root.parent / name for name in _names(root.parent) if _names_images_of(name, own)
        ]
        return sorted(place for place in called_like_it if place != root and place.is_dir())
    except OSError:
        return []


def _names(folder: Path) -> Iterator[str]:
    if isinstance(folder, RemotePath):
        yield from (place.name for place in entries(folder))
        return
    with os.scandir(folder) as inside:
        yield from (entry.name for entry in inside)


def _names_images_of(name: str, own: set[str]) -> bool:
    if not _ABOUT_IMAGES.search(name):
        return False
    words = _words(name)
    rest = words - _IMAGE_WORDS
    return rest != words and bool(rest) and rest <= own


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def _list_once(folder: Path) -> None:
    """Of a folder elsewhere: one listing spares a request for each name that is tried below it."""
    if isinstance(folder, RemotePath):
        folder.list_names()


# On this machine names are tried as text: a Path for each of hundreds takes longer than asking for the file.


def _is_folder(base: Path, name: str) -> bool:
    if not isinstance(base, RemotePath):
        return os.path.isdir(os.path.join(base, name))  # noqa: PTH112, PTH118
    try:
        return (base / name).is_dir()
    except RemoteError:  # an address may be open and its neighbours closed
        return False


def _is_file(base: Path, name: str) -> bool:
    """Not where a name is longer than the file system allows."""
    if not isinstance(base, RemotePath):
        return os.path.isfile(os.path.join(base, name))  # noqa: PTH113, PTH118
    try:
        return (base / name).is_file()
    except OSError:
        return False
