"""Find a picture again by the words a table describes its place with.

Tables come from run folders that may come from strangers, so what is found here is a guess: pictures.py
shows it only if its bytes have the digest that the table names.
"""

from __future__ import annotations

import functools
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.corpus import TarCut, open_tar, tar_entries
from heldout.image import MAX_BYTES, ArrowCell, FileOnDisk, ImageError, Location, ParquetCell
from heldout.image import TarMember as Member

_PARQUET = re.compile(r"(.+) row group (\d+) row (\d+) column (.+)", re.DOTALL)
_ARROW = re.compile(r"(.+) row (\d+) column (.+)", re.DOTALL)
UNPACKED = 4 << 30  # bytes of a compressed tar that are unpacked for one picture
_LISTED = 12  # pictures of one list cell that are looked at


def locations(described: str, directories: Sequence[str] = ()) -> Iterator[Location]:
    """Where ``described`` (an ImageRef's ``source``) may lie; nothing where nobody can tell.

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
    found: dict[str, list[tuple[int, int]]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.isfile():
                    found.setdefault(member.name, []).append((member.offset_data, member.size))
    except (tarfile.TarError, OSError, ValueError):
        return found  # a cut tar lists what it still holds
    return found
