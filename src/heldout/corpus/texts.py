"""Corpora of words: JSON Lines and plain text, one file or a folder of them, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from heldout.benchmark.image_finder import ImageFinder
from heldout.benchmark.readers.json_rows import json_line
from heldout.corpus.columns import Words, find_columns
from heldout.corpus.corpus import CorpusItem, Shard
from heldout.corpus.file_set import FileSet, is_pattern
from heldout.corpus.lines import FAILURES, Span, lines, spans
from heldout.corpus.listing import digest, file_key
from heldout.corpus.pages import NotText, pages
from heldout.corpus.row_items import lost_row, row_items
from heldout.corpus.sizes import shard_work
from heldout.corpus.text_files import TextFile, is_lines, text_files
from heldout.corpus.unique import unique_ids
from heldout.errors import blame_the_machine
from heldout.image.kinds import readable
from heldout.store import Dropped

SHARD_BYTES = 16 << 20  # of short documents, about a minute of searching on one core
FILES_PER_SHARD = 4096


class Part(NamedTuple):
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
        parts: list[Part] = []
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

    def _parts(self) -> Iterator[tuple[Part, str, int]]:
        """Each part with its key and its size in bytes."""
        for file in text_files(self.location):
            if file.problem is not None:
                yield Part(file), digest(file.name, file.problem.reason), 0
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
                yield Part(file, span), key, (size if span.end is None else span.end) - span.start

    def _items(self, part: Part) -> Iterator[CorpusItem | Dropped]:
        file = part.file
        shown = readable(file.name)
        if file.problem is not None:
            yield file.problem
            return
        try:
            yield from self._rows(part, shown) if is_lines(file.name) else _pages(file.path, shown)
        except NotText as error:
            yield Dropped("corpus", shown, "not text", str(error))
        except FAILURES as error:
            blame_the_machine(error)
            detail = str(error) or type(error).__name__
            yield Dropped("corpus", shown, "unreadable text file", detail, scope="many")

    def _rows(self, part: Part, shown: str) -> Iterator[CorpusItem | Dropped]:
        alone = not is_pattern(self.location) and not Path(self.location).is_dir()
        prefix = "" if alone else f"{shown}/"
        root = FileSet(self.location, ()).root()
        finder = ImageFinder(root, Path(self.images) if self.images else None)
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
                words = Words(_any_words(values)) if columns.wordless else None
                item = readable(f"{prefix}{columns.key(values) or number}")
                yield from row_items(values, item, origin, columns, finder, words)
            except Exception as error:  # one row's failure must not cost the file
                yield lost_row(origin, error)


def _pages(path: Path, shown: str) -> Iterator[CorpusItem | Dropped]:
    number = 0
    for number, text in enumerate(pages(path), 1):
        yield CorpusItem(id=shown if number == 1 else f"{shown}/part {number}", text=text)
    if not number:
        yield Dropped("corpus", shown, "empty file", "no words in it", scope="words")


def _any_words(values: dict[str, Any]) -> str | None:
    """Of a row whose columns nobody knows, every value of more than one word."""
    told = [value for value in values.values() if isinstance(value, str) and " " in value.strip()]
    return "\n".join(told) or None


def _sound(value: Any) -> Any:
    """Text without lone surrogates, which JSON can spell but no table can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sound(part) for part in value]
    if isinstance(value, dict):
        return {_sound(key): _sound(part) for key, part in value.items()}
    return value


def _shard(index: int, parts: list[Part], keys: list[str]) -> Shard:
    first = parts[0]
    start = f" from line {first.span.before + 1}" if first.span.start else ""
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Shard(index, f"{readable(first.file.name)}{start}{more}", digest(*keys), tuple(parts))
