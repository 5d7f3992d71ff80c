"""A zip's table of contents, read as a stream: two million members cost the memory of one.

The standard library's reader builds an object per member before it yields the first. Here a span of the central
directory (offset, count) is all a worker needs to find its members.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from heldout.corpus.corpus import FILE_WORK, shard_work
from heldout.errors import HeldoutError, blame_the_machine
from heldout.image import MAX_BYTES, ImageError
from heldout.remote import located, reason_of

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMPRESSED = slice(
    20, 24
)  # of a raw entry: its compressed size, all bits set where it is a long one
STORED, DEFLATED = 0, 8
_CHUNK = 1 << 18


class ZipError(HeldoutError):
    """The zip's table of contents cannot be read."""


@dataclass(frozen=True, slots=True)
class ZipEntry:
    name: str
    method: int
    encrypted: bool
    crc: int
    compressed: int
    size: int
    header: int  # offset of the local header in the file


@dataclass(frozen=True, slots=True)
class ZipSpan:
    """Some neighbouring entries: where they start, how many, and a digest of what they say."""

    offset: int
    count: int
    shift: int  # bytes in front of the archive, as in a self-extracting one
    digest: str


@dataclass(frozen=True, slots=True)
class ZipBytes:
    """The bytes of one member. Sizes and checksum are checked on reading: the directory may be wrong."""

    path: str
    entry: ZipEntry

    def read(self) -> bytes:
        try:
            with located(self.path).open("rb") as file:
                return read_member(file, self.entry, self.describe())
        except OSError as error:
            blame_the_machine(error)
            reason = reason_of(error, "missing image")
            raise ImageError(reason, f"{self.path}: {error.strerror}") from error

    def describe(self) -> str:
        return f"{self.path}!{self.entry.name}"


def zip_spans(path: Path, count: int) -> Iterator[ZipSpan]:
    """The central directory in spans of up to ``count`` entries and of bounded work.

    They are those of this zip, whatever others the corpus has: one that is added changes no other.
    """
    with path.open("rb") as file:
        start, size, shift = _find_directory(file, path)
        position, held, work, hasher = start, 0, 0, hashlib.sha256()
        span_start, index = start, 0
        for raw in _raw_entries(file, start, size, path):
            own_work = FILE_WORK + int.from_bytes(raw[_COMPRESSED], "little")
            if held and (held == count or work + own_work > shard_work(index)):
                yield ZipSpan(span_start, held, shift, hasher.hexdigest())
                span_start, held, work, hasher = position, 0, 0, hashlib.sha256()
                index += 1
            hasher.update(raw)
            held += 1
            work += own_work
            position += len(raw)
        if held:
            yield ZipSpan(span_start, held, shift, hasher.hexdigest())


def zip_entries(path: Path, span: ZipSpan) -> Iterator[ZipEntry]:
    with path.open("rb") as file:
        length = path.stat().st_size
        for number, raw in enumerate(_raw_entries(file, span.offset, length - span.offset, path)):
            if number == span.count:
                return
            yield _entry(raw, span.shift)


def read_member(file: BinaryIO, entry: ZipEntry, where: str, limit: int = MAX_BYTES) -> bytes:
    """A member's bytes, never more than declared; an ImageError if they are not as declared."""
    if max(entry.size, entry.compressed) > limit:
        raise ImageError("image file too large", f"{where}: {entry.size:,} bytes")
    data = _compressed(file, entry, where)
    if entry.method == DEFLATED:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = inflater.decompress(data, entry.size + 1)
        except zlib.error as error:
            raise ImageError("damaged zip member", f"{where}: {error}") from error
    if len(data) != entry.size:
        text = f"more than {entry.size:,}" if len(data) > entry.size else f"{len(data):,}"
        raise ImageError(
            "damaged zip member", f"{where}: {text} bytes where {entry.size:,} are declared"
        )
    if zlib.crc32(data) != entry.crc:
        raise ImageError("damaged zip member", f"{where}: the checksum does not fit")
    return data


def read_head(file: BinaryIO, entry: ZipEntry, count: int) -> bytes:
    """The first bytes of a member; empty if they cannot be read."""
    try:
        data = _compressed(file, entry, entry.name, count + 1024)
        if entry.method == DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, count)
    except (ImageError, zlib.error, OSError):
        return b""
    return data[:count]


