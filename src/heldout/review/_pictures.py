"""Pictures of the page: the full one from where it lies if it is still the same, else what the run kept.

Nothing is served by a name the browser gives: a card's side leads to a place that the tables name, and
its bytes must have the digest they name. What is sent is decoded and encoded anew, so that no untrusted file
reaches the browser unchanged.
"""

from __future__ import annotations

import functools
import io
import lzma
import re
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import TarCut, open_tar, tar_entries
from heldout.errors import HeldoutError, InputError
from heldout.image import (
    MAX_BYTES,
    ArrowCell,
    FileOnDisk,
    ImageError,
    ImageRef,
    Location,
    ParquetCell,
    byte_digest,
    decode,
    pixel_digest,
    to_rgb,
)
from heldout.image import TarMember as Member
from heldout.store import Run

LARGEST = 4096  # pixels of the longer side that are sent
FULL, THUMBNAIL, MISSING = "full", "thumbnail", "missing"


@dataclass(frozen=True)
class ServedPicture:
    """What the browser gets, and how big the picture really is."""

    data: bytes
    media: str
    width: int
    height: int
    origin: str  # full, thumbnail or missing
    why: str = ""  # why it is not the full picture


@dataclass(frozen=True)
class CardPicture:
    """One side of a card: places to look at, the proof of being the right one, and the small one."""

    name: str
    places: Callable[[], Iterable[Location | ImageRef]]
    proof: Callable[[bytes, Image.Image], bool]
    small: Callable[[], ServedPicture | None] = lambda: None

    def show(self) -> ServedPicture:
        why = "the original is not where it was"
        try:
            for place in self.places():
                try:
                    data = place.read()
                    image = decode(data)
                except ImageError as error:
                    why = f"{error.reason}: {error.detail}"
                    continue
                if self.proof(data, image):
                    return encode(image)
                why = "the file there is another one now"
        except HeldoutError as error:
            why = str(error)
        small = self.small()
        if small is not None:
            return ServedPicture(small.data, small.media, small.width, small.height, THUMBNAIL, why)
        return ServedPicture(b"", "image/png", 0, 0, MISSING, why)


def encode(image: Image.Image) -> ServedPicture:
    """A decoded picture as a PNG made here; huge ones smaller."""
    width, height = image.size
    rgb = to_rgb(image)
    if max(rgb.size) > LARGEST:
        rgb = rgb.copy()
        rgb.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    rgb.save(buffer, "PNG", compress_level=1)
    return ServedPicture(buffer.getvalue(), "image/png", width, height, FULL)


def same_bytes(digest: str) -> Callable[[bytes, Image.Image], bool]:
    return lambda data, image: byte_digest(data) == digest


def same_pixels(digest: str) -> Callable[[bytes, Image.Image], bool]:
    return lambda data, image: pixel_digest(image) == digest


_THUMBNAILS = 1 << 12  # read at a time


class Album:
    """The pictures of one run: its thumbnails, and its benchmark read again when first looked at."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.wanted: set[str] | None = None  # digests whose thumbnails are asked for; None: any
        self._lock = threading.Lock()  # requests come in threads, and a benchmark is read once

    @functools.cached_property
    def directories(self) -> list[str]:
        """From where the run was made: relative names in its tables start there."""
        return [str(directory) for directory in self.run.manifest().get("directories", [])]

    def of_benchmark(self, identifier: str, index: int) -> list[ImageRef]:
        with self._lock:
            images, why = self._benchmark
        if why:
            raise InputError(why)
        refs = images.get(identifier, ())
        return list(refs[index : index + 1])

    def thumbnail(self, digest: str) -> ServedPicture | None:
        with self._lock:
            row = self._thumbnails.get(digest)
        if row is None:
            return None
        return ServedPicture(row["webp"], "image/webp", row["width"], row["height"], THUMBNAIL)

    @functools.cached_property
    def _thumbnails(self) -> dict[str, dict[str, Any]]:
        if not self.run.table_path("thumbnails").exists():
            return {}
        wanted = None if self.wanted is None else pa.array(sorted(self.wanted), pa.string())
        return {
            row["digest"]: row
            for table in self.run.batches("thumbnails", rows=_THUMBNAILS)
            for row in (
                table if wanted is None else table.filter(pc.is_in(table["digest"], wanted))
            ).to_pylist()
        }

    @functools.cached_property
    def _benchmark(self) -> tuple[dict[str, tuple[ImageRef, ...]], str]:
        """The benchmark's references by item, or why there are none."""
        known = self.run.manifest()["inputs"].get("benchmark", {})
        source, settings = str(known.get("source", "")), dict(known.get("settings", {}))
        if not source:
            return {}, "the run does not say where its benchmark lies"
        why = f"the benchmark is not at {source}"
        # The source as it was typed, relative to here or to where it was typed.
        for directory in ("", *self.directories):
            place = str(Path(directory) / source)
            # Only what lies on this disk: a name of the hub would be downloaded.
            if not Path(place.partition("#")[0]).exists():
                continue
            record = dict(settings)
            try:
                if "images" in record:
                    record["images"] = str(Path(directory) / record["images"])
                return images_of(read_benchmark(place, **record)), ""
            except (HeldoutError, TypeError) as error:  # an untrusted manifest may say anything
                why = str(error)
        return {}, why


