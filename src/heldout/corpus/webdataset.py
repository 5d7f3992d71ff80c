"""WebDataset: tars whose members share a key: ``000123.jpg``, ``000123.txt``, ``000123.json``.

A sample is a run of neighbouring members with the same key: the path up to the first dot of the
file name. An item's id is ``<tar>/<key>``; a sample with several images gives several items, each
called ``<tar>/<key>.<rest>`` as its member is. Nothing is ever extracted.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from heldout.corpus._columns import STATUS, Words, decode_words, find_columns, not_downloaded
from heldout.corpus._listing import FileSet, file_key
from heldout.corpus.corpus import CorpusItem, Shard, unique_ids
from heldout.corpus.folder import MAX_TEXT, FolderCorpus, read_metadata
from heldout.corpus.parquet_corpus import FAILURES, open_parquet, rows
from heldout.corpus.streams import FILE, FOLDER, TarCut, TarEntry, open_tar, tar_entries
from heldout.errors import blame_the_machine
from heldout.image import (
    HEAD,
    IMAGE_ENDINGS,
    MAX_BYTES,
    TEXT_ENDINGS,
    ImageRef,
    InlineBytes,
    TarMember,
    ending,
    looks_like_image,
    readable,
    unsafe,
)
from heldout.remote import entries, located, ranges, reason_of
from heldout.store import Dropped

ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
# members of one sample; file names with many dots could otherwise turn a whole tar into one sample
_MAX_MEMBERS = 256


@dataclass(slots=True)
class WebDatasetCorpus:
    """One shard per tar. Images of a plain tar are references into it, small enough to keep."""

    files: FileSet
    name: str
    source: str
    reader: str = "webdataset"

    def shards(self) -> Iterator[Shard]:
        for index, (name, path) in enumerate(self.files.files()):
            yield Shard(index, readable(name), file_key(path, name), str(path))

    def count_shards(self) -> int | None:
        return sum(1 for _ in self.files.files())

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        path = located(shard.payload)
        try:
            file, plain = open_tar(path)
        except OSError as error:
            blame_the_machine(error)
            reason = reason_of(error, "unreadable tar")
            yield Dropped("corpus", shard.id, reason, f"{path}: {error.strerror}", scope="many")
            return
        with file:
            yield from unique_ids(_TarReader(path, shard.id, file, plain).items())


@dataclass(slots=True)
class _Sample:
    key: str
    images: list[tuple[str, ImageRef]] = field(default_factory=list)  # member name, image
    text: bytes | None = None
    metadata: bytes | None = None
    members: list[str] = field(default_factory=list)
    held: int = 0  # bytes in memory


class _TarReader:
    def __init__(self, path: Path, shard: str, file: BinaryIO, plain: bool) -> None:
        self.path, self.shard, self.file, self.plain = path, shard, file, plain
        self.members = self.position = 0
        self.length: int | None = None

    def items(self) -> Iterator[CorpusItem | Dropped]:
        sample: _Sample | None = None
        self.length = self.path.stat().st_size if self.plain else None
        try:
            for entry in tar_entries(self.file, self.length):
                self.members, self.position = self.members + 1, entry.offset
                if entry.kind == FOLDER:
                    continue
                if (reason := _refused(entry)) is not None:
                    yield Dropped("corpus", self._id(entry.name), *reason)
                    continue
                key = sample_key(entry.name)
                full = sample is not None and (
                    len(sample.members) >= _MAX_MEMBERS or sample.held > MAX_BYTES
                )
                if sample is not None and (sample.key != key or full):
                    yield from self._finish(sample)
                    sample = None
                sample = sample or _Sample(key)
                yield from self._add(sample, entry)
        except TarCut as cut:
            if sample is not None:
                yield from self._finish(sample)
            detail = f"{self.path}: {cut.detail}"
            yield Dropped("corpus", self.shard, cut.reason, detail, scope="many")
            return
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            blame_the_machine(error)
            if sample is not None:
                yield from self._finish(sample)
            why = reason_of(error, "tar cut short")
            detail = f"{self.path}: {error}; {self._read_until()}"
            yield Dropped("corpus", self.shard, why, detail, scope="many")
            return
        if sample is not None:
            yield from self._finish(sample)

    def _add(self, sample: _Sample, entry: TarEntry) -> Iterator[Dropped]:
        end = ending(entry.name)
        if end in TEXT_ENDINGS or end == ".json":
            if entry.size > MAX_TEXT:
                detail = f"{entry.size:,} bytes, the limit is {MAX_TEXT:,}"
                yield Dropped(
                    "corpus", self._id(entry.name), "text too long", detail, scope="words"
                )
                return
            data = self._data(entry, entry.size)
            sample.members.append(entry.name)
            if end == ".json":
                sample.metadata = data
            else:
                sample.text = data
            return
        data = b""
        if not self.plain or end not in IMAGE_ENDINGS:
            data = self._data(entry, HEAD if self.plain else entry.size)
        sample.members.append(entry.name)  # only now: a truncated member is not yielded
        if end in IMAGE_ENDINGS or looks_like_image(data[:HEAD]):
            where = f"{self.path}!{entry.name}"
            location = (
                TarMember(str(self.path), entry.name, entry.offset, entry.size)
                if self.plain
                else InlineBytes(data, where)
            )
            sample.held += 0 if self.plain else len(data)
            sample.images.append((entry.name, ImageRef(entry.name, location)))

    def _read_until(self) -> str:
        of = f" of {self.length:,}" if self.length is not None else ""
        return f"read: {self.members:,} members, up to byte {self.position:,}{of}"

    def _data(self, entry: TarEntry, size: int) -> bytes:
        self.file.seek(entry.offset)
        data = self.file.read(min(size, entry.size))
        if len(data) < min(size, entry.size):
            raise TarCut("tar cut short", f"inside {entry.name}")
        return data

    def _finish(self, sample: _Sample) -> Iterator[CorpusItem | Dropped]:
        if not sample.members:
            return
        metadata: dict[str, Any] = {}
        words = Words()
        if sample.metadata is not None:
            metadata, problem = read_metadata(sample.metadata)
            if problem:
                yield Dropped("corpus", self._id(f"{sample.key}.json"), *problem, scope="words")
            elif metadata:
                words = find_columns(tuple(metadata)).words(metadata)
        if sample.text is not None and (text := decode_words(sample.text).strip()):
            words = Words(text, words.question, words.answer, words.also)
        if not sample.images and words.text is None:
            listed = ", ".join(name.rpartition("/")[2] for name in sample.members[:8])
            yield Dropped(
                "corpus", self._id(sample.key), "no image and no text", f"members: {listed}"
            )
            return
        alone = len(sample.images) == 1 and len(sample.members) < _MAX_MEMBERS
        pictures: list[tuple[str, ImageRef | None]] = [*sample.images]
        for name, image in pictures or [(sample.key, None)]:
            yield CorpusItem(
                id=self._id(sample.key if alone or image is None else name),
                image=image,
                text=words.text,
                question=words.question,
                answer=words.answer,
                also=words.also,
                metadata=metadata,
            )

    def _id(self, name: str) -> str:
        return f"{self.shard}/{readable(name)}"


def _refused(entry: TarEntry) -> tuple[str, str] | None:
    if unsafe(entry.name):
        return "member outside the archive", f"a {entry.kind} called {entry.name[:200]!r}"
    if entry.kind != FILE:
        return "not a regular file", f"a {entry.kind}"
    if entry.size > MAX_BYTES:
        return "image file too large", f"{entry.size:,} bytes, the limit is {MAX_BYTES:,}"
    return None


def sample_key(name: str) -> str:
    """The name that the members of one sample share."""
    folder, slash, base = name.rpartition("/")
    dot = base.find(".", 1)
    return folder + slash + (base[:dot] if dot > 0 else base)


# What img2dataset writes: tars, folders or Parquet files, each with a log of every download.
#
# The log (``00000.parquet`` beside ``00000.tar`` or ``00000/``) also lists what was never fetched.
# Those rows are reported, so that a corpus is not silently smaller than the list it was made from.


_LOGGED = (STATUS, "error_message", "url", "key")


@dataclass(slots=True)
class Img2DatasetCorpus:
    """The shards of ``inner``, then one shard per log that yields the rows without an image."""

    inner: WebDatasetCorpus | FolderCorpus
    root: str
    name: str
    source: str
    reader: str = "img2dataset"

    def shards(self) -> Iterator[Shard]:
        index = 0
        for shard in self.inner.shards():
            yield replace(shard, payload=("images", shard.payload))
            index = shard.index + 1
        for path in _logs(located(self.root)):
            yield Shard(index, f"{path.name} (log)", file_key(path), ("log", str(path)))
            index += 1

    def count_shards(self) -> int | None:
        count = self.inner.count_shards()
        return None if count is None else count + sum(1 for _ in _logs(located(self.root)))

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        kind, payload = shard.payload
        if kind == "images":
            yield from self.inner.read(replace(shard, payload=payload))
        else:
            yield from self._failures(located(payload))

    def _failures(self, path: Path) -> Iterator[Dropped]:
        ending = ".tar" if isinstance(self.inner, WebDatasetCorpus) else ""
        number = 0
        try:
            with open_parquet(path) as file:
                columns = [name for name in _LOGGED if name in file.schema_arrow.names]
                groups = list(range(file.metadata.num_row_groups))
                for row in rows(file, groups, columns) if STATUS in columns else ():
                    number += 1
                    item = f"{readable(path.stem)}{ending}/{row.get('key') or number}"
                    if (failed := not_downloaded(row, item)) is not None:
                        yield failed
        except FAILURES as error:
            detail = f"after row {number:,}: {error}; failed downloads are not listed"
            reason = reason_of(error, "unreadable Parquet file")
            yield Dropped("corpus", path.name, reason, detail, scope="words")


def is_img2dataset(folder: Path) -> bool:
    """True if beside a tar or a folder lies a Parquet file of its name with a status column."""
    first = next(_logs(folder), None)
    if first is None:
        return False
    try:
        return STATUS in pq.read_schema(ranges(first)).names
    except FAILURES:
        return False


def _logs(folder: Path) -> Iterator[Path]:
    beside = entries(folder) if folder.is_dir() else iter(())
    for path in sorted(path for path in beside if path.name.endswith(".parquet")):
        if path.with_suffix(".tar").is_file() or path.with_suffix("").is_dir():
            yield path