def _compressed(file: BinaryIO, entry: ZipEntry, where: str, limit: int | None = None) -> bytes:
    if entry.header < 0:
        raise ImageError("damaged zip member", f"{where}: it starts before the file")
    file.seek(entry.header)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\3\4":
        raise ImageError("damaged zip member", f"{where}: no member at byte {entry.header:,}")
    name_length, extra_length = _LOCAL.unpack(head)[9:11]
    file.seek(entry.header + _LOCAL.size + name_length + extra_length)
    return file.read(entry.compressed if limit is None else min(limit, entry.compressed))


def _find_directory(file: BinaryIO, path: Path) -> tuple[int, int, int]:
    """(offset, size, shift) of the central directory."""
    length = file.seek(0, 2)
    tail_start = max(0, length - 65_535 - _END.size)
    file.seek(tail_start)
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise ZipError(f"{path}: the zip has no table of contents; it is cut short or not a zip")
    _, disk, _, _, _, size, offset, _ = _END.unpack_from(tail, at)
    end = tail_start + at
    locator = end - _END64_LOCATOR.size
    if locator >= 0:
        file.seek(locator)
        mark, _, end64, _ = _END64_LOCATOR.unpack(file.read(_END64_LOCATOR.size))
        if mark == b"PK\6\7":
            for place in (end64, locator - _END64.size):  # the second: bytes were put in front
                file.seek(min(place, length))
                content = file.read(_END64.size)
                if content[:4] == b"PK\6\6" and len(content) == _END64.size:
                    *_, size, offset = _END64.unpack(content)
                    end, disk = place, 0
                    break
    if disk not in (0, 0xFFFF):
        raise ZipError(f"{path}: a zip in several parts; join them first (zip -s 0)")
    shift = end - size - offset
    if shift < 0 or offset + shift + size > length:
        raise ZipError(f"{path}: the zip's table of contents is damaged")
    return offset + shift, size, shift


def _raw_entries(file: BinaryIO, offset: int, size: int, path: Path) -> Iterator[bytes]:
    """Entries of the directory as bytes, read in chunks."""
    file.seek(offset)
    buffer, at, left = b"", 0, size
    while True:
        if len(buffer) - at < _CENTRAL.size + 3 * 65_535 and left > 0:
            chunk = file.read(min(_CHUNK, left))
            left = left - len(chunk) if chunk else 0
            buffer, at = buffer[at:] + chunk, 0
        if buffer[at : at + 4] != b"PK\1\2":
            if len(buffer) - at > 0 and buffer[at : at + 2] != b"PK":
                raise ZipError(
                    f"{path}: the zip's table of contents is damaged near byte {offset:,}"
                )
            return
        lengths = (
            struct.unpack_from("<3H", buffer, at + 28) if len(buffer) - at >= _CENTRAL.size else ()
        )
        end = at + _CENTRAL.size + sum(lengths)
        if not lengths or end > len(buffer):
            raise ZipError(f"{path}: the zip's table of contents ends inside an entry")
        yield buffer[at:end]
        offset += end - at
        at = end


def _entry(raw: bytes, shift: int) -> ZipEntry:
    fields = _CENTRAL.unpack_from(raw)
    flags, method, crc, compressed, size = fields[3], fields[4], *fields[7:10]
    name_length, extra_length, header = fields[10], fields[11], fields[16]
    name = raw[_CENTRAL.size : _CENTRAL.size + name_length]
    extra = raw[_CENTRAL.size + name_length : _CENTRAL.size + name_length + extra_length]
    size, compressed, header = _wide(extra, size, compressed, header)
    encoding = "utf-8" if flags & 0x800 else "cp437"
    try:
        text = name.decode("utf-8" if encoding == "utf-8" else "ascii")
    except UnicodeDecodeError:
        text = name.decode(encoding, "backslashreplace")
    return ZipEntry(text, method, bool(flags & 1), crc, compressed, size, header + shift)


def _wide(extra: bytes, *values: int) -> list[int]:
    """Values that overflowed 32 bits, replaced by those of the zip64 field, in its order."""
    numbers = list(values)
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        field, at = extra[at + 4 : at + 4 + length], at + 4 + length
        if tag == 1:
            for index, value in enumerate(numbers):
                if value == 0xFFFFFFFF and len(field) >= 8:
                    numbers[index] = int.from_bytes(field[:8], "little")
                    field = field[8:]
    return numbers
