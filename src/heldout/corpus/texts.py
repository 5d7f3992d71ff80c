"""Corpora of texts: JSON Lines and plain text, one file or a folder of them, plain or compressed."""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from heldout.benchmark import (
    BenchmarkSource,
    FieldMap,
    FileRow,
    ImageFinder,
    find_reader,
    json_line,
    split_of,
)
from heldout.corpus._columns import find_columns, lost_row, row_items
from heldout.corpus._listing import (
    FILE,
    HIDDEN,
    LINK,
    RUN_FOLDER,
    UNREADABLE,
    FileSet,
    FolderEntry,
    digest,
    file_key,
    is_pattern,
    is_run_folder,
    walk,
)
from heldout.corpus.corpus import CorpusItem, Shard, shard_work, unique_ids
from heldout.corpus.streams import (
    COMPRESSED,
    FAILURES,
    Span,
    is_compressed,
    lines,
    open_text,
    spans,
)
from heldout.errors import HeldoutError, blame_the_machine
from heldout.image import (
    HEAD,
    IMAGE_ENDINGS,
    SIDECAR_ENDINGS,
    ending,
    is_sidecar,
    looks_like_image,
    readable,
)
from heldout.remote import entries, located, reason_of
from heldout.store import Dropped

# The files of a corpus of texts: which files of a folder are read, and why others are not.


LINES = (".jsonl", ".ndjson")
PAGES = (".txt", ".text", ".md", ".rst", ".html", ".htm", ".xml", ".nxml")
# Tables and documents that lie beside images are sidecars; among texts they would be unread words.
_NOTES = SIDECAR_ENDINGS - {".json", ".csv", ".tsv", *LINES, *PAGES}


class TextFile(NamedTuple):
    """``name`` is relative to the corpus; ``problem``: why the file is not read."""

    name: str
    path: Path
    problem: Dropped | None = None


def text_files(location: str) -> Iterator[TextFile]:
    """Files in stable order: those to read, and those that cannot be."""
    root = located(location)
    if is_pattern(location) or not root.is_dir():
        for name, path in FileSet(location, ()).files():
            yield TextFile(name, path)
        return
    for entry in walk(root):
        if is_text(entry.name) or not _is_note(entry):
            yield TextFile(entry.name, root / entry.name, _problem(entry, root / entry.name))


def is_lines(name: str) -> bool:
    """True for JSON Lines by name; Dolma and C4 call theirs ``.json.gz``."""
    end, packed = _ending(name)
    return end in LINES or (packed and end == ".json")


def is_text(name: str) -> bool:
    return is_lines(name) or _ending(name)[0] in PAGES


def _ending(name: str) -> tuple[str, bool]:
    """What a file holds by its name, and whether it is compressed."""
    end = ending(name)
    return (ending(name[: -len(end)]), True) if end in COMPRESSED else (end, False)


def _is_note(entry: FolderEntry) -> bool:
    if entry.kind not in (FILE, LINK):
        return False
    return ending(entry.name) in _NOTES or (is_sidecar(entry.name) and not ending(entry.name))


def _problem(entry: FolderEntry, path: Path) -> Dropped | None:
    name = readable(entry.name)
    if entry.kind == RUN_FOLDER:
        detail = "written by heldout; it is not part of the corpus"
        return Dropped("corpus", name, "run folder", detail, scope="words")
    if entry.kind == HIDDEN:
        return Dropped("corpus", name, "hidden folder", "not walked", scope="many")
    if entry.kind == UNREADABLE:
        return Dropped("corpus", name, "unreadable folder", "no permission?", scope="many")
    if entry.kind == LINK and path.is_dir():
        detail = "its files are read where they are"
        return Dropped("corpus", name, "link to a folder", detail, scope="words")
    if not path.is_file():  # a pipe would wait for ever, a broken link holds nothing
        return Dropped("corpus", name, "not a regular file", "expected a text file")
    if not is_text(entry.name):
        detail = f"ending '{ending(entry.name)}'; expected JSON Lines or plain text"
        return Dropped("corpus", name, "not a text file", detail)
    return None


# Does a path hold texts without images? Tables of questions about images are for other readers.


_LOOK = 2000  # entries of a folder that are looked at
_FOLDERS = 20
_OPENED = 50  # files that are opened
_ROWS = 50


