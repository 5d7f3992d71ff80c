"""Captions that lie in one large file beside an archive, joined by name in constant memory.

The file becomes an SQLite table once per machine, under ``$HELDOUT_CACHE`` (else ``$XDG_CACHE_HOME/heldout``, else
``~/.cache/heldout``) in ``captions/``, called after the file's path, size and modification time. It may be deleted at
any time; the next run builds it again.
"""

from __future__ import annotations

import functools
import itertools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

from heldout.benchmark import FieldMap, FileRow, find_reader
from heldout.corpus._columns import Words, find_columns
from heldout.corpus._listing import digest, file_key
from heldout.corpus.parquet_corpus import FAILURES, open_parquet, read_columns, rows
from heldout.errors import HeldoutError, InputError
from heldout.remote import cache_folder, entries, located, ranges
from heldout.store import Dropped, exclusive, replacing

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


_LOOK = 50  # rows of a file that are looked at


@functools.lru_cache(maxsize=64)
def caption_file(folder: str) -> Path | None:
    """The first file beside an archive whose rows name images."""
    named = (path for path in entries(located(folder)) if path.suffix.lower() in ENDINGS)
    return next((path for path in sorted(named) if path.is_file() and _names_images(path)), None)


def _names_images(path: Path) -> bool:
    if path.suffix.lower() == ".parquet":
        try:
            return bool(find_columns(tuple(pq.read_schema(ranges(path)).names)).image)
        except FAILURES:
            return False
    try:
        reader = find_reader(path)
        found = itertools.islice(reader.rows(path), _LOOK) if reader is not None else ()
        first = [row.values for row in found if isinstance(row, FileRow)]
        columns = FieldMap.infer(first).columns["image"] if first else ()
        return any(row.get(column) for row in first for column in columns)
    except (HeldoutError, OSError, ValueError):
        return False


class Captions:
    """Words and metadata by image name, from the first file that names images."""

    @classmethod
    def beside(cls, archive: Path, mapping: tuple[tuple[str, str], ...]) -> Self | None:
        """Those of an archive; None where no file lies beside it whose rows name images."""
        path = caption_file(str(archive.parent))
        return cls(path, mapping) if path is not None else None

    def __init__(self, path: Path, mapping: tuple[tuple[str, str], ...] = ()) -> None:
        table = _table(path, mapping)
        self._connection = sqlite3.connect(f"{table.as_uri()}?mode=ro&immutable=1", uri=True)

    def find(self, *names: str) -> tuple[Words, dict[str, Any]]:
        """The caption of the first of ``names`` that has one."""
        for name in names:
            query = "SELECT text, asked, metadata FROM captions WHERE name = ?"
            row = self._connection.execute(query, (name,)).fetchone()
            if row is not None:
                pairs = [(q, a) for q, a in map(json.loads, (row[1] or "").splitlines())]
                question, answer = pairs[0] if pairs else (None, None)
                words = Words(row[0], question, answer, tuple(pairs[1:]))
                return words, json.loads(row[2])
        return Words(), {}

    def dropped(self) -> Iterator[Dropped]:
        """Rows of the caption file that could not be read."""
        rows = self._connection.execute("SELECT id, reason, detail FROM dropped")
        for identifier, reason, detail in rows:
            yield Dropped("corpus", identifier, reason, detail, scope="words")

    def close(self) -> None:
        self._connection.close()


def _table(path: Path, mapping: tuple[tuple[str, str], ...]) -> Path:
    folder = cache_folder() / "captions"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{digest(path.resolve(), file_key(path), mapping)[:32]}.sqlite"
    if not target.exists():
        with exclusive(folder / f".{target.stem}.lock"):
            if not target.exists():  # another worker may have built it while we waited
                with replacing(target) as temporary:
                    _build(path, mapping, temporary)
    return target.resolve()


def _build(path: Path, mapping: tuple[tuple[str, str], ...], target: Path) -> None:
    connection = sqlite3.connect(target)
    try:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
            "CREATE TABLE captions (name TEXT PRIMARY KEY, text, asked, metadata)"
            " WITHOUT ROWID; CREATE TABLE dropped (id, reason, detail);"
        )
        with connection:
            for row in _rows(path):
                if isinstance(row, Dropped):
                    fields = (row.id, row.reason, row.detail)
                    connection.execute("INSERT INTO dropped VALUES (?, ?, ?)", fields)
                    continue
                columns = find_columns(tuple(row), mapping, path.name)
                name = row.get(columns.image[0]) if columns.image else None
                if not isinstance(name, str):
                    continue  # not about an image of the archive
                words = columns.words(row)
                used = {*columns.image, *columns.text, *columns.talk}
                rest = {key: value for key, value in row.items() if key not in used}
                connection.execute(
                    # Several rows about one image: their texts are joined, and so are the
                    # questions asked of it, one [question, answer] per line.
                    "INSERT INTO captions VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
                    " text = coalesce(text || char(10), '') || coalesce(excluded.text, ''),"
                    " asked = coalesce(asked || char(10), '') || coalesce(excluded.asked, '')",
                    (name, words.text, _asked(words), json.dumps(rest, default=str)),
                )
    finally:
        connection.close()


def _asked(words: Words) -> str | None:
    pairs = [(words.question, words.answer), *words.also]
    lines = [json.dumps(pair) for pair in pairs if pair[0] or pair[1]]
    return "\n".join(lines) or None


def _rows(path: Path) -> Iterator[dict[str, Any] | Dropped]:
    if path.suffix.lower() == ".parquet":
        try:
            with open_parquet(path) as file:
                columns = find_columns(tuple(file.schema_arrow.names))
                groups = list(range(file.metadata.num_row_groups))
                yield from rows(file, groups, read_columns(file.schema_arrow, columns, {}))
        except FAILURES as error:
            yield Dropped("corpus", path.name, "unreadable Parquet file", str(error), scope="words")
        return
    reader = find_reader(path)
    if reader is None:
        why = "no reader recognises it" if path.stat().st_size else "it is empty"
        yield Dropped("corpus", path.name, "unreadable caption file", why, scope="words")
        return
    try:
        for row in reader.rows(path):
            yield row.values if isinstance(row, FileRow) else row
    except InputError as error:
        yield Dropped("corpus", path.name, "unreadable caption file", str(error), scope="words")
