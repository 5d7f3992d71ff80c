"""Lines of large text files: cut into spans at line ends, read in bounded memory, also compressed."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from heldout.benchmark import bounded_lines
from heldout.corpus.corpus import shard_work
from heldout.remote import RemotePath

# Members of a tar, one header at a time, in constant memory and never a byte on disk.
#
# The standard library's reader keeps every member it has seen, and takes an archive that was cut
# inside a header for one that ended there. For a corpus that would be silently fewer items, so the
# end is checked here: ``TarCut`` says where a tar stops and why.


BLOCK = 512
_MAX_HEADER = 1 << 20  # a longer name or pax header is hostile
_MAX_PADDING = 4 << 20  # zeros after the end mark; more is a file that was allocated but not filled
_ZEROS = bytes(BLOCK)
_PAX_RECORD = re.compile(rb"(\d{1,7}) ([^=\n]{1,200})=")
FILE, FOLDER, SPARSE = "file", "folder", "sparse file"
_KINDS = {
    b"0": FILE,
    b"\0": FILE,
    b"7": FILE,
    b"5": FOLDER,
    b"S": SPARSE,
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "character device",
    b"4": "block device",
    b"6": "pipe",
}


class TarCut(Exception):  # noqa: N818 - a place in a file rather than a fault of ours
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class TarEntry:
    name: str
    kind: str
    size: int
    offset: int  # of the data, in the uncompressed archive


def open_tar(path: Path) -> tuple[BinaryIO, bool]:
    """The tar's uncompressed bytes, and whether they lie in the file as they are."""
    with path.open("rb") as file:
        magic = file.read(6)
    source = _source(path)
    if magic[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.open(source, "rb")), False
    if magic[:3] == b"BZh":
        return cast(BinaryIO, bz2.open(source, "rb")), False
    if magic == b"\xfd7zXZ\0":
        return cast(BinaryIO, lzma.open(source, "rb")), False
    return path.open("rb"), True


def _source(path: Path) -> Any:
    """What the standard library unpacks: a path, or an address opened."""
    return path.open("rb") if isinstance(path, RemotePath) else path


def tar_entries(file: BinaryIO, length: int | None) -> Iterator[TarEntry]:
    """Every member in order. The caller may read its data from ``file`` before asking for the next.

    ``length`` is the archive's size where it is known; then only whole members are yielded.
    """
    position, members, zeros = 0, 0, 0
    long_name: str | None = None
    pax: dict[str, str] = {}
    while True:
        file.seek(position)
        block = file.read(BLOCK)
        if block == _ZEROS:
            zeros += 1  # the end mark; members may follow if two tars were joined
            position += BLOCK
            continue
        if len(block) < BLOCK:
            if zeros and members and zeros * BLOCK <= _MAX_PADDING:
                return
            if zeros:
                detail = (
                    f"{zeros * BLOCK:,} zero bytes after {members:,} members: an unfinished copy?"
                )
                raise TarCut("tar cut short" if members else "empty tar", detail)
            what = "without its end mark" if not block else "inside a header"
            raise TarCut(
                "tar cut short", f"it ends {what} at byte {position:,} after {members:,} members"
            )
        if not _checksum_fits(block):
            if zeros:
                return
            raise TarCut(
                "broken tar header",
                f"at byte {position:,} after {members:,} members; the rest is not read",
            )
        kind, data = block[156:157], position + BLOCK
        size = int(pax["size"]) if pax.get("size", "").isdecimal() else _number(block[124:136])
        if size < 0:
            raise TarCut("broken tar header", f"at byte {position:,}: a negative size")
        if kind == b"S":  # GNU sparse: a map of holes may go on in further blocks
            more = block[482] != 0
            while more:
                extra = file.read(BLOCK)
                data += BLOCK
                more = len(extra) == BLOCK and extra[504] != 0
        position = data + -(-size // BLOCK) * BLOCK
        if length is not None and data + size > length:
            raise TarCut(
                "tar cut short",
                f"{_name(block)[:200]!r} needs {data + size:,} bytes, the file has {length:,}; "
                f"{members:,} members before it are whole",
            )
        if kind in (b"L", b"K", b"x", b"X", b"g"):
            if size > _MAX_HEADER:
                raise TarCut("broken tar header", f"a name or attribute of {size:,} bytes")
            content = file.read(size)
            if len(content) < size:
                raise TarCut("tar cut short", f"inside a long header after {members:,} members")
            if kind == b"L":
                long_name = content.rstrip(b"\0").decode("utf-8", "backslashreplace")
            elif kind in (b"x", b"X"):
                pax = _pax(content)
            continue
        name = pax.get("path") or long_name or _name(block)
        sparse = any(key.startswith("GNU.sparse.") for key in pax)
        long_name, pax = None, {}
        members += 1
        zeros = 0
        label = SPARSE if sparse else _KINDS.get(kind, f"member of type {kind!r}")
        if label == FILE and name.endswith("/"):
            label = FOLDER
        yield TarEntry(name, label, size, data)


def _checksum_fits(block: bytes) -> bool:
    try:
        stated = int(block[148:156].strip(b" \0") or b"0", 8)
    except ValueError:
        return False
    total = sum(block) - sum(block[148:156]) + 8 * 32
    if stated == total:
        return True
    high = sum(byte > 127 for byte in block[:148]) + sum(byte > 127 for byte in block[156:])
    return stated == total - 256 * high  # some old writers summed signed bytes


def _name(block: bytes) -> str:
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and (prefix := block[345:500].split(b"\0", 1)[0]):
        name = prefix + b"/" + name
    return name.decode("utf-8", "backslashreplace")


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # base 256, for sizes octal cannot hold
        return (
            int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] != 0xFF else -1
        )
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return -1


