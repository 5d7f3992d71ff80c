"""A corpus of files written again without some of its items: what stays is copied as it is.

An item goes with its place: a row of a table, a picture with the words beside it, a page, a sample of a tar. Rows of
one conversation go together, and so does a picture that only such rows name.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import itertools
import lzma
import shutil
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

from heldout.benchmark import (
    DelimitedTable,
    FilePart,
    FileRow,
    entries_without,
    find_reader,
    find_writer,
)
from heldout.corpus._listing import FILE, LINES, LINK, PARQUET, TAR, ZIP, kind_of
from heldout.corpus.archives import sample_key
from heldout.corpus.corpus import CorpusItem
from heldout.corpus.files import FilesCorpus
from heldout.corpus.parts import content_kind, read_metadata
from heldout.corpus.streams import FAILURES, Span, is_compressed, lines, open_text
from heldout.errors import InputError
from heldout.image import IMAGE_ENDINGS, TEXT_ENDINGS, FileOnDisk, ending

_TAR_MODES = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}
Rows = set[int | str]


class Written(NamedTuple):
    kept: int  # items that are left, as they stand in their files
    removed: int
    missing: tuple[str, ...]  # ids that no item has


def files_without(corpus: FilesCorpus, ids: Collection[str], folder: Path) -> Written:
    """Write every file of ``corpus`` below ``folder``, without the items called ``ids``.

    Nothing is written where an id is unknown, or where nothing would be left.
    """
    wanted = _Wanted.of(corpus, set(ids))
    if wanted.missing or not wanted.kept:
        return Written(wanted.kept, wanted.removed, wanted.missing)
    try:
        for entry in corpus.files():
            path = corpus.path(entry.name)
            if (
                entry.kind in (FILE, LINK)
                and path.is_file()
                and not wanted.leaves_out(path, entry.name)
            ):
                target = folder / entry.name
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(path, wanted.gone.get(entry.name, set()), target)
        for name in sorted(wanted.shown) if corpus.is_one_file else ():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(corpus.path(name), target)
    except (tarfile.TarError, zipfile.BadZipFile, *FAILURES) as error:
        raise InputError(f"{path} cannot be read as a whole: {error}") from error
    return Written(wanted.kept, wanted.removed, ())


class _Wanted:
    """Which places go, found by reading the corpus once more as the search read it."""

    def __init__(self) -> None:
        self.gone: defaultdict[str, Rows] = defaultdict(set)
        self.kept = self.removed = 0
        self.missing: tuple[str, ...] = ()
        self.pictures: set[str] = set()  # that only rows which go name
        self.shown: set[str] = set()  # that rows name which stay

    @classmethod
    def of(cls, corpus: FilesCorpus, ids: set[str]) -> _Wanted:
        self = cls()
        known: set[str] = set()
        last: tuple[str, int | str] | None = None
        for item in _items(corpus):
            goes = item.id in ids
            if goes:
                known.add(item.id)
                self.gone[item.place[0]].add(item.place[1])
            if item.place != last:  # the further pictures of one row stand beside it
                self.kept += not goes
                self.removed += goes
            last = item.place
            if item.place[1] != 0 and isinstance(getattr(item.image, "location", None), FileOnDisk):
                assert item.image is not None
                (self.pictures if goes else self.shown).add(item.image.source)
        self.missing = tuple(sorted(ids - known))
        root = f"{corpus.root}/"
        inside = (path for path in self.shown if path.startswith(root))
        self.pictures = {path.removeprefix(root) for path in self.pictures - self.shown}
        self.shown = {path.removeprefix(root) for path in inside}
        return self

    def leaves_out(self, path: Path, name: str) -> bool:
        """Does the whole file go: a page, a picture, or what tells of such a picture?"""
        if 0 in self.gone.get(name, ()) or name in self.pictures:
            return True
        end = ending(name)
        if end not in (*TEXT_ENDINGS, ".json") or name[: -len(end)] not in self._stems:
            return False
        return end != ".json" or read_metadata(path.read_bytes()) is not None  # else a table

    @functools.cached_property
    def _stems(self) -> set[str]:
        """Names of the pictures that go, without their endings."""
        whole = (name for name, rows in self.gone.items() if 0 in rows)
        gone = (*self.pictures, *(name for name in whole if ending(name) in IMAGE_ENDINGS))
        return {name[: -len(ending(name))] for name in gone}


def _items(corpus: FilesCorpus) -> Iterator[CorpusItem]:
    for shard in corpus.shards():
        for item in corpus.read(shard):
            if isinstance(item, CorpusItem):
                yield item


def _write(path: Path, rows: Rows, target: Path) -> None:
    """One file without some of its rows or members."""
    with path.open("rb") as file:
        kind = content_kind(file.read(1 << 16)) or kind_of(path.name)
    if not rows:
        shutil.copyfile(path, target)
    elif kind == TAR:
        _write_tar(path, rows, target)
    elif kind == ZIP:
        _write_zip(path, rows, target)
    elif kind == LINES:
        with _packing(path, target) as out:
            for number, line in lines(path, Span()):
                if line is None:
                    raise InputError(f"{path} line {number} is too long to be written again")
                if number not in rows:
                    out.write(line)
    elif kind != PARQUET and is_compressed(path):
        with tempfile.TemporaryDirectory(prefix="heldout-") as made:
            name = path.name[: -len(ending(path.name))]
            plain, short = Path(made) / name, Path(made) / f"short-{name}"
            with open_text(path) as source, plain.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            _write(plain, rows, short)
            with _packing(path, target) as out, short.open("rb") as source:
                shutil.copyfileobj(source, out)
    else:
        _write_table(path, rows, target)


def _write_table(path: Path, rows: Rows, target: Path) -> None:
    """Rows that nobody can read stay where they are."""
    reader = find_reader(path)
    if reader is None:
        raise InputError(f"{path}: no reader recognises it any more; was it changed since?")
    writer = find_writer(reader.name)
    if reader.name in ("json", "llava", "pathvqa"):
        units = writer.units(path)
        entries_without(path, {units.get(row, row) for row in rows if isinstance(row, int)}, target)
        return
    if reader.name == "delimited":
        table = DelimitedTable.open(path)
        if not {"image", "index"} <= {column.lower() for column in table.columns}:
            records = table.data()
            first = next(records, None)
            with path.open("rb") as source, target.open("wb") as out:
                out.write(source.read(first.offset if first is not None else -1))
                for number, record in enumerate(itertools.chain([first], records), 1):
                    if number not in rows and record is not None:
                        source.seek(record.offset)
                        out.write(source.read(record.length))
            return
    kept = (row.number for row in reader.rows(path) if isinstance(row, FileRow))
    writer.write([FilePart(path, frozenset(n for n in kept if n not in rows))], target)


def _packing(path: Path, target: Path) -> Any:
    """A file to write to, compressed as ``path`` is."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(filename="", mode="wb", fileobj=target.open("wb"), mtime=0)
    if magic.startswith(b"BZh"):
        return bz2.open(target, "wb")
    if magic.startswith(b"\xfd7zXZ\0"):
        return lzma.open(target, "wb")
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return pa.CompressedOutputStream(pa.OSFile(str(target), "wb"), "zstd")
    return cast(BinaryIO, target.open("wb"))


