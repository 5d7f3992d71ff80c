"""Folders of images, any depth, with captions beside each image or in one large file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from heldout.benchmark import FileRow, find_reader, too_deep
from heldout.corpus._columns import Words, decode_words, find_columns
from heldout.corpus._listing import (
    HIDDEN,
    RUN_FOLDER,
    UNREADABLE,
    FolderEntry,
    digest,
    file_key,
    walk,
)
from heldout.corpus.corpus import FILE_WORK, CorpusItem, Shard, shard_work
from heldout.corpus.parquet_corpus import FAILURES, open_parquet, read_columns, rows
from heldout.errors import InputError, blame_the_machine
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
from heldout.remote import (
    RemoteError,
    RemotePath,
    cache_folder,
    entries,
    files_beside,
    located,
    reason_of,
)
from heldout.store import Dropped, exclusive, replacing

FILES_PER_SHARD = 4096
MAX_TEXT = 16 << 20  # a longer file is not a caption or metadata


@dataclass(slots=True)
class FolderCorpus:
    """Item ids are paths relative to the folder; files with an ending in ``skip`` do not count.

    A shard is some megabytes of neighbouring files, at most ``files_per_shard``.
    """

    root: str
    name: str
    source: str
    skip: tuple[str, ...] = ()
    files_per_shard: int = FILES_PER_SHARD
    reader: str = "folder"

    def shards(self) -> Iterator[Shard]:
        names: list[str] = []
        runs: list[str] = []  # not in the key: a run that was started since changes no shard
        hasher = hashlib.sha256()
        index = work = 0
        # A sidecar that precedes its image ("a.json" before "a.png") belongs to the image's shard.
        waiting: list[FolderEntry] = []
        for entry in walk(located(self.root)):
            if ending(entry.name) in self.skip:
                continue
            if entry.kind == RUN_FOLDER:
                runs.append(entry.name)
                continue
            if _is_sidecar(entry):
                if waiting and _stem(waiting[0].name) != _stem(entry.name):
                    _update(hasher, waiting)
                    waiting = []
                waiting.append(entry)
                continue
            own = bool(waiting) and _stem(waiting[0].name) == _stem(entry.name)
            if not own:
                _update(hasher, waiting)
                waiting = []
            own_work = FILE_WORK + entry.size
            full = len(names) == self.files_per_shard or work + own_work > shard_work(index)
            if names and full:
                yield _shard(index, names, hasher, runs)
                index, work, names, runs, hasher = index + 1, 0, [], [], hashlib.sha256()
            work += own_work
            _update(hasher, [*waiting, entry])
            waiting = []
            mark = "/" if entry.kind in (HIDDEN, UNREADABLE) else ""
            names.append(entry.name + mark)
        if names:
            _update(hasher, waiting)
            yield _shard(index, names, hasher, runs)

    def count_shards(self) -> int | None:
        return None  # counting would list every file

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        names, runs = shard.payload
        look: _Look = _Local(self.root)
        if isinstance(root := located(self.root), RemotePath):
            try:
                look = _Remote(root, names)
            except OSError as error:
                why = reason_of(error, "unreadable folder")
                detail = f"{error.strerror}; none of its {len(names):,} files is read"
                yield Dropped("corpus", shard.id, why, detail, scope="many")
                return
        for name in runs:
            detail = "written by heldout; it is not part of the corpus"
            yield Dropped("corpus", readable(name), "run folder", detail, scope="words")
        for name in names:
            path = f"{self.root}/{name}"
            reason = look.refused(path)
            if reason is not None:
                scope: Literal["item", "many"] = "many" if name.endswith("/") else "item"
                yield Dropped("corpus", readable(name), *reason, scope=scope)
                continue
            words, metadata, problem = _beside(look, path)
            if problem:
                yield Dropped("corpus", readable(name), *problem, scope="words")
            yield CorpusItem(
                id=readable(name),
                image=ImageRef(readable(name), FileOnDisk(path)),
                text=words.text,
                question=words.question,
                answer=words.answer,
                also=words.also,
                metadata=metadata,
            )


def _beside(look: _Look, path: str) -> tuple[Words, dict[str, Any], tuple[str, str] | None]:
    """Words and metadata from the image's sidecars, and what is wrong with them."""
    stem = _stem(path)
    metadata: dict[str, Any] = {}
    problem = None
    try:
        data, caption = look.sidecar(f"{stem}.json"), look.sidecar(f"{stem}.txt")
    except RemoteError as error:
        return Words(), {}, (error.reason, f"{error.detail}: its words")
    if data is not None:
        metadata, problem = read_metadata(data)
    words = find_columns(tuple(metadata)).words(metadata) if metadata else Words()
    if caption is not None and (text := decode_words(caption).strip()):
        words = Words(text, words.question, words.answer, words.also)
    return words, metadata, problem