def _pax(content: bytes) -> dict[str, str]:
    """``length key=value`` records; a value may hold anything, so lengths decide, not line ends."""
    fields: dict[str, str] = {}
    position = 0
    while match := _PAX_RECORD.match(content, position):
        end = position + int(match[1])
        if end <= match.end() or end > len(content):
            break
        value = content[match.end() : end - 1]
        fields[match[2].decode("utf-8", "backslashreplace")] = value.decode(
            "utf-8", "backslashreplace"
        )
        position = end
    return fields


#: errors of reading a damaged or truncated compressed file
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
    spans: list[Span] = []
    start = before = seen = offset = 0
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            limit = min(target, shard_work(len(spans)))
            cut = chunk.rfind(b"\n") + 1 if offset + len(chunk) - start >= limit else 0
            if cut:
                hasher.update(chunk[:cut])
                spans.append(Span(start, offset + cut, before, hasher.hexdigest()))
                hasher = hashlib.blake2b(digest_size=16)
                start, before = offset + cut, seen + chunk.count(b"\n", 0, cut)
            hasher.update(chunk[cut:])
            seen += chunk.count(b"\n")
            offset += len(chunk)
    if offset > start:
        spans.append(Span(start, offset, before, hasher.hexdigest()))
    return tuple(spans)


def lines(path: Path, span: Span) -> Iterator[tuple[int, bytes | None]]:
    """(line number from 1, line); None in the place of a line that is too long to be a row."""
    with open_text(path) as file:
        if span.start:
            file.seek(span.start)
        end = None if span.end is None else span.end - span.start
        yield from enumerate(bounded_lines(file, end), span.before + 1)


def is_compressed(path: Path) -> bool:
    """Whether the first bytes are those of a compressed file, whatever its name."""
    with path.open("rb") as file:
        magic = file.read(6)
    return magic.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", _ZSTANDARD))


def open_text(path: Path) -> BinaryIO:
    """The file's bytes, unpacked where it is gzip, bzip2, xz or Zstandard."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == _ZSTANDARD:
        source = _source(path) if isinstance(path, RemotePath) else pa.OSFile(str(path))
        unpacked = pa.CompressedInputStream(source, "zstd")
        return cast(BinaryIO, io.BufferedReader(unpacked, _CHUNK))
    return open_tar(path)[0]