def _parted(members: Rows) -> tuple[set[str], dict[str, Rows]]:
    """Members that go as a whole, and those of which some rows go."""
    whole: set[str] = set()
    partly: defaultdict[str, Rows] = defaultdict(set)
    for member in members:
        name, _, row = str(member).partition("\n")
        if row:
            partly[name].add(int(row))
        else:
            whole.add(name)
    return whole, partly


@contextlib.contextmanager
def _shortened(name: str, data: Any, rows: Rows) -> Iterator[Path]:
    """A member without some of its rows, as a file."""
    with tempfile.TemporaryDirectory(prefix="heldout-") as made:
        plain = Path(made) / (name.rpartition("/")[2] or "member")
        short = plain.with_name(f"short-{plain.name}")
        with plain.open("wb") as out:
            shutil.copyfileobj(data, out)
        _write(plain, rows, short)
        yield short


def _write_tar(path: Path, members: Rows, target: Path) -> None:
    """A sample goes as a whole: picture, caption and metadata. An archive of which nothing is left is left out."""
    whole, partly = _parted(members)
    mode: Any = _TAR_MODES.get(path.suffix, "w")
    left = 0
    with (
        tarfile.open(path) as source,
        tarfile.open(target, mode, format=source.format) as copy,
    ):
        for member in source:
            if whole & {sample_key(member.name), member.name}:
                continue
            data = source.extractfile(member) if member.isreg() else None
            left += not member.isdir()
            if member.name in partly:
                with _shortened(member.name, data, partly[member.name]) as short:
                    member.size = short.stat().st_size
                    with short.open("rb") as rest:
                        copy.addfile(member, rest)
            else:
                copy.addfile(member, data)
    if not left:
        target.unlink()


def _write_zip(path: Path, members: Rows, target: Path) -> None:
    whole, partly = _parted(members)
    left = 0
    with (
        zipfile.ZipFile(path) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy,
    ):
        for member in source.infolist():
            if member.filename in whole:
                continue
            left += not member.is_dir()
            with source.open(member) as data:
                if member.filename in partly:
                    with _shortened(member.filename, data, partly[member.filename]) as short:
                        copy.write(short, member.filename)
                else:
                    with copy.open(member, "w") as out:
                        shutil.copyfileobj(data, out)
    if not left:
        target.unlink()