def read_metadata(data: bytes) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The object in a .json sidecar, or the reason why the item has no metadata."""
    if len(data) > MAX_TEXT:
        return {}, ("metadata too large", f"over {MAX_TEXT:,} bytes")
    try:
        value = json.loads(decode_words(data))
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        return {}, ("metadata is not JSON", f"{error}: {data[:80]!r}; the image is kept")
    if isinstance(value, dict | list) and too_deep(value):
        return {}, ("metadata nested too deeply", f"{data[:80]!r}; the image is kept")
    if not isinstance(value, dict):
        return {}, ("metadata is not an object", f"found {type(value).__name__}; the image is kept")
    return value, None


class _Look(Protocol):
    """How the files of a folder are looked at."""

    def sidecar(self, path: str) -> bytes | None:
        """A sidecar's bytes, if it is there and a plain file."""
        ...

    def refused(self, path: str) -> tuple[str, str] | None:
        """Why an entry is not an item; None if it is one."""
        ...


class _Local:
    def __init__(self, root: str) -> None:
        inside = Path(os.path.realpath(root))
        self._inside = [inside]
        if "snapshots" in inside.parts:  # of the hub's cache, which keeps its files in blobs/
            cache = Path(*inside.parts[: inside.parts.index("snapshots")])
            self._inside.append(cache / "blobs")

    def sidecar(self, path: str) -> bytes | None:
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a link or a pipe is not opened
                return None
            with Path(path).open("rb") as file:
                return file.read(MAX_TEXT + 1)
        except OSError as error:
            blame_the_machine(error)
            return None

    def refused(self, path: str) -> tuple[str, str] | None:
        if path.endswith("/"):
            hidden = Path(path).name.startswith(".")
            return (
                ("hidden folder", "not walked")
                if hidden
                else ("unreadable folder", "no permission?")
            )
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                target = os.path.realpath(path)
                if not any(Path(target).is_relative_to(folder) for folder in self._inside):
                    detail = f"points to {target}; open a folder that holds the link and its target"
                    return "link outside the corpus", readable(detail)
                mode = Path(target).stat().st_mode
                if stat.S_ISDIR(mode):
                    return "link to a folder", "its files are read where they are"
            if not stat.S_ISREG(mode):
                return "not a regular file", "expected an image file"
            return _not_an_image(Path(path))
        except OSError as error:
            blame_the_machine(error)
            return "unreadable file", str(error.strerror)


class _Remote:
    """Which sidecars there are is known from a listing: a request for each would triple the cost."""

    def __init__(self, root: RemotePath, names: Sequence[str]) -> None:
        self._root = f"{root}/"
        self._present = files_beside(root, [name for name in names if not name.endswith("/")])

    def sidecar(self, path: str) -> bytes | None:
        if path.removeprefix(self._root) not in self._present:
            return None
        with located(path).open("rb") as file:
            data: bytes = file.read(MAX_TEXT + 1)
            return data

    def refused(self, path: str) -> tuple[str, str] | None:
        if path.endswith("/"):
            return "hidden folder", "not walked"
        try:
            return _not_an_image(located(path))
        except OSError as error:
            blame_the_machine(error)
            return reason_of(error, "unreadable file"), str(error.strerror)


def _not_an_image(path: Path) -> tuple[str, str] | None:
    end = ending(path.name)
    if end in IMAGE_ENDINGS:
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    if looks_like_image(head):
        return None
    return "not an image", f"ending '{end}', first bytes {head[:16]!r}"


def _is_sidecar(entry: FolderEntry) -> bool:
    return entry.kind not in (HIDDEN, UNREADABLE) and is_sidecar(entry.name)


def _stem(name: str) -> str:
    end = ending(name)
    return name[: -len(end)] if end else name


def _update(hasher: Any, entries: list[FolderEntry]) -> None:
    for entry in entries:
        line = f"{entry.name}\0{entry.kind}\0{entry.size}\0{entry.modified}\n"
        hasher.update(line.encode("utf-8", "surrogatepass"))


def _shard(index: int, names: list[str], hasher: Any, runs: list[str]) -> Shard:
    payload = (tuple(names), tuple(runs))
    return Shard(index, f"{index:06d} {readable(names[0])}", hasher.hexdigest(), payload)


# Captions that lie in one large file beside their images, joined by name in constant memory.
#
# The file becomes an SQLite table once per machine, under ``$HELDOUT_CACHE`` (else
# ``$XDG_CACHE_HOME/heldout``, else ``~/.cache/heldout``) in ``captions/``, called after the file's
# path, size and modification time. It may be deleted at any time; the next run builds it again.


ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def caption_files(folder: Path) -> list[Path]:
    """Files beside an archive that may describe its members, in name order."""
    named = (path for path in entries(folder) if path.suffix.lower() in ENDINGS)
    return sorted(path for path in named if path.is_file())


class Captions:
    """Words and metadata by image name, from the first file that names images."""

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
