"""Archives: every member is read as a file would be, without unpacking the archive.

A WebDataset tar holds samples: neighbouring members that share a key, the path up to the first dot of the file name
(``000123.jpg``, ``000123.txt``, ``000123.json``). A sample with a picture or words is one item, called
``<tar>/<key>``; one with several pictures is several, called as their members are.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from heldout.corpus._columns import Words, decode_words, find_columns
from heldout.corpus.captions import Captions
from heldout.corpus.corpus import CorpusItem
from heldout.corpus.parts import (
    MAX_TEXT,
    CorpusPart,
    CorpusReading,
    Found,
    is_text,
    not_read,
    read_metadata,
    unpacked,
)
from heldout.corpus.streams import FILE, FOLDER, TarCut, TarEntry, open_tar, tar_entries
from heldout.corpus.zips import (
    DEFLATED,
    STORED,
    ZipBytes,
    ZipEntry,
    ZipError,
    read_head,
    read_member,
    zip_entries,
    zip_spans,
)
from heldout.errors import blame_the_machine
from heldout.image import (
    HEAD,
    IMAGE_ENDINGS,
    MAX_BYTES,
    TEXT_ENDINGS,
    ImageError,
    ImageRef,
    InlineBytes,
    TarMember,
    ending,
    looks_like_image,
    readable,
    unsafe,
)
from heldout.remote import reason_of
from heldout.store import Dropped

# members of one sample; file names with many dots could otherwise turn a whole tar into one sample
_MAX_MEMBERS = 256
_LABEL = 1 << 12  # bytes of a line that lies beside a picture; more is a text of its own


def sample_key(name: str) -> str:
    """The name that the members of one sample share."""
    folder, slash, base = name.rpartition("/")
    dot = base.find(".", 1)
    return folder + slash + (base[:dot] if dot > 0 else base)


def read_tar(reading: CorpusReading, part: CorpusPart) -> Found:
    """The samples of a tar, and its other members."""
    path, shown = reading.path(part.name), readable(part.name)
    try:
        file, plain = open_tar(path)
    except OSError as error:
        blame_the_machine(error)
        reason = reason_of(error, "unreadable tar")
        yield not_read(shown, reason, f"{path}: {error.strerror}", ".tar")
        return
    with file:
        yield from _Tar(reading, part, file, plain).items()


@dataclass(slots=True)
class _Member:
    entry: TarEntry
    data: bytes | None = None  # of text, and of what a packed tar cannot go back to
    is_picture: bool = False


@dataclass(slots=True)
class _Sample:
    key: str
    members: list[_Member] = field(default_factory=list)
    held: int = 0  # bytes in memory


class _Tar:
    def __init__(
        self, reading: CorpusReading, part: CorpusPart, file: BinaryIO, plain: bool
    ) -> None:
        self.reading, self.name, self.shown = reading, part.name, readable(part.name)
        self.path = reading.path(part.name)
        self.file, self.plain = file, plain
        self.members = self.position = 0
        # A temporary file is gone when the items are looked at.
        self.keep = plain and reading.depth == 0
        self.length = self.path.stat().st_size if plain else None

    def items(self) -> Found:
        sample: _Sample | None = None
        cut: Dropped | None = None
        try:
            for entry in tar_entries(self.file, self.length):
                self.members, self.position = self.members + 1, entry.offset
                if entry.kind == FOLDER:
                    continue
                if (reason := _refused_member(entry)) is not None:
                    yield _lost_member(self._id(entry.name), entry.name, reason)
                    continue
                key = sample_key(entry.name)
                full = sample is not None and (
                    len(sample.members) >= _MAX_MEMBERS or sample.held > MAX_BYTES
                )
                if sample is not None and (sample.key != key or full):
                    yield from self._finish(sample)
                    sample = None
                member = self._member(entry)  # only now: a truncated member is not yielded
                sample = sample or _Sample(key)
                sample.members.append(member)
                sample.held += len(member.data or b"")
        except TarCut as error:
            cut = not_read(self.shown, error.reason, f"{self.path}: {error.detail}", ".tar")
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            blame_the_machine(error)
            why = reason_of(error, "tar cut short")
            detail = f"{self.path}: {error}; {self._read_until()}"
            cut = not_read(self.shown, why, detail, ".tar")
        if sample is not None:
            yield from self._finish(sample)
        if cut is not None:
            yield cut

    def _member(self, entry: TarEntry) -> _Member:
        """Text is read at once; of a picture only its head, unless the tar cannot be read again."""
        end = ending(entry.name)
        if end in IMAGE_ENDINGS and self.keep:
            return _Member(entry, None, True)
        if self.keep and (entry.size > MAX_TEXT or end not in (*TEXT_ENDINGS, ".json")):
            is_picture = looks_like_image(self._data(entry, HEAD))
            return _Member(entry, None, is_picture)
        data = self._data(entry, entry.size)
        return _Member(entry, data, end in IMAGE_ENDINGS or looks_like_image(data[:HEAD]))

    def _data(self, entry: TarEntry, size: int) -> bytes:
        self.file.seek(entry.offset)
        data = self.file.read(min(size, entry.size))
        if len(data) < min(size, entry.size):
            raise TarCut("tar cut short", f"inside {entry.name}")
        return data

    def _finish(self, sample: _Sample) -> Found:
        pictures = [member for member in sample.members if member.is_picture]
        others = [member for member in sample.members if not member.is_picture]
        metadata: dict[str, Any] = {}
        words = Words()
        text: str | None = None
        apart: list[_Member] = []
        for member in others:
            end = ending(member.entry.name)
            if member.data is None or end not in (*TEXT_ENDINGS, ".json"):
                apart.append(member)
            elif end == ".json":
                found = read_metadata(member.data)
                if found is None:
                    apart.append(member)
                    continue
                metadata = found
                words = find_columns(tuple(metadata)).words(metadata) if metadata else words
            else:
                text = decode_words(member.data).strip() or text
        labels = self._labels(apart) if pictures else {}
        metadata = {**metadata, **labels}
        if text is not None:
            words = Words(text, words.question, words.answer, words.also)
        alone = len(pictures) == 1 and len(sample.members) < _MAX_MEMBERS
        place = (self.name, sample.key)
        for picture in pictures:
            name = sample.key if alone else picture.entry.name
            yield words.item(self._id(name), self._image(picture), metadata, place)
        if not pictures and (words.text is not None or metadata):
            yield words.item(self._id(sample.key), None, metadata, place)
        for member in apart:
            entry = member.entry
            if ending(entry.name).lstrip(".") in labels:
                continue
            data = member.data if member.data is not None else self._data(entry, entry.size)
            inner = f"{self.name}/{entry.name}"
            base = entry.name.rpartition("/")[2]
            for each in unpacked(self.reading, inner, base, io.BytesIO(data)):
                yield _placed(each, self.name, entry.name)

    def _labels(self, members: Sequence[_Member]) -> dict[str, str]:
        """What a line says that lies beside a picture, by its ending: ``000.cls`` holds the class."""
        labels = {}
        for member in members:
            entry = member.entry
            if entry.size <= _LABEL and ending(entry.name) != ".json":
                data = member.data if member.data is not None else self._data(entry, entry.size)
                if b"\n" not in data.strip() and is_text(data):
                    labels[ending(entry.name).lstrip(".")] = decode_words(data).strip()
        return labels

    def _image(self, member: _Member) -> ImageRef:
        entry = member.entry
        if member.data is None:
            where = TarMember(str(self.path), entry.name, entry.offset, entry.size)
            return ImageRef(entry.name, where)
        return ImageRef(entry.name, InlineBytes(member.data, f"{self.path}!{entry.name}"))

    def _read_until(self) -> str:
        of = f" of {self.length:,}" if self.length is not None else ""
        return f"read: {self.members:,} members, up to byte {self.position:,}{of}"

    def _id(self, name: str) -> str:
        return f"{self.shown}/{readable(name)}"


def _placed(found: CorpusItem | Dropped, archive: str, member: str) -> CorpusItem | Dropped:
    """An item of a member: a row of it can go by itself."""
    if isinstance(found, Dropped):
        return found
    row = found.place[1]
    return replace(
        found, place=(archive, f"{member}\n{row}" if isinstance(row, int) and row else member)
    )


def _lost_member(item: str, name: str, reason: tuple[str, str]) -> Dropped:
    """Of a picture one item is lost; of another member nobody knows how many."""
    if ending(name) in IMAGE_ENDINGS:
        return Dropped("corpus", item, *reason)
    return not_read(item, reason[0].replace("image file", "member"), reason[1])


def _refused_member(entry: TarEntry) -> tuple[str, str] | None:
    if unsafe(entry.name):
        return "member outside the archive", f"a {entry.kind} called {entry.name[:200]!r}"
    if entry.kind != FILE:
        return "not a regular file", f"a {entry.kind}"
    if entry.size > MAX_BYTES:
        return "image file too large", f"{entry.size:,} bytes, the limit is {MAX_BYTES:,}"
    return None


# Zips


_PMC = re.compile(r"PMC\d+")


def read_zip(reading: CorpusReading, part: CorpusPart) -> Found:
    """The members of a zip, or of one span of its table of contents."""
    path, shown = reading.path(part.name), readable(part.name)
    with contextlib.ExitStack() as stack:
        captions = Captions.beside(path, reading.mapping) if reading.depth == 0 else None
        if captions is not None:
            stack.callback(captions.close)
            if reading.alone and part.label in ("", " part 0"):
                yield from captions.dropped()
        try:
            file = stack.enter_context(path.open("rb"))
            whole = [part.span] if part.span is not None else zip_spans(path, 1 << 20)
            for span in whole:
                for entry in zip_entries(path, span):
                    if not entry.name.endswith("/"):
                        yield from _zip_member(reading, part, entry, file, captions)
        except ZipError as error:
            yield not_read(shown, "unreadable zip", str(error), ".zip")


def _zip_member(
    reading: CorpusReading,
    part: CorpusPart,
    entry: ZipEntry,
    file: BinaryIO,
    captions: Captions | None,
) -> Found:
    path = reading.path(part.name)
    item = f"{readable(part.name)}/{readable(entry.name)}"
    place = (part.name, entry.name)
    if (reason := _refused_entry(entry)) is not None:
        yield _lost_member(item, entry.name, reason)
        return
    end, base = ending(entry.name), entry.name.rpartition("/")[2]
    if end not in IMAGE_ENDINGS and not looks_like_image(read_head(file, entry, HEAD)):
        try:
            data = read_member(file, entry, item)
        except ImageError as error:
            yield not_read(item, error.reason, error.detail)
            return
        for found in unpacked(reading, f"{part.name}/{entry.name}", base, io.BytesIO(data)):
            yield _placed(found, part.name, entry.name)
        return
    words = Words()
    metadata: dict[str, Any] = {}
    if captions is not None:
        words, metadata = captions.find(entry.name, base, f"{path.stem}/{entry.name}")
    if match := _PMC.match(base):
        metadata = {**metadata, "pmcid": match[0]}
    where: Any = ZipBytes(str(path), entry)
    if reading.depth:
        with contextlib.suppress(ImageError):
            where = InlineBytes(read_member(file, entry, item), item)
    yield words.item(item, ImageRef(entry.name, where), metadata, place)


def _refused_entry(entry: ZipEntry) -> tuple[str, str] | None:
    if unsafe(entry.name):
        return "member outside the archive", repr(entry.name[:200])
    if entry.encrypted:
        return "encrypted zip member", "extract it with its password first"
    if entry.method not in (STORED, DEFLATED):
        return "unknown zip compression", f"method {entry.method}; re-pack the zip with deflate"
    if max(entry.size, entry.compressed) > MAX_BYTES:
        return "image file too large", f"{entry.size:,} bytes, the limit is {MAX_BYTES:,}"
    return None
