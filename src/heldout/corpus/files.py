"""A corpus of files: one file, a folder, or a pattern of files.

All of its files are read, each by the reader that recognises it, whatever lies beside it. What no reader takes is
dropped with its kind (``.pdf``, ``hidden folder``), so that claims and gates know what was not read.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from heldout.benchmark import split_of
from heldout.corpus._listing import (
    FILE,
    LINES,
    LINK,
    PARQUET,
    PICTURE,
    RUN_FOLDER,
    SPECIAL,
    TAR,
    ZIP,
    FileSet,
    FolderEntry,
    digest,
    file_key,
    is_pattern,
    kind_of,
    walk,
)
from heldout.corpus.captions import caption_file
from heldout.corpus.corpus import FILE_WORK, CorpusItem, Shard, shard_work, unique_ids
from heldout.corpus.parquet_corpus import row_group_spans
from heldout.corpus.parts import CorpusPart, CorpusReading, read_part
from heldout.corpus.pictured import Pictured, pictured
from heldout.corpus.streams import Span, is_compressed, spans
from heldout.corpus.zips import ZipError, zip_spans
from heldout.errors import blame_the_machine
from heldout.image import ending, readable
from heldout.remote import located
from heldout.store import Dropped

LINE_BYTES, ROW_BYTES = 16 << 20, 64 << 20  # of one shard, about a minute of searching on one core
FILES_PER_SHARD = 4096
_APART = (PARQUET, TAR, ZIP)  # shards of their own


@dataclass(slots=True)
class FilesCorpus:
    """Ids are ``<file>`` of a picture or a page, ``<file>/<id or number>`` of a row, ``<archive>/<member>``.

    The name of a table is left out where the corpus is this one table. ``filters``: values of columns by which rows
    are chosen; ``split``: only files whose path names it.
    """

    location: str
    name: str
    source: str
    mapping: tuple[tuple[str, str], ...] = ()
    images: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    split: str | None = None
    line_bytes: int = LINE_BYTES
    row_bytes: int = ROW_BYTES
    files_per_shard: int = FILES_PER_SHARD
    reader: str = "files"
    _pictured: Pictured | None = field(default=None, repr=False, compare=False)

    def shards(self) -> Iterator[Shard]:
        self._pictured = pictured(self)
        held: list[CorpusPart] = []
        keys: list[str] = []
        work = index = 0
        before = last = ""
        for part, key, size in self._parts():
            apart, stem = part.kind in _APART, _stem(part.name)
            full = len(held) >= self.files_per_shard or work + size > shard_work(index)
            # A sidecar belongs to the shard of its picture, which has its name.
            if keys and (apart or (full and (stem != before or part.name == last))):
                yield self._shard(index, held, keys)
                index, held, keys, work = index + 1, [], [], 0
            held.append(part)
            keys += [key] if key else []
            work, before, last = work + size, stem, part.name
            if apart:
                yield self._shard(index, held, keys)
                index, held, keys, work = index + 1, [], [], 0
        if keys:
            yield self._shard(index, held, keys)

    def _shard(self, index: int, held: Sequence[CorpusPart], keys: Sequence[str]) -> Shard:
        first = held[0]
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        known = (
            self._pictured.key if self._pictured and any(p.kind == PICTURE for p in held) else ""
        )
        key = digest(*keys, known) if known else digest(*keys)
        return Shard(index, f"{readable(first.name)}{first.label}{more}", key, tuple(held))

    def count_shards(self) -> int | None:
        return None  # counting would list every file

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        return unique_ids(self._items(shard.payload))

    def _items(self, held: Sequence[CorpusPart]) -> Iterator[CorpusItem | Dropped]:
        pictures = frozenset(_stem(part.name) for part in held if part.kind == PICTURE)
        names = frozenset(part.name for part in held)
        reading = replace(self.reading(), beside=names, pictures=pictures)
        for part in held:
            yield from read_part(reading, part)

    def reading(self) -> CorpusReading:
        """How its files are read."""
        known = self._pictured if self._pictured is not None else pictured(self)
        return CorpusReading(
            self.root,
            self.mapping,
            self.images,
            self.filters,
            alone=self.is_one_file,
            archived=known.archived,
            is_pictured=known.__contains__,
        )

    def files(self) -> Iterator[FolderEntry]:
        """Every file, and what is no file, in one order; names are relative to ``root``."""
        path = located(self.location)
        if self.is_one_file or is_pattern(self.location):
            yield from (_entry(name, file) for name, file in FileSet(self.location, ()).files())
            return
        for entry in walk(path):
            if self.split is None or self.split in map(
                split_of, Path(entry.name).with_suffix("").parts
            ):
                yield entry

    @property
    def root(self) -> Path:
        """The folder that names are relative to, and below which images are looked for."""
        return FileSet(self.location, ()).root()

    @property
    def is_one_file(self) -> bool:
        return not is_pattern(self.location) and not located(self.location).is_dir()

    def path(self, name: str) -> Path:
        return located(f"{self.root}/{name}")

    def _parts(self) -> Iterator[tuple[CorpusPart, str, int]]:
        """What a shard reads of a file, its key, and the work in it, about bytes. A run folder has no key: one that
        was started since changes no shard."""
        for entry in self.files():
            if entry.kind == RUN_FOLDER:
                yield CorpusPart(entry.name, RUN_FOLDER), "", 0
                continue
            key = digest(entry.name, entry.kind, entry.size, entry.modified)
            kind = kind_of(entry.name) if entry.kind in (FILE, LINK) else entry.kind
            if kind in (LINES, PARQUET, ZIP):
                yield from self._cut(entry, kind, key)
            else:
                yield CorpusPart(entry.name, kind), key, FILE_WORK + entry.size

    def _cut(
        self, entry: FolderEntry, kind: str, key: str
    ) -> Iterator[tuple[CorpusPart, str, int]]:
        """A large file in pieces that several workers read; one that cannot be cut, whole: reading it says why."""
        path, name = self.path(entry.name), entry.name
        count = 0
        try:
            for span, own, work, label in getattr(self, f"_{kind}")(path, entry, key):
                count += 1
                yield CorpusPart(name, kind, span, label), own, work
        except (ZipError, OSError) as error:
            blame_the_machine(error)
        if not count:
            yield CorpusPart(name, kind), key, FILE_WORK + entry.size

    def _lines(
        self, path: Path, entry: FolderEntry, key: str
    ) -> Iterator[tuple[Span, str, int, str]]:
        for span in spans(path, self.line_bytes) if not is_compressed(path) else ():
            # Of a file that grew at its end, only the last span is another one.
            own = digest(entry.name, span.start, span.before, span.digest) if span.digest else key
            label = f" from line {span.before + 1}" if span.start else ""
            yield span, own, (entry.size if span.end is None else span.end) - span.start, label

    def _parquet(
        self, path: Path, entry: FolderEntry, key: str
    ) -> Iterator[tuple[object, str, int, str]]:
        for groups, first in row_group_spans(path, self.row_bytes):
            if groups:
                label = f" row groups {groups[0]}-{groups[-1]}"
                yield (groups, first), digest(key, groups), self.row_bytes, label

    def _zip(
        self, path: Path, entry: FolderEntry, key: str
    ) -> Iterator[tuple[object, str, int, str]]:
        captions = caption_file(str(path.parent))
        described = file_key(captions) if captions is not None else ""
        for number, span in enumerate(zip_spans(path, self.files_per_shard)):
            # The directory holds every name, size and checksum, so it identifies the content.
            own = digest(entry.name, span.digest, span.shift, described)
            yield span, own, ROW_BYTES, f" part {number}"


def _entry(name: str, path: Path) -> FolderEntry:
    """A file of a pattern or a file alone; one that is not there is read all the same, to be reported."""
    try:
        facts = path.stat()
    except OSError:
        return FolderEntry(name, FILE, 0, 0)
    kind = FILE if stat.S_ISREG(facts.st_mode) else SPECIAL
    return FolderEntry(name, kind, facts.st_size, facts.st_mtime_ns)


def _stem(name: str) -> str:
    end = ending(name)
    return name[: -len(end)] if end else name
