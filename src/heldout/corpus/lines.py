"""Lines of large text files: cut into spans at line ends, read in bounded memory, also compressed."""

from __future__ import annotations

import functools
import hashlib
import io
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from heldout.benchmark import bounded_lines
from heldout.corpus.corpus import shard_work
from heldout.corpus.tar_stream import open_tar

#: what reading a damaged or cut compressed file raises
FAILURES = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException)
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring lines of one file. ``digest`` is of their bytes, empty for a file in one piece."""

    start: int = 0
    end: int | None = None  # None: to the end of the file
    before: int = 0  # lines before it
    digest: str = ""


def spans(path: Path, target: int) -> tuple[Span, ...]:
    """Spans of up to about ``target`` bytes, the first of a file smaller; one for a small file and for
    one that must be unpacked."""
    facts = path.stat()
    if facts.st_size <= min(target, shard_work(0)) or is_compressed(path):
        return (Span(),)
    return _cut(path, facts.st_size, facts.st_mtime_ns, target)


@functools.lru_cache(maxsize=1024)  # shards are listed several times, large files read only once
def _cut(path: Path, size: int, modified: int, target: int) -> tuple[Span, ...]:
    found: list[Span] = []
    start = before = seen = offset = 0
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            limit = min(target, shard_work(len(found)))
            cut = chunk.rfind(b"\n") + 1 if offset + len(chunk) - start >= limit else 0
            if cut:
                hasher.update(chunk[:cut])
                found.append(Span(start, offset + cut, before, hasher.hexdigest()))
                hasher = hashlib.blake2b(digest_size=16)
                start, before = offset + cut, seen + chunk.count(b"\n", 0, cut)
            hasher.update(chunk[cut:])
            seen += chunk.count(b"\n")
            offset += len(chunk)
    if offset > start:
        found.append(Span(start, offset, before, hasher.hexdigest()))
    return tuple(found)


def lines(path: Path, span: Span) -> Iterator[tuple[int, bytes | None]]:
    """(line number from 1, line); None in the place of a line that is too long to be a row."""
    with open_text(path) as file:
        if span.start:
            file.seek(span.start)
        end = None if span.end is None else span.end - span.start
        yield from enumerate(bounded_lines(file, end), span.before + 1)


def is_compressed(path: Path) -> bool:
    """True by the first bytes, whatever the file is called."""
    with path.open("rb") as file:
        magic = file.read(6)
    return magic.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", _ZSTANDARD))


def open_text(path: Path) -> BinaryIO:
    """The file's bytes, unpacked where it is gzip, bzip2, xz or Zstandard."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == _ZSTANDARD:
        unpacked = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
        return cast(BinaryIO, io.BufferedReader(unpacked, _CHUNK))
    return open_tar(path)[0]
