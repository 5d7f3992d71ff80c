"""Which pictures of a folder the rows of its tables name: they are read with those rows, and not once more.

What is known of a folder is kept in ``$HELDOUT_CACHE/pictured`` as digests of names, eight bytes each, so that workers
need not read the tables again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import FileRow, ImageFinder, find_reader, head
from heldout.corpus._columns import TableColumns
from heldout.corpus._listing import FILE, LINK, digest, kind_of
from heldout.corpus.parquet_corpus import FAILURES, open_parquet, rows
from heldout.errors import HeldoutError
from heldout.image import IMAGE_ENDINGS, FileOnDisk, ending
from heldout.remote import cache_folder, located
from heldout.store import replacing

if TYPE_CHECKING:
    from heldout.corpus.files import FilesCorpus

TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".parquet", ".pq", ".txt")
_LOOK = 200  # rows that tell what the columns mean


class Pictured:
    """The names, as a set."""

    def __init__(self, digests: NDArray[np.uint64], archived: bool) -> None:
        self.digests = digests
        self.archived = archived  # archives lie in the folder, and may hold what rows name

    def __contains__(self, name: str) -> bool:
        own = _digest(name)
        place = int(np.searchsorted(self.digests, own))
        return place < len(self.digests) and bool(self.digests[place] == own)

    @property
    def key(self) -> str:
        """Changes with the names; empty where there are none."""
        return hashlib.sha256(self.digests.tobytes()).hexdigest() if len(self.digests) else ""


def pictured(corpus: FilesCorpus) -> Pictured:
    """The pictures that the tables of the corpus name."""
    tables, keys, archived = _tables(corpus)
    if not tables:
        return Pictured(np.empty(0, np.uint64), archived)
    facts = digest(corpus.root, corpus.mapping, corpus.images, *keys)
    place = cache_folder() / "pictured" / f"{facts[:32]}.npy"
    if not place.exists():
        names = {_digest(name) for table in tables for name in _named(corpus, table)}
        found = np.array(sorted(names), np.uint64)
        with replacing(place) as temporary, temporary.open("wb") as file:
            np.save(file, found)
    return Pictured(np.load(place, mmap_mode="r"), archived)


def _tables(corpus: FilesCorpus) -> tuple[list[str], list[str], bool]:
    """Files that may be tables, in a folder that also holds pictures, and what identifies them; are there archives?"""
    archived = False
    tables: list[str] = []
    keys: list[str] = []
    endings: set[str] = set()
    for entry in corpus.files():
        if entry.kind not in (FILE, LINK):
            continue
        end = ending(entry.name)
        archived = archived or kind_of(entry.name) in ("tar", "zip")
        if end in IMAGE_ENDINGS:
            endings.add(entry.name[-len(end) :])
        elif end in TABLES:
            tables.append(entry.name)
            keys.append(digest(entry.name, entry.size, entry.modified))
    if not endings:
        return [], [], archived
    own = [
        (name, key)
        for name, key in zip(tables, keys, strict=True)
        if not _is_beside(corpus, name, endings)
    ]
    return [name for name, _ in own], [key for _, key in own], archived


def _is_beside(corpus: FilesCorpus, name: str, endings: Iterable[str]) -> bool:
    """Does a picture of the same name lie beside the file, which then tells of it?"""
    stem = name[: -len(ending(name))]
    if ending(name) == ".json" and head(corpus.path(name), 64).lstrip().startswith(b"["):
        return False  # a list is a table
    return any(corpus.path(f"{stem}{end}").is_file() for end in endings)


def _named(corpus: FilesCorpus, table: str) -> Iterator[str]:
    """Names below the corpus' root of the pictures that a table's rows name."""
    path = corpus.path(table)
    images = located(corpus.images) if corpus.images else None
    finder = ImageFinder(path.parent, images, folder=corpus.root)
    columns: TableColumns | None = None
    root = str(corpus.root)
    held: list[dict[str, object]] = []
    try:
        for values in _rows(path):
            held.append(values)
            if columns is None and len(held) < _LOOK:
                continue
            columns = columns or TableColumns.of(held, corpus.mapping)
            yield from _names(held, columns, finder, root)
            held.clear()
    except (HeldoutError, *FAILURES):
        pass  # reading the table says what is wrong with it
    if held:
        yield from _names(held, columns or TableColumns.of(held, corpus.mapping), finder, root)


def _rows(path: Path) -> Iterator[dict[str, object]]:
    if path.suffix.lower() in (".parquet", ".pq"):
        with open_parquet(path) as file:
            schema = file.schema_arrow
            names = [
                column.name for column in schema if str(column.type) in ("string", "large_string")
            ]
            yield from rows(file, list(range(file.metadata.num_row_groups)), names)
        return
    reader = find_reader(path)
    for row in reader.rows(path) if reader is not None else ():
        if isinstance(row, FileRow):
            yield row.values


def _names(
    held: Iterable[dict[str, object]], columns: TableColumns, finder: ImageFinder, root: str
) -> Iterator[str]:
    for values in held:
        for column in columns.named(values).image:
            for ref in finder.find(values.get(column), ""):
                if isinstance(ref.location, FileOnDisk) and ref.location.path.startswith(
                    f"{root}/"
                ):
                    yield ref.location.path.removeprefix(f"{root}/")


def _digest(name: str) -> int:
    raw = name.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")