def images_of(benchmark: Benchmark) -> dict[str, tuple[ImageRef, ...]]:
    return {example.id: example.images for example in benchmark}


# Find a picture again from the description of its place in a table.
#
# Run folders may come from elsewhere, so a place found here is a guess: the picture is shown only if its bytes
# have the digest that the table names.


_PARQUET = re.compile(r"(.+) row group (\d+) row (\d+) column (.+)", re.DOTALL)
_ARROW = re.compile(r"(.+) row (\d+) column (.+)", re.DOTALL)
UNPACKED = 4 << 30  # bytes of a compressed tar that are unpacked for one picture
_LISTED = 12  # pictures of one list cell that are looked at


def locations(described: str, directories: Sequence[str] = ()) -> Iterator[Location]:
    """Places where ``described`` (an ImageRef's ``source``) may be; none if that is not known.

    A relative name is also looked for in ``directories``: the ones from which the run was made.
    """
    if not described or "\0" in described:
        return
    yield from _locations(described)
    if not Path(described).is_absolute():
        for directory in directories:
            yield from _locations(str(Path(directory) / described))


def _locations(described: str) -> Iterator[Location]:
    try:
        if Path(described).is_file():
            yield FileOnDisk(described)
        yield from _members(described)
        yield from _cells(described)
    except OSError:  # a name too long for the file system is no name of a file
        return


def _members(described: str) -> Iterator[Location]:
    for place in (match.start() for match in re.finditer("!", described)):
        archive, name = described[:place], described[place + 1 :]
        if not Path(archive).is_file():
            continue
        if zipfile.is_zipfile(archive):
            yield ZipMember(archive, name)
            continue
        if is_packed(archive):
            yield PackedMember(archive, name)
            continue
        for offset, size in _tar_listing(archive, Path(archive).stat().st_mtime_ns).get(name, []):
            yield Member(archive, name, offset, size)


def _cells(described: str) -> Iterator[Location]:
    if cell := _PARQUET.fullmatch(described):
        path, group, row, column = cell.groups()
        if Path(path).is_file():
            for index in range(-1, _LISTED):
                yield ParquetCell(path, int(group), int(row), column, index)
    elif cell := _ARROW.fullmatch(described):
        path, row, column = cell.groups()
        if Path(path).is_file():
            for index in range(-1, _LISTED):
                yield ArrowCell(path, int(row), column, index)


@dataclass(frozen=True, slots=True)
class ZipMember:
    path: str
    name: str

    def read(self) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as archive:
                if archive.getinfo(self.name).file_size > MAX_BYTES:
                    raise ImageError("image file too large", self.describe())
                return archive.read(self.name)
        except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
            raise ImageError("missing image", f"{self.describe()}: {error}") from error

    def describe(self) -> str:
        return f"{self.path}!{self.name}"


@dataclass(frozen=True, slots=True)
class PackedMember:
    """A member of a compressed tar: unpacked from the start up to it, every time, within a limit."""

    path: str
    name: str

    def read(self) -> bytes:
        try:
            file, _ = open_tar(Path(self.path))
            with file:
                for entry in tar_entries(file, None):
                    if entry.offset > UNPACKED:
                        detail = f"{self.describe()}: not within the first {UNPACKED:,} bytes"
                        raise ImageError("too far inside a compressed tar", detail)
                    if entry.name == self.name:
                        if entry.size > MAX_BYTES:
                            raise ImageError("image file too large", self.describe())
                        file.seek(entry.offset)
                        return file.read(entry.size)
        except (OSError, EOFError, TarCut, zlib.error, lzma.LZMAError) as error:
            raise ImageError("missing image", f"{self.describe()}: {error}") from error
        raise ImageError("missing image", f"{self.describe()}: the tar has no such member")

    def describe(self) -> str:
        return f"{self.path}!{self.name}"


def is_packed(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(6).startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"))


@functools.lru_cache(maxsize=64)
def _tar_listing(path: str, changed: int) -> dict[str, list[tuple[int, int]]]:
    """Members of an uncompressed tar by name. A shard is listed once, not once per picture."""
    members: dict[str, list[tuple[int, int]]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.isfile():
                    members.setdefault(member.name, []).append((member.offset_data, member.size))
    except (tarfile.TarError, OSError, ValueError):
        return members  # a truncated tar lists what it still holds
    return members
