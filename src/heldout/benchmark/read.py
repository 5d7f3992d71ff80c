"""Read a benchmark: source → files → rows → Examples, streamed, with everything dropped kept."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heldout.benchmark._option_values import UnreadableOptionsError
from heldout.benchmark.benchmark import Benchmark, Example, canonical_value
from heldout.benchmark.fields import FieldMap
from heldout.benchmark.hub import hub_name, hub_rows
from heldout.benchmark.image_finder import ImageFinder
from heldout.benchmark.locate import DataFile, locate, unreadable
from heldout.benchmark.presets import Preset, find_preset, is_group, natural_bench, natural_twins
from heldout.benchmark.readers import FileRow
from heldout.benchmark.readers.delimited import DelimitedReader
from heldout.benchmark.readers.headerless import column_names
from heldout.benchmark.source import ALIASES, BenchmarkSource, images_folder, parse_source, split_of
from heldout.errors import InputError
from heldout.remote import bare_name, pinned, refresh
from heldout.store import OUT_OF_MEMORY, Dropped

_LOOK_AHEAD = 200  # rows looked at before deciding what the columns mean


def read_benchmark(
    source: str | Path | BenchmarkSource,
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    images: str | Path | None = None,
    reader: str | None = None,
    name: str | None = None,
) -> Benchmark:
    """Read a benchmark; what cannot be read is kept with its reason in ``dropped``.

    Args:
        source: A path, ``path#split=test,lang=en,limit=100``, a preset, or a name on the Hugging Face hub.
        preset: Read ``source`` as this named benchmark.
        mapping: Columns by field (id, image, question, options, answer, cluster); several columns
            are joined by ``+``: ``{"options": "A+B+C+D"}``.
        images: Folder that holds the images.
        reader: Use this reader; default: the first that recognises the files.
        name: What to call it; default: the name of the file, folder or dataset.

    Returns:
        The items in released order.
    """
    parsed = at_commit(parse_source(source))
    images = images_folder(images)
    examples: list[Example] = []
    dropped: list[Dropped] = []
    readers: set[str] = set()
    splits: set[str | None] = set()
    taken_for: list[str] = []
    for item in read_examples(
        parsed,
        preset=preset,
        mapping=mapping,
        images=images,
        reader=reader,
        used=readers,
        splits=splits,
        taken_for=taken_for,
    ):
        (examples if isinstance(item, Example) else dropped).append(item)  # type: ignore[arg-type]
    if not examples:
        why = (
            f" {len(dropped)} rows were dropped, the first: {dropped[0].detail}" if dropped else ""
        )
        raise InputError(f"{parsed} holds no readable item.{why}")
    if not any(item.images or item.question for item in examples):
        raise InputError(f"{parsed}: {_unknown_columns(parsed, reader)}")
    settings = find_preset(preset or parsed.location, by_name=preset is not None)
    unique, repeated = _unique_ids(examples)
    return Benchmark(
        name=name or default_name(parsed, preset),
        examples=unique,
        repeated_ids=repeated,
        split=parsed.split or _split_of_source(parsed, settings, splits),
        source=str(parsed),
        reader=", ".join(sorted(readers)),
        dropped=tuple(dropped),
        taken_for=tuple(taken_for),
        settings=_settings(preset, mapping, images, reader),
    )


_SHOWN = 40  # characters of a value


def _unknown_columns(source: BenchmarkSource, reader: str | None) -> str:
    """What the columns hold, and which of them may be meant, for a person to say."""
    rows: list[dict[str, Any]] = []
    if hub_name(source.location) is None:
        file = locate(source, reader)[0]
        found = itertools.islice(file.reader.rows(file.path), _LOOK_AHEAD)
        rows = [row.values for row in found if isinstance(row, FileRow)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    texts = [[canonical_value(row.get(column)) or "" for column in columns] for row in rows]
    shown = ", ".join(
        f"{column} ({next((text[k] for text in texts if text[k]), 'empty')[:_SHOWN]!r})"
        for k, column in enumerate(columns)
    )
    guessed: dict[str, list[str]] = {}
    for column, name in zip(columns, column_names(texts), strict=True):
        if not name.startswith(("column ", "id")):
            guessed.setdefault(name.split()[0].replace("option", "options"), []).append(column)
    named = " ".join(f"mapping {field}={'+'.join(names)}" for field, names in guessed.items())
    return (
        f"no column is known to hold questions or pictures. The columns, each with a value: {shown}. Say which "
        f"they are, for instance {named or 'mapping question=COLUMN'}"
    )


def at_commit(source: BenchmarkSource) -> BenchmarkSource:
    """``source``; of a dataset on the hub the commit that it is now, so that all that follows is of one."""
    refresh(source.location)
    try:
        return replace(source, location=pinned(source.location))
    except OSError as error:
        raise unreadable(source.path, error) from error


def _settings(
    preset: str | None,
    mapping: Mapping[str, str] | None,
    images: str | Path | None,
    reader: str | None,
) -> dict[str, Any]:
    """The arguments of ``read_benchmark`` that read the same again."""
    record = {
        "preset": preset,
        "mapping": dict(mapping or {}),
        "images": str(images) if images is not None else None,
        "reader": reader,
    }
    return {name: value for name, value in record.items() if value}


def read_examples(
    source: BenchmarkSource,
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    images: str | Path | None = None,
    reader: str | None = None,
    used: set[str] | None = None,
    splits: set[str | None] | None = None,
    taken_for: list[str] | None = None,
) -> Iterator[Example | Dropped]:
    """Examples of ``source`` one at a time; this is what a corpus reader streams too.

    ``used`` and ``splits`` are filled with the readers, and the splits that files are by their names;
    ``taken_for`` with what the columns of files without names were taken for.
    """
    settings = find_preset(preset or source.location, by_name=preset is not None)
    wanted = settings.selected(source) if settings is not None else source
    # What only the preset requires does not apply where the data is laid out otherwise.
    optional = frozenset(wanted.selection) - frozenset(source.selection)
    by_preset = settings is not None and preset is None and not source.path.exists()
    hub = settings.hub if settings is not None and by_preset else hub_name(source.location)
    if hub is not None:
        if used is not None:
            used.add("hub")
        configs = settings.configs if settings is not None and settings.hub == hub else ()
        config = wanted.selection.get("config")
        limit = _FirstExamples(source.limit)
        for part in (config,) if config else configs or (None,):
            rows = hub_rows(hub, part, wanted.selection.get("split"))
            where = f"{hub} {part}" if part else hub
            selected = _without(wanted, "split", "config")
            request = _ReadRequest(
                selected, optional, settings, False, mapping or {}, images_folder(images)
            )
            yield from limit.of(_examples(rows, request, Path(), where))
        return
    for file, examples in examples_by_file(
        source, preset=preset, mapping=mapping, images=images, reader=reader
    ):
        if used is not None:
            used.add(file.reader.name)
        if splits is not None:
            splits.add(file.split)
        yield from examples
        if taken_for is not None and isinstance(file.reader, DelimitedReader):
            text = file.reader.taken_for(file.path)
            taken_for += [f"{file.path.name}: {text}"] if text else []


def examples_by_file(
    source: BenchmarkSource,
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    images: str | Path | None = None,
    reader: str | None = None,
) -> Iterator[tuple[DataFile, Iterator[Example | Dropped]]]:
    """The data files of ``source`` in order, each with its examples. Not for what the hub keeps."""
    settings = find_preset(preset or source.location, by_name=preset is not None)
    wanted = settings.selected(source) if settings is not None else source
    optional = frozenset(wanted.selection) - frozenset(source.selection)
    request = _ReadRequest(
        wanted, optional, settings, preset is not None, mapping or {}, images_folder(images)
    )
    files = locate(wanted, reader, several=settings is not None and settings.several)
    configs = settings.configs if settings is not None else ()
    # A download holds every configuration in a folder of its own; the preset means some of them.
    named = [file for file in files if file.path.parent.name in configs]
    limit = _FirstExamples(source.limit)
    for file in named or files:
        if limit.left != 0:
            yield file, limit.of(_guarded(file, request))


class _FirstExamples:
    """Cuts streams of examples off after so many examples in all; None: never."""

    def __init__(self, limit: int | None) -> None:
        self.left = limit

    def of(self, items: Iterator[Example | Dropped]) -> Iterator[Example | Dropped]:
        while self.left != 0 and (item := next(items, None)) is not None:
            if isinstance(item, Example) and self.left is not None:
                self.left -= 1
            yield item


def _guarded(file: DataFile, request: _ReadRequest) -> Iterator[Example | Dropped]:
    try:
        yield from _file_examples(file, request)
    except OSError as error:  # a failing disk, or a file without permission
        raise unreadable(file.path, error) from error


@dataclass(frozen=True)
class _ReadRequest:
    """What the user wants of the rows of every file."""

    source: BenchmarkSource
    optional: frozenset[str]  # keys of the selection that only the preset requires
    settings: Preset | None
    named: bool  # the user named the preset, and did not mean a folder that is called like one
    mapping: Mapping[str, str]
    images: Path | None


def _file_examples(file: DataFile, request: _ReadRequest) -> Iterator[Example | Dropped]:
    rows = file.reader.rows(file.path)
    root = file.path if file.path.is_dir() else file.path.parent
    name = file.path.name
    folder = request.source.path if request.source.path.is_dir() else None
    yield from _examples(rows, request, root, name, file.split, folder)


def _examples(
    rows: Iterator[FileRow | Dropped],
    request: _ReadRequest,
    root: Path,
    where: str,
    split: str | None = None,
    folder: Path | None = None,
) -> Iterator[Example | Dropped]:
    rows, request = _taken_apart(rows, request)
    settings = request.settings
    ahead = list(itertools.islice(rows, _LOOK_AHEAD))
    seen = [row.values for row in ahead if isinstance(row, FileRow)]
    if not seen:
        yield from (row for row in ahead if isinstance(row, Dropped))
        yield from (row for row in rows if isinstance(row, Dropped))
        return
    present = {column for row in seen for column in row}
    overrides = {**(settings.fitting(present) if settings else {}), **request.mapping}
    answer_is = settings.answer_is if settings else "auto"
    fields = FieldMap.infer(seen, overrides, answer_is, where)
    if settings is not None and request.named:
        settings.refuse(seen, fields, where)
    finder = ImageFinder(root, request.images, split, folder)
    keep = _RowFilter(request.source, request.optional, seen, split, where)
    for row in itertools.chain(ahead, rows):
        if isinstance(row, Dropped):
            yield row
        elif keep(row.values):
            origin = f"{where} row {row.number}"
            try:
                yield fields.example(row.values, row.number, origin, finder)
            except UnreadableOptionsError as error:
                yield Dropped("read", origin, error.reason, error.detail)
            except RecursionError:
                yield Dropped(
                    "read", origin, "nested too deeply", "its values lie inside each other"
                )
            except MemoryError:
                yield Dropped("read", origin, OUT_OF_MEMORY, "reading the row")
    keep.report()


def _taken_apart(
    rows: Iterator[FileRow | Dropped], request: _ReadRequest
) -> tuple[Iterator[FileRow | Dropped], _ReadRequest]:
    """Rows that hold several items, as rows that hold one; an arm chooses one of two pictures."""
    settings, arm = request.settings, request.source.selection.get("arm")
    explode = settings.explode if settings is not None else None
    if arm is not None:
        ahead = list(itertools.islice(rows, _LOOK_AHEAD))
        rows = itertools.chain(ahead, rows)
        if any(isinstance(row, FileRow) and is_group(row.values) for row in ahead):
            twins = natural_twins(rows, arm, apart=explode is natural_bench)
            source = _without(request.source, "arm")
            return twins, replace(
                request, source=source, settings=settings or find_preset("naturalbench")
            )
    return (rows if explode is None else explode(rows)), request


class _RowFilter:
    """The ``#key=value`` part of a source, applied to rows; refuses unknown keys and values."""

    def __init__(
        self,
        source: BenchmarkSource,
        optional: frozenset[str],
        rows: list[dict[str, Any]],
        split: str | None,
        where: str,
    ) -> None:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        self.where = where
        self.wanted: dict[str, str] = {}
        self.seen: dict[str, Counter[str]] = {}
        self.kept = 0
        for key, value in source.selection.items():
            column = next((name for name in ALIASES.get(key, (key,)) if name in columns), None)
            if key == "split":
                if split is not None and (column is None or not _speaks_of_splits(rows, column)):
                    self._check_split(source, split, key in optional)
                    continue  # the file itself is that split
                if split is not None and split not in source.splits and key in optional:
                    continue  # the user named a file: its split is theirs to choose
            if column is None:
                if key in optional:
                    continue
                raise InputError(
                    f"{source}: {where} has no column '{key}'. It has: {', '.join(columns)}"
                )
            self.wanted[column] = value
            self.seen[column] = Counter()

    def _check_split(self, source: BenchmarkSource, split: str, optional: bool) -> None:
        if not optional and split not in source.splits:
            raise InputError(
                f"{source}: {self.where} is the split '{split}' by its name, not '{source.split}'"
            )

    def __call__(self, row: Mapping[str, Any]) -> bool:
        keep = True
        for column, wanted in self.wanted.items():
            value = canonical_value(row.get(column)) or ""
            if len(self.seen[column]) < 50:
                self.seen[column][value] += 1
            same_split = column in ALIASES["split"] and _split(value) in map(
                _split, wanted.split("+")
            )
            keep = keep and (value == wanted or same_split)
        self.kept += keep
        return keep

    def report(self) -> None:
        if self.kept or not self.wanted:
            return
        column, wanted = next(iter(self.wanted.items()))
        values = ", ".join(
            f"{value or 'empty'} ({n})" for value, n in self.seen[column].most_common(8)
        )
        raise InputError(f"{self.where}: no row has {column} = {wanted}. It has: {values}")


