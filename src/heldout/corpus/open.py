"""Open a corpus: files, embeddings, or what a package adds."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from heldout.benchmark import (
    ALIASES,
    BenchmarkSource,
    Example,
    FileRow,
    at_commit,
    find_preset,
    find_reader,
    hub_name,
    images_folder,
    json_line,
    locate,
    parse_source,
    read_examples,
    refuse_special,
    unreadable,
)
from heldout.corpus._listing import (
    FILE,
    LINES,
    LINK,
    OTHER,
    PARQUET,
    FileSet,
    digest,
    file_key,
    is_pattern,
    kind_of,
)
from heldout.corpus.corpus import (
    Corpus,
    CorpusItem,
    EmbeddingCorpus,
    LimitedCorpus,
    Shard,
    unique_ids,
)
from heldout.corpus.files import FilesCorpus
from heldout.corpus.parquet_corpus import LaionEmbeddings, matrices
from heldout.corpus.streams import FAILURES, Span, lines
from heldout.errors import InputError
from heldout.image import readable
from heldout.remote import bare_name, known_schemes, located, ranges
from heldout.store import Dropped

# A benchmark as a corpus: a name on the hub, a preset, or rows selected from a table.


@dataclass(slots=True)
class TableCorpus:
    """One shard per data file. Item ids are example ids, ``<id>/k`` for an example's k-th image.

    Where a table lies in several files, ids start with the file's name, since they may repeat.
    """

    location: str
    name: str
    source: str
    selection: dict[str, str] = field(default_factory=dict)
    mapping: dict[str, str] = field(default_factory=dict)
    images: str | None = None
    table_reader: str | None = None
    reader: str = "table"

    def shards(self) -> Iterator[Shard]:
        if not located(self.location).exists():  # a named benchmark on the hub
            yield Shard(0, self.source, digest("hub", self.source), (self.location, ""))
            return
        files = [file.path for file in locate(self._source(self.location), self.table_reader)]
        for index, path in enumerate(files):
            prefix = f"{readable(path.stem)}/" if len(files) > 1 else ""
            location = str(path) if len(files) > 1 else self.location
            yield Shard(index, readable(path.name), file_key(path), (location, prefix))

    def count_shards(self) -> int | None:
        return sum(1 for _ in self.shards())

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        return unique_ids(self._items(shard))

    def _items(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        location, prefix = shard.payload
        examples = read_examples(
            self._source(location),
            mapping=self.mapping or None,
            images=self.images,
            reader=self.table_reader,
        )
        try:
            for example in examples:
                if isinstance(example, Dropped):
                    yield dataclasses.replace(example, stage="corpus", id=prefix + example.id)
                else:
                    yield from _items(example, prefix)
        except InputError as error:
            if shard.index == 0:  # a wrong selection or mapping is the user's to correct
                raise
            yield Dropped("corpus", shard.id, "unreadable table", str(error), scope="many")

    def _source(self, location: str) -> BenchmarkSource:
        return BenchmarkSource(location, dict(self.selection))


def _items(example: Example, prefix: str) -> Iterator[CorpusItem]:
    question, answer = example.question, example.answer
    text = "\n".join(part for part in (question, answer) if part) or None
    metadata: Mapping[str, Any] = example.metadata
    if example.options:
        metadata = {**metadata, "options": list(example.options)}
    for k, image in enumerate(example.images or (None,)):
        yield CorpusItem(
            id=readable(f"{prefix}{example.id}" + (f"/{k}" if k else "")),
            image=image,
            text=text,
            question=question,
            answer=answer if question else None,  # an answer to nothing is a caption
            metadata=metadata,
        )


# Files without anything to search are an error at once, not a search that finds nothing.


_BYTES_OF_TEXT = 64 << 20  # bytes without one JSON object, after which a file is not JSON Lines


def refuse_without_lines(path: Path) -> None:
    """Refuse a file of JSON Lines none of whose lines is a JSON object. Folders are not looked into."""
    if not path.is_file() or kind_of(path.name) != LINES:
        return
    seen = 0
    first: Dropped | None = None
    try:
        for number, line in lines(path, Span()):
            row = json_line(line, path, number) if line is not None else None
            if row is not None and not isinstance(row, Dropped):
                return
            first = first or row
            seen += len(line or b"")
            if seen > _BYTES_OF_TEXT:
                break
    except FAILURES:
        return  # the search reports what is damaged and continues with the rest
    if first is None:
        raise InputError(f"{path} holds no line: expected JSON Lines, one JSON object a line")
    raise InputError(
        f"{path}: no line is a JSON object (the first: {first.id}, {first.reason}, {first.detail}). "
        f"Expected JSON Lines, one object a line, or plain text in a file called .txt"
    )


def refuse_without_rows(path: Path) -> None:
    """Refuse a table without a row."""
    told = (
        path.is_file() and kind_of(path.name) == OTHER
    )  # of others the search says what they hold
    reader = find_reader(path) if told else None
    if reader is not None and next(iter(reader.rows(path)), None) is None:
        raise InputError(f"{path} holds no row: expected a table with one row per item")


@dataclass(frozen=True)
class CorpusRequest:
    """What the user asked for, as a reader receives it."""

    source: BenchmarkSource
    name: str
    mapping: Mapping[str, str]
    images: str | None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.mapping.items()))


@dataclass(frozen=True)
class CorpusReader:
    """One kind of corpus. A package adds its own by the entry point group ``heldout.corpora``."""

    name: str
    recognises: Callable[[BenchmarkSource], bool]
    open: Callable[[CorpusRequest], Corpus]


def open_corpus(
    source: str | Path | BenchmarkSource,
    *,
    name: str | None = None,
    reader: str | None = None,
    mapping: Mapping[str, str] | None = None,
    images: str | Path | None = None,
) -> Corpus:
    """Open a corpus: nothing is read before it is searched.

    Args:
        source: A path, a pattern of tars (``{000..099}.tar``), ``path#split=train,lang=zh``, or a dataset on the
            hub (``owner/name#split=train``); ``#limit=1000`` for the first items alone.
        name: What to call it; default: the name of the file or folder.
        reader: Use this reader; default: the first that recognises the files.
        mapping: Columns by field (id, image, text, question, answer).
        images: Folder that holds the images.

    Returns:
        The corpus, as a stream of items in shards.
    """
    parsed = parse_source(source)
    on_hub = hub_name(parsed.location)  # of owner/name and hf://owner/name
    parsed = dataclasses.replace(parsed, location=on_hub) if on_hub else at_commit(parsed)
    images = images_folder(images)
    try:
        opened = _open(
            dataclasses.replace(parsed, limit=None), name or _name(parsed), reader, mapping, images
        )
    except OSError as error:
        raise unreadable(parsed.path, error) from error
    if parsed.limit is None:
        return opened
    if isinstance(opened, EmbeddingCorpus):
        raise InputError(
            f"{parsed}: limit: rows of embeddings belong to their file by their place and cannot be cut off"
        )
    return LimitedCorpus(opened, parsed.limit, opened.name, str(parsed), opened.reader)


def _open(
    parsed: BenchmarkSource,
    name: str,
    reader: str | None,
    mapping: Mapping[str, str] | None,
    images: str | Path | None,
) -> Corpus:
    if parsed.path.exists():
        refuse_special(parsed.path)
    request = CorpusRequest(parsed, name, mapping or {}, str(images) if images else None)
    known = corpus_readers()
    if reader is not None:
        for candidate in known:
            if candidate.name == reader:
                return candidate.open(request)
        names = ", ".join(candidate.name for candidate in known)
        raise InputError(f"there is no corpus reader '{reader}'; there are: {names}")
    if parsed.path.is_file() and parsed.path.stat().st_size == 0:
        raise InputError(f"{parsed.location} is empty: a file of no bytes is no corpus")
    there = parsed.path.exists() or is_pattern(parsed.location)
    if not there and not _is_named(parsed.location):
        raise InputError(
            f"{parsed.location} does not exist: name a file, a folder or {{000..099}}.tar"
            f"{known_schemes(parsed.location)}"
        )
    for candidate in known:
        if candidate.recognises(parsed):
            return candidate.open(request)
    raise AssertionError("files are read whatever they are")


@functools.cache
def corpus_readers() -> tuple[CorpusReader, ...]:
    """Readers in the order they are asked: plug-ins, then the most specific first."""
    plugins = [entry.load() for entry in metadata.entry_points(group="heldout.corpora")]
    return (
        *plugins,
        CorpusReader("embeddings", _is_embeddings, _open_embeddings),
        CorpusReader("table", _is_selected, _open_table),
        CorpusReader("files", lambda _: True, _open_files),
    )


def _is_embeddings(source: BenchmarkSource) -> bool:
    if source.path.is_file():
        return source.path.suffix == ".npy"
    return source.path.is_dir() and bool(matrices(source.path))


def _open_embeddings(request: CorpusRequest) -> Corpus:
    _refuse_selection(request)
    return LaionEmbeddings(
        request.source.location, request.name, str(request.source), mapping=request.pairs
    )


def _is_named(location: str) -> bool:
    """A preset, or a dataset on the hub."""
    return find_preset(location) is not None or hub_name(location) is not None


def _is_selected(source: BenchmarkSource) -> bool:
    """A benchmark by its name, or rows of the tables that benchmarks are made of."""
    if not source.path.exists() and not is_pattern(source.location):
        return _is_named(source.location)
    return bool(source.selection) and not any(
        entry.kind in (FILE, LINK) and kind_of(entry.name) in (PARQUET, "tar")
        for entry in FilesCorpus(source.location, "", "").files()
    )


def _open_table(request: CorpusRequest) -> Corpus:
    refuse_without_rows(request.source.path)
    if request.source.path.is_dir():
        locate(request.source)  # a folder of several tables is refused before the benchmark is read
    return TableCorpus(
        request.source.location,
        request.name,
        str(request.source),
        selection=dict(request.source.selection),
        mapping=dict(request.mapping),
        images=request.images,
    )


def _open_files(request: CorpusRequest) -> Corpus:
    refuse_without_lines(request.source.path)
    refuse_without_rows(request.source.path)
    selection = dict(request.source.selection)
    corpus = FilesCorpus(
        request.source.location, request.name, str(request.source), request.pairs, request.images
    )
    # A split selects files if their names contain it, else rows by a column.
    if request.source.split is not None:
        by_split = dataclasses.replace(corpus, split=request.source.split)
        if next(by_split.files(), None) is not None:
            corpus = by_split
            del selection["split"]
    corpus = dataclasses.replace(corpus, filters=tuple(selection.items()))
    if request.mapping or selection:
        _refuse_unknown_columns(corpus)
    return corpus


_TABLES = 256  # that are opened to look for a column


def _refuse_unknown_columns(corpus: FilesCorpus) -> None:
    """An InputError where no table has the columns that the user names."""
    wanted = {
        **{f"mapping {field}={value}": value.split("+") for field, value in corpus.mapping},
        **{key: list(ALIASES.get(key, (key,))) for key, _ in corpus.filters},
    }
    known: list[str] = []
    tables = ((entry.name, _columns(corpus.path(entry.name))) for entry in corpus.files())
    for _, columns in itertools.islice((each for each in tables if each[1]), _TABLES):
        known += [name for name in columns if name not in known]
    for what, names in wanted.items():
        every = what.startswith("mapping ")
        found = [name.strip() in known or name.strip().startswith("column ") for name in names]
        if not (all(found) if every else any(found)):
            if not known:
                raise InputError(
                    f"{corpus.source}: it has no columns to select by; leave out the part after '#'"
                )
            column = names[found.index(False)].strip() if every else what
            raise InputError(
                f"{corpus.source}: {what}: no table has a column '{column}'. The columns are: "
                f"{', '.join(known)}"
            )


def _columns(path: Path) -> list[str]:
    """Names of the columns in the first rows of a table; none of what is no table."""
    try:
        if kind_of(path.name) == PARQUET:
            return list(pq.read_schema(ranges(path)).names)
        some: Iterator[Any]
        if kind_of(path.name) == LINES:
            some = (json_line(line, path, 0) for _, line in lines(path, Span()) if line)
        else:
            reader = find_reader(path)
            some = reader.rows(path) if reader is not None else iter(())
        rows = [row.values for row in itertools.islice(some, 50) if isinstance(row, FileRow)]
        return list(dict.fromkeys(name for row in rows for name in row))
    except (InputError, *FAILURES):
        return []


def _refuse_selection(request: CorpusRequest) -> None:
    if request.source.selection:
        raise InputError(
            f"{request.source}: it has no columns to select by; leave out the part after '#'"
        )


def _name(source: BenchmarkSource) -> str:
    path = source.path
    stem = bare_name(path) if path.is_dir() else path.name.partition(".")[0]
    if is_pattern(source.location):
        stem = FileSet(source.location, ()).root().name
    parts = [stem or path.resolve().name or "corpus", *source.selection.values()]
    parts += [f"first-{source.limit}"] if source.limit is not None else []
    return "-".join(parts)