def holds_text(source: BenchmarkSource) -> bool:
    """True for JSON Lines without images, plain text, and folders of nothing else."""
    if source.selection:  # rows are selected from tables
        return False
    path = source.path
    if is_pattern(source.location):
        first = next(FileSet(source.location, ()).files(), None)
        return first is not None and is_text(first[0])
    if path.is_file():
        return is_text(path.name) and not _is_table(path)
    if not path.is_dir() or find_reader(path) is not None:
        return False
    files = sorted(_some_files(path))
    texts = [file for file in files if is_text(file.name)]
    if not texts or any(ending(file.name) in IMAGE_ENDINGS for file in files):
        return False
    unknown = (file for file in files if not is_sidecar(file.name) and not is_text(file.name))
    if any(_looks_like_image(file) for file in itertools.islice(unknown, _OPENED)):
        return False
    # A table among more pages is a stray one: read as text, or listed as not read.
    tables = {file for file in files[:_OPENED] if _is_table(file)}
    if tables and len(tables) >= sum(file not in tables for file in texts):
        return False
    # "train" beside "test" is a choice that only the user can make.
    return len({split_of(file.stem) for file in texts if is_lines(file.name)} - {None}) < 2


def first_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """What a benchmark reader finds in the first rows of a file: columns by field, if they say anything."""
    try:
        reader = find_reader(path)
        if reader is None or reader.name == "image-folder":  # a corpus lists folders in flat memory
            return {}
        rows = itertools.islice(reader.rows(path), _ROWS)
        first = [row.values for row in rows if isinstance(row, FileRow)]
        columns = FieldMap.infer(first).columns if first else {}
        return {
            field: filled
            for field, names in columns.items()
            if (filled := tuple(name for name in names if any(row.get(name) for row in first)))
        }
    except (HeldoutError, OSError, ValueError):
        return {}


def _is_table(path: Path) -> bool:
    """True for a table that is not JSON Lines, and for JSON Lines about images."""
    if is_lines(path.name) and is_compressed(path):  # no other reader unpacks it
        return False
    columns = first_columns(path)
    return bool(columns.get("image") or (columns.get("question") and not is_lines(path.name)))


def _some_files(folder: Path) -> Iterator[Path]:
    """Some files of a folder and of the folders in it."""
    first = list(itertools.islice(entries(folder), _LOOK))
    inner = sorted(path for path in first if path.is_dir() and not is_run_folder(str(path)))
    below = (itertools.islice(entries(path), _LOOK) for path in inner[:_FOLDERS])
    for path in itertools.chain(first, *below):
        if not path.name.startswith(".") and path.is_file():
            yield path


