"""How each kind of file becomes items: pictures, rows of tables, pages, and the members of archives.

A member of an archive is read as a file would be. Tables and pages in archives are unpacked to a temporary file one at
a time; their pictures are then kept as bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from heldout.benchmark import (
    ALIASES,
    ColumnKinds,
    FileRow,
    ImageFinder,
    canonical_value,
    find_reader,
    json_line,
    too_deep,
)
from heldout.corpus import markup
from heldout.corpus._columns import (
    STATUS,
    TableColumns,
    Words,
    decode_words,
    find_columns,
    lost_row,
    not_downloaded,
    row_items,
)
from heldout.corpus._listing import (
    FILE,
    HIDDEN,
    LINES,
    PARQUET,
    RUN_FOLDER,
    SPECIAL,
    TAR,
    UNREADABLE,
    kind_of,
)
from heldout.corpus.corpus import CorpusItem
from heldout.corpus.parquet_corpus import FAILURES as PARQUET_FAILURES
from heldout.corpus.parquet_corpus import open_parquet, read_columns, rows
from heldout.corpus.streams import FAILURES as TEXT_FAILURES
from heldout.corpus.streams import Span, is_compressed, lines, open_text
from heldout.errors import InputError, blame_the_machine
from heldout.image import (
    HEAD,
    MAX_BYTES,
    TEXT_ENDINGS,
    FileOnDisk,
    ImageRef,
    InlineBytes,
    Nowhere,
    ending,
    looks_like_image,
    readable,
)
from heldout.remote import RemotePath, located, reason_of
from heldout.store import Dropped

FAILURES = (*TEXT_FAILURES, *PARQUET_FAILURES)  # errors of reading a damaged file
MAX_TEXT = 16 << 20  # a longer file is not a caption or metadata
_LOOK_AHEAD = 200  # rows looked at before deciding what the columns mean
_DEEPEST = 2  # archives in archives
Found = Iterator[CorpusItem | Dropped]


@dataclass(frozen=True, slots=True)
class CorpusPart:
    """What one shard reads of one file: all of it, or a span of its lines, row groups or members."""

    name: str
    kind: str
    span: Any = None
    label: str = ""  # of the span, for people


@dataclass(frozen=True)
class CorpusReading:
    """How the files of a corpus are read, and where they lie."""

    root: Path
    mapping: tuple[tuple[str, str], ...] = ()
    images: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    archived: bool = False  # archives lie beside the tables, and may hold what rows name
    alone: bool = False  # the corpus is one file, whose name its rows do without
    beside: frozenset[str] = frozenset()  # names of the shard: a picture's sidecars are among them
    pictures: frozenset[str] = frozenset()  # those of pictures, without their endings
    depth: int = 0  # of archives around the file
    is_pictured: Callable[[str], bool] = lambda _: False

    def path(self, name: str) -> Path:
        return located(f"{self.root}/{name}")


def not_read(name: str, reason: str, detail: str, kind: str = "") -> Dropped:
    """A file that holds nobody knows what."""
    kind = kind or ending(name) or "no ending"
    return Dropped("corpus", readable(name), reason, detail, scope="many", kind=kind)


def read_part(reading: CorpusReading, part: CorpusPart) -> Found:
    """The items of one part; whatever cannot be read, as Dropped."""
    shown = readable(part.name)
    if reading.filters and part.kind in ("picture", "tar", "zip"):
        return  # rows are selected, and they hold none
    try:
        yield from _READERS[part.kind](reading, part)
    except FAILURES as error:
        blame_the_machine(error)
        reason = reason_of(error, "unreadable file")
        detail = str(error) or type(error).__name__
        yield not_read(shown, reason, detail)


def _run_folder(reading: CorpusReading, part: CorpusPart) -> Found:
    detail = "written by heldout; it is not part of the corpus"
    yield Dropped("corpus", readable(part.name), "run folder", detail, scope="words")


def _folder(reading: CorpusReading, part: CorpusPart) -> Found:
    """A folder that is not entered."""
    name = readable(part.name)
    if part.kind == HIDDEN:
        yield not_read(name, "hidden folder", "not walked", "hidden folder")
    else:
        yield not_read(name, "unreadable folder", "no permission?", "unreadable folder")


# Files of this machine that are links, pipes, or lie elsewhere


def _refused(reading: CorpusReading, part: CorpusPart) -> Dropped | None:
    """Why a file is not opened; None if it may be."""
    path, name = reading.path(part.name), readable(part.name)
    if isinstance(path, RemotePath):
        return None
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            target = os.path.realpath(path)
            if not any(Path(target).is_relative_to(folder) for folder in _inside(reading.root)):
                detail = f"points to {readable(target)}; open a folder that holds the link and its target"
                return not_read(name, "link outside the corpus", detail, "link outside the corpus")
            mode = Path(target).stat().st_mode
            if stat.S_ISDIR(mode):
                detail = "its files are read where they are"
                return Dropped("corpus", name, "link to a folder", detail, scope="words")
        if not stat.S_ISREG(mode):
            return not_read(name, "not a regular file", "expected a file", "not a regular file")
    except OSError as error:
        blame_the_machine(error)
        return Dropped("corpus", name, "unreadable file", str(error.strerror))
    return None


def _inside(root: Path) -> list[Path]:
    inside = Path(os.path.realpath(root))
    if "snapshots" not in inside.parts:
        return [inside]
    # The hub's cache keeps its files in blobs/ and links to them.
    return [inside, Path(*inside.parts[: inside.parts.index("snapshots")]) / "blobs"]


# Pictures, with the words that lie beside them


def _picture(reading: CorpusReading, part: CorpusPart) -> Found:
    stem = part.name.removesuffix(_ending(part.name))
    name, path = readable(part.name), reading.path(part.name)
    metadata: dict[str, Any] = {}
    words = Words()
    if f"{stem}.json" in reading.beside and (data := _sidecar(reading, f"{stem}.json")):
        metadata = read_metadata(data) or {}  # anything else is read as a file of its own
        words = find_columns(tuple(metadata)).words(metadata) if metadata else words
    for end in sorted(TEXT_ENDINGS):
        if f"{stem}{end}" in reading.beside and (data := _sidecar(reading, f"{stem}{end}")):
            text = decode_words(data).strip()
            words = Words(text or words.text, words.question, words.answer, words.also)
            break
    if reading.is_pictured(part.name) and not metadata and words.text is None:
        return  # read with the rows that name it
    image = ImageRef(name, FileOnDisk(str(path)))
    yield words.item(name, image, metadata, (part.name, 0))


def _ending(name: str) -> str:
    """The ending as it is written."""
    return name[len(name) - len(ending(name)) :]


def _sidecar(reading: CorpusReading, name: str) -> bytes | None:
    if _refused(reading, CorpusPart(name, FILE)) is not None:
        return None
    with reading.path(name).open("rb") as file:
        data: bytes = file.read(MAX_TEXT + 1)
    return data


def _is_sidecar(reading: CorpusReading, name: str, size: int) -> bool:
    """Does the file hold the words of a picture of its name? A list is a table of its own."""
    end = ending(name)
    if end not in (*TEXT_ENDINGS, ".json") or size > MAX_TEXT:
        return False
    stem = name.removesuffix(_ending(name))
    shown = stem in reading.pictures or (stem in reading.beside and _is_picture(reading, stem))
    if not shown or end != ".json":
        return shown
    data = _sidecar(reading, name)
    return data is not None and read_metadata(data) is not None


def _is_picture(reading: CorpusReading, name: str) -> bool:
    try:
        with reading.path(name).open("rb") as file:
            return looks_like_image(file.read(HEAD))
    except OSError:
        return False


def read_metadata(data: bytes) -> dict[str, Any] | None:
    """The one object that a .json beside a picture holds; None for anything else, such as a table."""
    try:
        value = json.loads(decode_words(data)) if len(data) <= MAX_TEXT else None
    except (RecursionError, ValueError):
        return None
    return value if isinstance(value, dict) and not too_deep(value) else None


# Rows


class _Rows:
    """Rows of one table as items, what their columns mean told by the first of them."""

    def __init__(
        self,
        reading: CorpusReading,
        part: CorpusPart,
        first: Sequence[Mapping[str, Any]],
        images: tuple[str, ...] = (),
    ) -> None:
        self.reading, self.name = reading, part.name
        self.prefix = "" if reading.alone else f"{readable(part.name)}/"
        self.columns = TableColumns.of(first, reading.mapping, images)
        folder = reading.path(part.name).parent
        named = located(reading.images) if reading.images else None
        self.finder = ImageFinder(folder, named, folder=reading.root)

    def items(self, values: dict[str, Any], number: int) -> Found:
        origin = f"{readable(self.name)} row {number}"
        try:
            for key, value in self.reading.filters:
                column = next((name for name in ALIASES.get(key, (key,)) if name in values), key)
                if canonical_value(values.get(column)) != value:
                    return
            columns = self.columns.named(values)
            item = readable(f"{self.prefix}{columns.key(values) or number}")
            place = (self.name, number)
            for found in row_items(values, item, origin, columns, self.finder, place):
                if self.reading.archived and isinstance(found, CorpusItem) and _is_missing(found):
                    found = replace(found, image=None)  # read as a member, if it is there
                yield found
        except Exception as error:  # one bad row must not lose the file
            yield lost_row(origin, error)


def _is_missing(item: CorpusItem) -> bool:
    place = item.image.location if item.image is not None else None
    return isinstance(place, Nowhere) and place.reason == "missing image"


def _lines(reading: CorpusReading, part: CorpusPart) -> Found:
    if (refused := _refused(reading, part)) is not None:
        yield refused
        return
    path, shown = reading.path(part.name), readable(part.name)
    with open_text(path) as file:
        start = file.read(_PEEK)
    if start.startswith(_UTF16) or (is_compressed(path) and start.lstrip().startswith(b"[")):
        yield from _packed(reading, part)
        return
    ahead = (json_line(line, path, 0) for _, line in lines(path, Span()) if line is not None)
    seen = [row.values for row in itertools.islice(ahead, _LOOK_AHEAD) if isinstance(row, FileRow)]
    table = _Rows(reading, part, seen)
    if not seen:
        detail = f"none of the first lines is a JSON object: {start[:40]!r}"
        yield not_read(part.name, "no rows", detail)
    for number, line in lines(path, part.span or Span()):
        origin = f"{shown} line {number}"
        if line is None:
            yield Dropped("corpus", origin, "line too long", "it cannot be a row")
            continue
        row = json_line(line, path, number)
        if isinstance(row, Dropped):
            yield Dropped("corpus", origin, row.reason, row.detail, row.scope)
        elif row is not None:
            yield from table.items(sound(row.values) if b"\\u" in line else row.values, number)


def _parquet(reading: CorpusReading, part: CorpusPart) -> Found:
    if (refused := _refused(reading, part)) is not None:
        yield refused
        return
    path = reading.path(part.name)
    with open_parquet(path) as file:
        groups, number = part.span or (list(range(file.metadata.num_row_groups)), 0)
        if STATUS in file.schema_arrow.names and (base := _logged(path)) is not None:
            yield from _failed_downloads(file, groups, number, f"{readable(part.name)}", base)
            return
        kinds = ColumnKinds.of(file.schema_arrow)
        columns = find_columns(tuple(file.schema_arrow.names), reading.mapping)
        wanted = [ALIASES.get(key, (key,)) for key, _ in reading.filters]
        chosen = {name: "" for names in wanted for name in names if name in file.schema_arrow.names}
        columns = replace(columns, image=tuple(dict.fromkeys((*columns.image, *kinds.images))))
        read = read_columns(file.schema_arrow, columns, chosen)
        plain = [name for name in read if name not in columns.image]
        first = itertools.islice(rows(file, groups[:1] and [0], plain), _LOOK_AHEAD)
        alone = replace(reading, alone=False)
        table = _Rows(alone, part, [kinds.named(row) for row in first], kinds.images)
        for row in rows(file, groups, read):
            number += 1
            yield from table.items(kinds.named(row), number)


# img2dataset's log of downloads lies beside the tar or the folder that it tells of.


def _logged(path: Path) -> str | None:
    """What a log tells of: the ending of the tar beside it, or nothing for a folder; None if it is no log."""
    if path.with_suffix(".tar").is_file():
        return ".tar"
    return "" if path.with_suffix("").is_dir() else None


def _failed_downloads(file: Any, groups: list[int], number: int, name: str, base: str) -> Found:
    """Rows of the list that were never fetched; the others are in the tar or the folder."""
    names = file.schema_arrow.names
    columns = [name for name in (STATUS, "error_message", "url", "key") if name in names]
    stem = name.removesuffix(_ending(name))
    for row in rows(file, groups, columns):
        number += 1
        failed = not_downloaded(row, f"{stem}{base}/{row.get('key') or number}")
        if failed is not None:
            yield failed


# Files that their content tells


def _other(reading: CorpusReading, part: CorpusPart) -> Found:
    if (refused := _refused(reading, part)) is not None:
        yield refused
        return
    path, name = reading.path(part.name), readable(part.name)
    with path.open("rb") as file:
        start: bytes = file.read(_PEEK)
    size = path.stat().st_size
    if not start:
        yield Dropped("corpus", name, "empty file", "no bytes in it", scope="words")
    elif looks_like_image(start[:HEAD]):
        yield from _picture(reading, part)
    elif _is_sidecar(reading, part.name, size):
        return  # read with its picture
    elif start.startswith((b"PK\3\4", b"PK\5\6")):  # a spreadsheet, a document: whole or not at all
        for found in _READERS["zip"](reading, part):
            yield found if isinstance(found, Dropped) else replace(found, place=(part.name, 0))
    elif (kind := content_kind(start)) is not None:
        yield from _READERS[kind](reading, part)
    elif is_compressed(path):
        yield from _packed(reading, part)
    else:
        yield from _table_or_page(reading, part, start)


def content_kind(start: bytes) -> str | None:
    """What a file holds by its first bytes, whatever it is called."""
    if start.startswith(b"PAR1"):
        return PARQUET
    if start[257:262] == b"ustar":
        return TAR
    first, second = (*start.split(b"\n", 2), b"", b"")[:2]
    are_rows = all(_is_object(line) for line in (first, second)) if second.strip() else False
    return LINES if are_rows else None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (RecursionError, ValueError):
        return False


_PEEK = 1 << 16  # bytes that tell what a file holds


def _packed(reading: CorpusReading, part: CorpusPart) -> Found:
    """What a packed file holds, or one in UTF-16, by its name without the packing."""
    path = reading.path(part.name)
    packed = is_compressed(path)
    inner = part.name.removesuffix(_ending(part.name)) if packed else part.name
    with open_text(path) as file:
        plain: Any = file if packed else codecs.EncodedFile(file, "utf-8", "utf-16", "replace")
        yield from unpacked(reading, part.name, inner.rpartition("/")[2], plain)


def unpacked(reading: CorpusReading, place: str, name: str, file: BinaryIO) -> Found:
    """What a member of an archive holds, read as a file of its name: ``place`` stands for the member in ids."""
    if reading.depth >= _DEEPEST:
        yield not_read(place, "archive in an archive", "unpack it")
        return
    with tempfile.TemporaryDirectory(prefix="heldout-") as folder:
        plain = name.replace("\0", "").strip("/.")[-200:] or "member"
        cut = _unpack(file, Path(folder) / plain)
        inner = replace(
            reading,
            root=Path(folder),
            alone=False,
            beside=frozenset(),
            pictures=frozenset(),
            depth=reading.depth + 1,
            is_pictured=lambda _: False,
        )
        for found in read_part(inner, CorpusPart(plain, kind_of(plain))):
            own = readable(place) + found.id.removeprefix(readable(plain))
            if isinstance(found, Dropped):
                yield replace(found, id=own)
                continue
            image = found.image
            if image is not None and folder in image.source:
                with contextlib.suppress(Exception):  # it stays where it was, and is reported there
                    image = ImageRef(image.name, InlineBytes(image.read(), own))
            yield replace(found, id=own, image=image, place=(place, found.place[1]))
        if cut:
            yield not_read(place, "cut short", cut)


def _unpack(file: BinaryIO, copy: Path) -> str:
    """Write what there is to ``copy``; why it is not all, empty if it is."""
    left = MAX_BYTES
    with copy.open("wb") as out:
        try:
            while left and (chunk := file.read(min(left, 1 << 16))):
                out.write(chunk)
                left -= len(chunk)
        except FAILURES as error:
            blame_the_machine(error)
            return str(error) or type(error).__name__
    return "" if left else f"over {MAX_BYTES:,} bytes; unpack it"


def _table_or_page(reading: CorpusReading, part: CorpusPart, start: bytes) -> Found:
    path, name = reading.path(part.name), readable(part.name)
    table = find_reader(path)
    if table is not None:
        found = table.rows(path)
        try:
            ahead = list(itertools.islice(found, _LOOK_AHEAD))
        except InputError:  # not a table of items; its words are read all the same
            ahead, found = [], iter(())
        seen = [row.values for row in ahead if isinstance(row, FileRow)]
        if seen:
            rows_of = _Rows(reading, part, seen)
            for row in itertools.chain(ahead, found):
                if isinstance(row, FileRow):
                    yield from rows_of.items(sound(row.values), row.number)
                else:
                    yield replace(row, stage="corpus", id=_placed(row.id, part.name))
            return
    if reading.filters:
        return
    value = _json_value(path, start)
    if isinstance(value, dict):
        yield from _whole(_Rows(reading, part, [value]).items(sound(value), 1), name, part.name)
        return
    if value is not None:
        text = "\n".join(_strings(sound(value)))
        yield CorpusItem(id=name, text=text or None, place=(part.name, 0))
        return
    markup_page = markup.is_markup(ending(part.name), start)
    if not is_text(start):
        yield not_read(name, "no reader takes it", f"it begins {start[:16]!r}")
        return
    number = 0
    for number, text in enumerate(pages(path, markup_page), 1):
        item = name if number == 1 else f"{name}/part {number}"
        yield CorpusItem(id=item, text=text, place=(part.name, 0))
    if not number:
        yield Dropped("corpus", name, "empty file", "no words in it", scope="words")


def _json_value(path: Path, start: bytes) -> Any:
    """What a file holds that is one value of JSON and no table; None for other files."""
    if start.lstrip()[:1] not in (b"{", b"[") or path.stat().st_size > MAX_TEXT:
        return None
    try:
        value = json.loads(decode_words(path.read_bytes()))
    except (RecursionError, ValueError):
        return None
    return None if too_deep(value) else value


def _whole(found: Found, name: str, file: str) -> Found:
    """Items of a file that goes as a whole."""
    for number, item in enumerate(found):
        if isinstance(item, CorpusItem):
            item = replace(item, id=f"{name}/{number}" if number else name, place=(file, 0))
        yield item


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _placed(identifier: str, name: str) -> str:
    """``train.json row 3`` with the folders that ``train.json`` lies in."""
    folder, slash, _ = readable(name).rpartition("/")
    return f"{folder}{slash}{identifier}"


# Pages: a file is a page, and a book is many, cut where its lines end.


PAGE = 1 << 18  # characters; a longer file is several pages
_MARKS = ("\n\n", "\n", " ")  # where a page may end, best first


def pages(path: Path, is_markup: bool = False) -> Iterator[str]:
    """The words of a text file in pieces of at most PAGE characters, none of them blank."""
    with open_text(path) as file:
        buffered = io.BufferedReader(cast(io.RawIOBase, file), _PEEK)
        text = io.TextIOWrapper(buffered, _encoding(buffered.peek()), errors="replace")
        chunks = iter(lambda: text.read(PAGE), "")
        held = ""
        for more in markup.words_of(chunks) if is_markup else chunks:
            held += more
            while len(held) >= PAGE:
                cut = _end(held[:PAGE])
                if page := held[:cut].strip():
                    yield page
                held = held[cut:]
        if page := held.strip():
            yield page


def _end(held: str) -> int:
    """Where the page ends: after a paragraph, else a line, else a word, in its second half."""
    for mark in _MARKS:
        cut = held.rfind(mark, len(held) // 2)
        if cut >= 0:
            return cut + len(mark)
    return len(held)


_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1a\x1b"})  # no text has them
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


_LONGEST = (
    50  # letters of a word; more in a row are a coding (base64, ASCII85), where they are ASCII
)


def is_text(start: bytes) -> bool:
    """Are these bytes words? What is coded as text is not."""
    if start.startswith(_UTF16):
        return True
    if len(start.translate(None, _CONTROLS)) < len(start):
        return False
    coded = sum(len(run) for run in start.split() if len(run) > _LONGEST and run.isascii())
    return 2 * coded <= len(start)


def _encoding(start: bytes) -> str:
    if start.startswith(_UTF16):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # may end inside a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def sound(value: Any) -> Any:
    """Text without lone surrogates, which JSON can spell but no table can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [sound(part) for part in value]
    if isinstance(value, dict):
        return {sound(key): sound(part) for key, part in value.items()}
    return value


# Archives


def _archive(reader: str) -> Callable[[CorpusReading, CorpusPart], Found]:
    def read(reading: CorpusReading, part: CorpusPart) -> Found:
        from heldout.corpus import archives

        if (refused := _refused(reading, part)) is not None:
            yield refused
        else:
            yield from getattr(archives, reader)(reading, part)

    return read


def _loose_picture(reading: CorpusReading, part: CorpusPart) -> Found:
    refused = _refused(reading, part)
    if refused is not None:  # of a picture that is not there one item is lost
        single = refused.reason in ("unreadable file", "not a regular file")
        yield replace(refused, scope="item") if single else refused
    else:
        yield from _picture(reading, part)


_READERS: dict[str, Callable[[CorpusReading, CorpusPart], Found]] = {
    RUN_FOLDER: _run_folder,
    HIDDEN: _folder,
    UNREADABLE: _folder,
    SPECIAL: _other,
    "picture": _loose_picture,
    "lines": _lines,
    "parquet": _parquet,
    "tar": _archive("read_tar"),
    "zip": _archive("read_zip"),
    "other": _other,
}
