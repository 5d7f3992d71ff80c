"""Folders of images, any depth. A caption lies beside its image as .txt, its metadata as .json."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heldout.benchmark import too_deep
from heldout.corpus._columns import Words, decode_words, find_columns
from heldout.corpus._listing import HIDDEN, RUN_FOLDER, UNREADABLE, FolderEntry, walk
from heldout.corpus.corpus import FILE_WORK, CorpusItem, Shard, shard_work
from heldout.errors import blame_the_machine
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
from heldout.store import Dropped

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
        for entry in walk(Path(self.root)):
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
        inside = os.path.realpath(self.root)
        names, runs = shard.payload
        for name in runs:
            detail = "written by heldout; it is not part of the corpus"
            yield Dropped("corpus", readable(name), "run folder", detail, scope="words")
        for name in names:
            path = f"{self.root}/{name}"
            reason = _refused(path, inside)
            if reason is not None:
                scope: Literal["item", "many"] = "many" if name.endswith("/") else "item"
                yield Dropped("corpus", readable(name), *reason, scope=scope)
                continue
            words, metadata, problem = self._beside(path)
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

    def _beside(self, path: str) -> tuple[Words, dict[str, Any], tuple[str, str] | None]:
        """Words and metadata from the image's sidecars, and what is wrong with them."""
        stem = _stem(path)
        metadata: dict[str, Any] = {}
        problem = None
        data = _sidecar(f"{stem}.json")
        if data is not None:
            metadata, problem = read_metadata(data)
        words = find_columns(tuple(metadata)).words(metadata) if metadata else Words()
        caption = _sidecar(f"{stem}.txt")
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


def _sidecar(path: str) -> bytes | None:
    """A sidecar's bytes, if it is a plain file: a link or a pipe of that name is not opened."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with Path(path).open("rb") as file:
            return file.read(MAX_TEXT + 1)
    except OSError as error:
        blame_the_machine(error)
        return None


def _refused(path: str, inside: str) -> tuple[str, str] | None:
    """Why an entry is not an item; None if it is one."""
    if path.endswith("/"):
        hidden = Path(path).name.startswith(".")
        return (
            ("hidden folder", "not walked") if hidden else ("unreadable folder", "no permission?")
        )
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            target = os.path.realpath(path)
            if target != inside and not target.startswith(inside + os.sep):
                detail = f"points to {target}; open a folder that holds the link and its target"
                return "link outside the corpus", readable(detail)
            mode = Path(target).stat().st_mode
            if stat.S_ISDIR(mode):
                return "link to a folder", "its files are read where they are"
        if not stat.S_ISREG(mode):
            return "not a regular file", "expected an image file"
        if ending(path) in IMAGE_ENDINGS:
            return None
        with Path(path).open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        blame_the_machine(error)
        return "unreadable file", str(error.strerror)
    if looks_like_image(head):
        return None
    return "not an image", f"ending '{ending(path)}', first bytes {head[:16]!r}"


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