def _looks_like_image(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return looks_like_image(file.read(HEAD))
    except OSError:
        return False


# Plain text files as items: a file is a page, and a book is many, cut where its lines end.


PAGE = 1 << 18  # characters; a longer file is several pages
_PAGE_LOOK = 1 << 16  # bytes that tell the encoding
_MARKS = ("\n\n", "\n", " ")  # where a page may end, best first


class NotText(Exception):  # noqa: N818 - what a file is rather than a fault of ours
    """The file does not hold text."""


def pages(path: Path) -> Iterator[str]:
    """The words of a text file in pieces of at most PAGE characters, none of them blank."""
    with open_text(path) as file:
        buffered = io.BufferedReader(cast(io.RawIOBase, file), _PAGE_LOOK)
        text = io.TextIOWrapper(buffered, _encoding(buffered.peek()), errors="replace")
        held = ""
        while more := text.read(PAGE - len(held)):
            held += more
            if len(held) < PAGE:
                continue
            cut = _end(held)
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


def _encoding(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start[:4096]:
        raise NotText(f"zero bytes among the first: {start[:16]!r}")
    try:
        codecs.getincrementaldecoder("utf-8-sig")().decode(start)  # may end inside a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


SHARD_BYTES = 16 << 20  # of short documents, about a minute of searching on one core
FILES_PER_SHARD = 4096


class TextPart(NamedTuple):
    """What one shard reads of one file."""

    file: TextFile
    span: Span = Span()


@dataclass(slots=True)
class TextCorpus:
    """Ids are ``<file>/<id column or line number>`` and, of plain text, ``<file>`` (``…/part 2``).

    The file's name is left out of a line's id where the corpus is one file. A shard is up to 16 MiB,
    the first ones less: small files together, a large JSON Lines file in spans.
    """

    location: str
    name: str
    source: str
    mapping: tuple[tuple[str, str], ...] = ()
    images: str | None = None
    shard_bytes: int = SHARD_BYTES
    files_per_shard: int = FILES_PER_SHARD
    reader: str = "text"

    def shards(self) -> Iterator[Shard]:
        parts: list[TextPart] = []
        keys: list[str] = []
        held = index = 0
        for part, key, size in self._parts():
            limit = min(self.shard_bytes, shard_work(index))
            if parts and (held + size > limit or len(parts) == self.files_per_shard):
                yield _shard(index, parts, keys)
                index, held, parts, keys = index + 1, 0, [], []
            parts.append(part)
            keys.append(key)
            held += size
        if parts:
            yield _shard(index, parts, keys)

    def count_shards(self) -> int | None:
        return None  # that would read the large files

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        return unique_ids(item for part in shard.payload for item in self._items(part))

    def _parts(self) -> Iterator[tuple[TextPart, str, int]]:
        """Each part with its key and its size in bytes."""
        for file in text_files(self.location):
            if file.problem is not None:
                yield TextPart(file), digest(file.name, file.problem.reason), 0
                continue
            try:
                size = file.path.stat().st_size
                cut = spans(file.path, self.shard_bytes) if is_lines(file.name) else (Span(),)
            except OSError:  # reading it will say why
                size, cut = 0, (Span(),)
            for span in cut:
                # Of a file that grew at its end, only the last span is another one.
                key = file_key(file.path, file.name)
                if span.digest:
                    key = digest(file.name, span.start, span.before, span.digest)
                yield (
                    TextPart(file, span),
                    key,
                    (size if span.end is None else span.end) - span.start,
                )

    def _items(self, part: TextPart) -> Iterator[CorpusItem | Dropped]:
        file = part.file
        name = readable(file.name)
        if file.problem is not None:
            yield file.problem
            return
        try:
            yield from self._rows(part, name) if is_lines(file.name) else _pages(file.path, name)
        except NotText as error:
            yield Dropped("corpus", name, "not text", str(error))
        except FAILURES as error:
            blame_the_machine(error)
            reason = reason_of(error, "unreadable text file")
            detail = str(error) or type(error).__name__
            yield Dropped("corpus", name, reason, detail, scope="many")

    def _rows(self, part: TextPart, shown: str) -> Iterator[CorpusItem | Dropped]:
        alone = not is_pattern(self.location) and not located(self.location).is_dir()
        prefix = "" if alone else f"{shown}/"
        root = FileSet(self.location, ()).root()
        finder = ImageFinder(root, located(self.images) if self.images else None)
        for number, line in lines(part.file.path, part.span):
            origin = f"{shown} line {number}"
            if line is None:
                yield Dropped("corpus", origin, "line too long", "it cannot be a row")
                continue
            row = json_line(line, part.file.path, number)
            if row is None:
                continue
            if isinstance(row, Dropped):
                yield Dropped("corpus", origin, row.reason, row.detail, row.scope)
                continue
            try:
                values = _sound(row.values) if b"\\u" in line else dict(row.values)
                columns = find_columns(tuple(values), self.mapping, origin)
                item = readable(f"{prefix}{columns.key(values) or number}")
                yield from row_items(values, item, origin, columns, finder)
            except Exception as error:  # one bad row must not lose the file
                yield lost_row(origin, error)


def _pages(path: Path, name: str) -> Iterator[CorpusItem | Dropped]:
    number = 0
    for number, text in enumerate(pages(path), 1):
        yield CorpusItem(id=name if number == 1 else f"{name}/part {number}", text=text)
    if not number:
        yield Dropped("corpus", name, "empty file", "no words in it", scope="words")


def _sound(value: Any) -> Any:
    """Text without lone surrogates, which JSON can spell but no table can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sound(part) for part in value]
    if isinstance(value, dict):
        return {_sound(key): _sound(part) for key, part in value.items()}
    return value


def _shard(index: int, parts: list[TextPart], keys: list[str]) -> Shard:
    first = parts[0]
    start = f" from line {first.span.before + 1}" if first.span.start else ""
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Shard(index, f"{readable(first.file.name)}{start}{more}", digest(*keys), tuple(parts))