def _split_of_source(
    source: BenchmarkSource, settings: Preset | None, read: set[str | None]
) -> str | None:
    """The split in the file's name, if there is one; else the preset's."""
    if source.path.is_file() and (named := split_of(source.path.stem)):
        return named
    if settings is not None and len(read) == 1 and None not in read:
        return read.pop()
    return settings.selected(source).split if settings else None


def _split(value: str) -> str:
    return split_of(value) or value.lower()


def _speaks_of_splits(rows: list[dict[str, Any]], column: str) -> bool:
    """Whether a column called 'split' holds train, val and test, and not something of its own."""
    values = {canonical_value(row.get(column)) for row in rows} - {None}
    return bool(values) and all(split_of(str(value)) for value in values)


def _without(source: BenchmarkSource, *keys: str) -> BenchmarkSource:
    selection = {key: value for key, value in source.selection.items() if key not in keys}
    return BenchmarkSource(source.location, selection, source.limit)


def _unique_ids(examples: list[Example]) -> tuple[tuple[Example, ...], tuple[str, ...]]:
    """A repeated id would make tables ambiguous: later ones become 'id#2'. Also which those are."""
    taken = {example.id for example in examples}
    seen: set[str] = set()
    unique, repeated = [], []
    for example in examples:
        identifier = example.id
        if identifier in seen:
            repeat = 2
            while (identifier := f"{example.id}#{repeat}") in taken:
                repeat += 1
            taken.add(identifier)
            repeated.append(identifier)
        seen.add(identifier)
        unique.append(replace(example, id=identifier) if identifier != example.id else example)
    return tuple(unique), tuple(repeated)


def default_name(source: str | BenchmarkSource, preset: str | None) -> str:
    """The default name of a benchmark."""
    if preset:
        return preset
    source = parse_source(source)
    path = source.path
    stem = path.stem if path.is_file() else _published_name(path) or bare_name(path)
    chosen = [f"first-{source.limit}"] if source.limit is not None else []
    selection = "-".join([*source.selection.values(), *chosen])
    return f"{stem or 'benchmark'}-{selection}" if selection else stem or "benchmark"


def _published_name(folder: Path) -> str:
    """The name of a dataset that ``heldout synth`` published in this folder; "" for other folders."""
    try:
        if "heldout" not in json.loads((folder / "provenance.json").read_text("utf-8")):
            return ""
        return str(json.loads((folder / "statistics.json").read_text("utf-8"))["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
