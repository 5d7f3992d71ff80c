"""Find a picture again by the words a table describes its place with.

Tables come from run folders that may come from strangers, so what is found here is a guess: pictures.py
shows it only if its bytes have the digest that the table names.
"""

from __future__ import annotations

import functools
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heldout.image import MAX_BYTES, ArrowCell, FileOnDisk, ImageError, Location, ParquetCell
from heldout.image import TarMember as Member

_PARQUET = re.compile(r"(.+) row group (\d+) row (\d+) column (.+)", re.DOTALL)
_ARROW = re.compile(r"(.+) row (\d+) column (.+)", re.DOTALL)
_LISTED = 12  # pictures of one list cell that are looked at


def locations(described: str) -> Iterator[Location]:
    """Where ``described`` (an ImageRef's ``source``) may lie; nothing where nobody can tell."""
    if not described or "\0" in described:
        return
    try:
        if Path(described).is_file():
            yield FileOnDisk(described)
        yield from _members(described)
        yield from _cells(described)
    except OSError:  # a name too long for the file system is no name of a file
        return


def _members(described: str) -> Iterator[Location]:
    for place in (found.start() for found in re.finditer("!", described)):
        archive, name = described[:place], described[place + 1 :]
        if not Path(archive).is_file():
            continue
        if zipfile.is_zipfile(archive):
            yield ZipMember(archive, name)
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
