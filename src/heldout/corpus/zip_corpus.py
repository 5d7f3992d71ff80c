"""Zips of images: PMC-OA's ``images.zip`` with its captions beside it, and any other.

A shard is some megabytes of neighbouring entries, at most 4096. Text inside the zip is not read; captions
come from a JSON Lines, CSV or Parquet file beside it whose rows name the images.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from heldout.corpus.captions import Captions
from heldout.corpus.columns import Words
from heldout.corpus.corpus import CorpusItem, Shard, unique_ids
from heldout.corpus.listing import FileSet, digest, file_key
from heldout.corpus.zip_directory import (
    DEFLATED,
    STORED,
    ZipBytes,
    ZipEntry,
    ZipError,
    ZipSpan,
    read_head,
    zip_entries,
    zip_spans,
)
from heldout.errors import blame_the_machine
from heldout.image import (
    HEAD,
    IMAGE_ENDINGS,
    MAX_BYTES,
    ImageRef,
    ending,
    is_sidecar,
    looks_like_image,
    readable,
    unsafe,
)
from heldout.store import Dropped

ENDINGS = (".zip",)
ENTRIES_PER_SHARD = 4096
_PMC = re.compile(r"PMC\d+")


@dataclass(slots=True)
class ZipCorpus:
    """Item ids are ``<zip>/<member>``. ``captions`` is the file that describes the members."""

    files: FileSet
    name: str
    source: str
    captions: str | None = None
    mapping: tuple[tuple[str, str], ...] = ()
    entries_per_shard: int = ENTRIES_PER_SHARD
    reader: str = "zip"

    def shards(self) -> Iterator[Shard]:
        index = 0
        described = file_key(Path(self.captions)) if self.captions else ""
        for name, path in self.files.files():
            try:
                for number, span in enumerate(zip_spans(path, self.entries_per_shard)):
                    # The directory holds every name, size and checksum: it stands for the content.
                    key = digest(name, span.digest, span.shift, described)
                    yield Shard(
                        index, f"{readable(name)} part {number}", key, (name, str(path), span)
                    )
                    index += 1
            except (ZipError, OSError) as error:
                blame_the_machine(error)
                failure = str(error)
                yield Shard(index, readable(name), file_key(path, name), (name, str(path), failure))
                index += 1

    def count_shards(self) -> int | None:
        return None  # that would read the directory

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        return unique_ids(self._items(shard))

    def _items(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        name, path, span = shard.payload
        if not isinstance(span, ZipSpan):
            yield Dropped("corpus", shard.id, "unreadable zip", span, scope="many")
            return
        with contextlib.ExitStack() as stack:
            captions = None
            if self.captions:
                captions = Captions(Path(self.captions), self.mapping)
                stack.callback(captions.close)
                if shard.index == 0:
                    yield from captions.dropped()
            try:
                file = stack.enter_context(Path(path).open("rb"))
                for entry in zip_entries(Path(path), span):
                    if not entry.name.endswith("/"):
                        yield from self._item(name, path, entry, file, captions)
            except (ZipError, OSError) as error:
                blame_the_machine(error)
                yield Dropped("corpus", shard.id, "unreadable zip", str(error), scope="many")

    def _item(
        self, name: str, path: str, entry: ZipEntry, file: BinaryIO, captions: Captions | None
    ) -> Iterator[CorpusItem | Dropped]:
        item = f"{readable(name)}/{readable(entry.name)}"
        if (reason := _refused(entry)) is not None:
            yield Dropped("corpus", item, *reason)
            return
        if is_sidecar(entry.name):
            return
        end = ending(entry.name)
        if end not in IMAGE_ENDINGS and not looks_like_image(head := read_head(file, entry, HEAD)):
            detail = f"ending '{end}', first bytes {head[:16]!r}"
            yield Dropped("corpus", item, "not an image", detail)
            return
        words, metadata = self._described(path, entry.name, captions)
        yield CorpusItem(
            id=item,
            image=ImageRef(entry.name, ZipBytes(path, entry)),
            text=words.text,
            question=words.question,
            answer=words.answer,
            also=words.also,
            metadata=metadata,
        )

    def _described(
        self, path: str, member: str, captions: Captions | None
    ) -> tuple[Words, dict[str, Any]]:
        base = member.rpartition("/")[2]
        words = Words()
        metadata: dict[str, Any] = {}
        if captions is not None:
            words, metadata = captions.find(member, base, f"{Path(path).stem}/{member}")
        if match := _PMC.match(base):
            metadata = {**metadata, "pmcid": match[0]}
        return words, metadata


def _refused(entry: ZipEntry) -> tuple[str, str] | None:
    if unsafe(entry.name):
        return "member outside the archive", repr(entry.name[:200])
    if entry.encrypted:
        return "encrypted zip member", "extract it with its password first"
    if entry.method not in (STORED, DEFLATED):
        return "unknown zip compression", f"method {entry.method}; re-pack the zip with deflate"
    if max(entry.size, entry.compressed) > MAX_BYTES:
        return "image file too large", f"{entry.size:,} bytes, the limit is {MAX_BYTES:,}"
    return None
