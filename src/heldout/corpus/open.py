"""Open a corpus: look at its files and choose a reader; any benchmark format is one."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from heldout.benchmark import (
    BenchmarkSource,
    Example,
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
from heldout.corpus import parquet_corpus, webdataset, zip_corpus
from heldout.corpus._listing import (
    FileSet,
    digest,
    file_key,
    is_pattern,
    is_run_folder,
    with_loose_images,
)
from heldout.corpus.corpus import (
    Corpus,
    CorpusItem,
    EmbeddingCorpus,
    LimitedCorpus,
    Shard,
    unique_ids,
)
from heldout.corpus.folder import FolderCorpus, caption_files
from heldout.corpus.parquet_corpus import LaionEmbeddings, ParquetCorpus, matrices
from heldout.corpus.streams import FAILURES, Span, lines
from heldout.corpus.texts import TextCorpus, first_columns, holds_text, is_lines
from heldout.corpus.webdataset import Img2DatasetCorpus, WebDatasetCorpus, is_img2dataset
from heldout.corpus.zip_corpus import ZipCorpus
from heldout.errors import InputError
from heldout.image import IMAGE_ENDINGS, readable
from heldout.remote import bare_name, entries, known_schemes, located
from heldout.store import Dropped

# Any benchmark format as a corpus: another split, or a training set in JSON, CSV, LLaVA.


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
    if not path.is_file() or not is_lines(path.name):
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
    reader = find_reader(path) if path.is_file() else None
    if reader is not None and next(iter(reader.rows(path)), None) is None:
        raise InputError(f"{path} holds no row: expected a table with one row per item")


_LOOK = 2000  # entries of a folder that are looked at to tell what it is


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
    raise InputError(
        f"{parsed.location}: no corpus reader recognises this. Expected a folder of images, tar or "
        f"zip archives, Parquet, .npy embeddings, a table (JSON, JSON Lines, CSV, TSV), or text. Name a "
        f"reader yourself: {', '.join(candidate.name for candidate in known)}"
    )


@functools.cache
def corpus_readers() -> tuple[CorpusReader, ...]:
    """Readers in the order they are asked: plug-ins, then the most specific first."""
    plugins = [entry.load() for entry in metadata.entry_points(group="heldout.corpora")]
    return (
        *plugins,
        CorpusReader("embeddings", _is_embeddings, _open_embeddings),
        CorpusReader("img2dataset", lambda source: is_img2dataset(source.path), _open_img2dataset),
        CorpusReader("webdataset", _holds(webdataset.ENDINGS), _open_webdataset),
        CorpusReader("parquet", _holds(parquet_corpus.ENDINGS), _open_parquet),
        CorpusReader("zip", _is_zip, _open_zip),
        CorpusReader("text", holds_text, _open_text),
        CorpusReader("table", _is_table, _open_table),
        CorpusReader("folder", lambda source: source.path.is_dir(), _open_folder),
    )


def _holds(endings: tuple[str, ...]) -> Callable[[BenchmarkSource], bool]:
    """True for a file or a pattern with such an ending, or a folder that holds one of them."""

    def recognises(source: BenchmarkSource) -> bool:
        if is_pattern(source.location) or source.path.is_file():
            return source.location.lower().endswith(endings)
        folders = [source.path, *_some(source.path, _may_hold_data, 20)]
        return any(
            _some(folder, lambda path: path.name.lower().endswith(endings), 1) for folder in folders
        )

    return recognises


def _may_hold_data(path: Path) -> bool:
    return path.is_dir() and not is_run_folder(str(path))


def _some(folder: Path, wanted: Callable[[Path], bool], count: int) -> list[Path]:
    if not folder.is_dir():
        return []
    looked_at = itertools.islice(entries(folder), _LOOK)
    matching = (path for path in looked_at if not path.name.startswith(".") and wanted(path))
    return sorted(itertools.islice(matching, count))


def _is_zip(source: BenchmarkSource) -> bool:
    # Beside a table that rows are selected from, a zip only holds the table's images.
    return not source.selection and _holds(zip_corpus.ENDINGS)(source)


def _is_embeddings(source: BenchmarkSource) -> bool:
    if source.path.is_file():
        return source.path.suffix == ".npy"
    return source.path.is_dir() and bool(matrices(source.path))


def _is_named(location: str) -> bool:
    """A preset, or a dataset on the hub."""
    return find_preset(location) is not None or hub_name(location) is not None


def _is_table(source: BenchmarkSource) -> bool:
    path = source.path
    if not path.exists() and not is_pattern(source.location):
        return _is_named(source.location)
    if path.is_file():
        return find_reader(path) is not None
    if not path.is_dir() or source.selection:  # only rows can be selected
        return path.is_dir()
    # A file that lies beside an image of the same name describes it; others may be tables.
    files = [
        file
        for file in _some(path, lambda file: file.is_file(), _LOOK)
        if file.suffix not in IMAGE_ENDINGS
    ]
    candidates = list(itertools.islice((file for file in files if not _beside_an_image(file)), 50))
    if any(_has_rows(file) for file in (path, *candidates)):
        return True
    # Nothing but tables: their columns are called something else, and are read all the same.
    inside = _some(path, lambda file: not is_run_folder(str(file)), _LOOK)
    return bool(inside) and all(
        file.suffix.lower() in _TABLES and find_reader(file) is not None for file in inside
    )


_TABLES = (".csv", ".tsv", ".tab", ".json")


def _beside_an_image(file: Path) -> bool:
    return any(file.with_suffix(ending).exists() for ending in IMAGE_ENDINGS)


def _has_rows(path: Path) -> bool:
    """True if a benchmark reader finds rows with an image or a question in it."""
    columns = first_columns(path)
    return bool(columns.get("image") or columns.get("question"))


def _open_embeddings(request: CorpusRequest) -> Corpus:
    _refuse_selection(request)
    return LaionEmbeddings(
        request.source.location, request.name, str(request.source), mapping=request.pairs
    )


def _open_img2dataset(request: CorpusRequest) -> Corpus:
    _refuse_selection(request)
    root, name, source = request.source.location, request.name, str(request.source)
    files = FileSet(root, webdataset.ENDINGS)
    inner: WebDatasetCorpus | FolderCorpus = WebDatasetCorpus(files, name, source)
    if next(files.files(), None) is None:
        inner = FolderCorpus(root, name, source, skip=(".parquet",))
    return Img2DatasetCorpus(inner, root, name, source)


def _open_webdataset(request: CorpusRequest) -> Corpus:
    files = _files(request, webdataset.ENDINGS)
    corpus = WebDatasetCorpus(files, request.name, str(request.source))
    return with_loose_images(corpus, request.source.path)


def _open_zip(request: CorpusRequest) -> Corpus:
    files = _files(request, zip_corpus.ENDINGS)
    beside = [file for file in caption_files(files.root()) if _describes(file)]
    captions = str(beside[0]) if beside else None
    corpus = ZipCorpus(files, request.name, str(request.source), captions, request.pairs)
    return with_loose_images(corpus, request.source.path)


def _describes(path: Path) -> bool:
    if path.suffix.lower() != ".parquet":
        return _has_rows(path)
    return parquet_corpus.names_images(path)


def _open_parquet(request: CorpusRequest) -> Corpus:
    files = FileSet(request.source.location, parquet_corpus.ENDINGS)
    filters = dict(request.source.selection)
    split = request.source.split
    by_split = FileSet(files.location, files.endings, split)
    # A split selects files if their names contain it, else rows by a column.
    if split is not None and next(by_split.files(), None) is not None:
        files = by_split
        filters.pop("split")
    corpus = ParquetCorpus(
        files, request.name, str(request.source), request.pairs, filters, request.images
    )
    corpus.check()
    return corpus


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


def _open_text(request: CorpusRequest) -> Corpus:
    _refuse_selection(request)
    refuse_without_lines(request.source.path)
    return TextCorpus(
        request.source.location,
        request.name,
        str(request.source),
        request.pairs,
        request.images,
    )


def _open_folder(request: CorpusRequest) -> Corpus:
    _refuse_selection(request)
    return FolderCorpus(request.source.location, request.name, str(request.source))


def _files(request: CorpusRequest, endings: tuple[str, ...]) -> FileSet:
    """The files of a corpus whose only selection is a split in file names."""
    split = request.source.split
    files = FileSet(request.source.location, endings, split)
    unknown = set(request.source.selection) - {"split"}
    if unknown or (split is not None and next(files.files(), None) is None):
        _refuse_selection(request)
    return files


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
