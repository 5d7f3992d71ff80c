"""Saved image and text embeddings in LAION's layout, joined with a benchmark.

``img_emb/img_emb_0.npy`` and ``text_emb/text_emb_0.npy`` have a row for every row of
``metadata/metadata_0.parquet``. A row belongs to the item whose id is in one of its columns (id, key,
image_path, …) or whose picture has the file name given there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.corpus import FAILURES, LaionEmbeddings
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate.encoders._items import STAGE, Asked, AskedItems
from heldout.evaluate.encoders._ranks import averaged_rows, usable
from heldout.evaluate.encoders.settings import SAVED, EncoderSettings
from heldout.overlap import (
    Encoder,
    open_encoder,
    open_matrix,
    read_identity,
    text_rows,
    unit,
    upright_rows,
)
from heldout.store import Dropped, Run

_KEYS = ("id", "key", "image_id", "image_path", "image", "filename", "file_name", "url")
_LABELS = ("label", "class", "name", "caption", "text")
_CAPTIONS = ("caption", "text", "title")
_TEXT_PLACES = ("text_emb", "text_embeddings", "")
UNUSABLE = "numbers that are not finite, or nothing but zeros"
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SavedPairs:
    """Rows by item: ``pictures`` always, ``texts`` and ``captions`` where the folder has text rows."""

    identity: str
    pictures: dict[str, Floats]
    texts: dict[str, Floats]
    captions: dict[str, str]
    unusable: set[str] = field(default_factory=set)  # items whose picture has no usable row
    unusable_texts: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Shard:
    images: NDArray[Any] | None
    texts: NDArray[Any] | None
    columns: Mapping[str, list[Any]]
    rows: int


def read_saved_pairs(folder: Path, benchmark: Benchmark, items: list[Asked]) -> SavedPairs:
    """The rows of ``items``; InputError where none can be found. Repeated rows of an item: the first."""
    named = _names(benchmark, items)
    saved_pairs = SavedPairs(_identity(folder), {}, {}, {})
    seen = 0
    for shard in _shards(folder):
        keys = [name for name in _KEYS if name in shard.columns]
        words = next((name for name in _CAPTIONS if name in shard.columns), None)
        for row in range(shard.rows):
            seen += 1
            item = next(
                (
                    identifier
                    for key in keys
                    if (identifier := _item(shard.columns[key][row], named))
                ),
                None,
            )
            if item is None or item in saved_pairs.pictures or shard.images is None:
                continue
            picture = _row(shard.images, row)
            if picture is None:
                saved_pairs.unusable.add(item)
                continue
            saved_pairs.pictures[item] = picture
            if shard.texts is not None:
                text = _row(shard.texts, row)
                if text is None:
                    saved_pairs.unusable_texts.add(item)
                    continue
                saved_pairs.texts[item] = text
                sentence = shard.columns[words][row] if words else None
                # Rows without captions are matched by the item they belong to.
                saved_pairs.captions[item] = str(sentence) if sentence else f"text of {item}"
    saved_pairs.unusable.difference_update(saved_pairs.pictures)
    if not saved_pairs.pictures and saved_pairs.unusable:
        raise InputError(
            f"{folder}: none of the rows of {len(saved_pairs.unusable):,} items can be used: {UNUSABLE}. Embed "
            f"the pictures again"
        )
    if not saved_pairs.pictures:
        raise InputError(
            f"{folder}: none of its {seen:,} rows names an item of {benchmark.name}. Expected a metadata "
            f"column {', '.join(_KEYS)} with the item's id or its picture's file name"
        )
    return saved_pairs


def read_class_rows(folder: Path) -> tuple[list[str], Floats]:
    """Classes and their rows: the mean of the usable text rows that have the same label."""
    rows: list[Floats] = []
    labels: list[str] = []
    named: set[str] = set()
    for shard in _shards(folder, images=False):
        column = next((name for name in _LABELS if name in shard.columns), None)
        if column is None or shard.texts is None:
            raise InputError(
                f"class_embeddings {folder}: expected text embeddings (text_emb/*.npy) and a metadata "
                f"column label; its metadata has: {', '.join(shard.columns) or 'no column'}"
            )
        units = _units(shard.texts)
        good = usable(units)
        rows.append(units[good])
        row_labels = [str(label) for label in shard.columns[column]]
        named.update(row_labels)
        labels += [label for label, kept in zip(row_labels, good, strict=True) if kept]
    if lost := sorted(named - set(labels)):
        raise InputError(
            f"class_embeddings {folder}: no row of {len(lost):,} of {len(named):,} classes can be used, "
            f"such as '{lost[0]}': {UNUSABLE}. Embed their prompts again"
        )
    return averaged_rows(np.concatenate(rows), labels)


def _row(matrix: NDArray[Any], place: int) -> Floats | None:
    """A unit row, or None where it has no direction."""
    row = _units(matrix[place])
    return row if usable(row) else None


def _units(rows: NDArray[Any]) -> Floats:
    with np.errstate(all="ignore"):  # rows that are not finite are left out and counted
        return unit(np.asarray(rows, np.float32))


def _identity(folder: Path) -> str:
    identity = read_identity(folder)
    return identity.identity if identity is not None else f"saved:{folder.name}"


def _shards(folder: Path, *, images: bool = True) -> Iterator[_Shard]:
    if not folder.is_dir():
        raise InputError(f"saved:{folder}: there is no such folder")
    texts = _text_matrices(folder)
    if images:
        corpus = LaionEmbeddings(str(folder), folder.name, str(folder))
        pairs = [(corpus.embeddings(shard), *shard.payload) for shard in corpus.shards()]
    else:
        places = (folder / "metadata", folder)
        pairs = [(None, path, _metadata(number, places)) for number, path in texts.items()]
    if not pairs:
        raise InputError(
            f"saved:{folder}: expected img_emb/*.npy with metadata/*.parquet; found none"
        )
    first: tuple[Path, int] | None = None
    for matrix, path, log in pairs:
        if log is None:
            raise InputError(
                f"{path}: there is no metadata file beside it, so it is not known which items its rows belong to"
            )
        rows, columns = _columns(Path(log))
        spoken = texts.get(_number(Path(path)))
        words = None if spoken is None else open_matrix(spoken)
        for array, whose in ((matrix, path), (words, spoken)):
            if array is not None and len(array) != rows:
                raise InputError(
                    f"{whose} has {len(array):,} rows but {log} has {rows:,}: they do not belong together"
                )
            if array is not None and whose is not None:
                first = first or (Path(whose), array.shape[1])
                if array.shape[1] != first[1]:
                    raise InputError(
                        f"{first[0]} has rows of {first[1]} numbers, {whose} of {array.shape[1]}: they are "
                        f"of different encoders"
                    )
        yield _Shard(matrix, words, columns, rows)


def _text_matrices(folder: Path) -> dict[str, Path]:
    for place in _TEXT_PLACES:
        paths = sorted((folder / place).glob("text_emb*.npy"))
        if paths:
            return {_number(path): path for path in paths}
    return {}


def _metadata(number: str, places: tuple[Path, ...]) -> str | None:
    names = [f"metadata_{number}.parquet", "metadata.parquet"]
    return next((str(p / name) for p in places for name in names if (p / name).is_file()), None)


def _number(path: Path) -> str:
    digits = path.stem.rpartition("_")[2]
    return digits if digits.isdigit() else ""


def _columns(path: Path) -> tuple[int, dict[str, list[Any]]]:
    """How many rows, and what the columns that matter say."""
    wanted = {*_KEYS, *_LABELS, *_CAPTIONS}
    try:
        names = [name for name in pq.read_schema(path).names if name.lower() in wanted]
        table = pq.read_table(path, columns=names)
    except FAILURES as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error
    rows = int(pq.read_metadata(path).num_rows)
    return rows, {name.lower(): table.column(name).to_pylist() for name in names}


def _names(benchmark: Benchmark, items: list[Asked]) -> dict[str, str]:
    """What a row may call an item: its id, or its picture's name where no other item shows it."""
    wanted = {item.id for item in items}
    names: dict[str, str] = {}
    shared: set[str] = set()
    for example in benchmark:
        if example.id in wanted:
            for name in {example.images[0].name, PurePosixPath(example.images[0].name).name}:
                if names.setdefault(name, example.id) != example.id:
                    shared.add(name)
    return {name: item for name, item in names.items() if name not in shared} | {
        spelling: spelling for spelling in wanted
    }


def _item(value: Any, named: Mapping[str, str]) -> str | None:
    if value is None:
        return None
    text = str(value)
    return named.get(text) or named.get(PurePosixPath(text).name)


# A benchmark's pictures as rows, and texts as rows of the same space: by a model, or from saved embeddings.


@dataclass
class EncodedRows:
    """One row per distinct picture; ``place`` finds it by the picture's key."""

    spec: str
    identity: str
    encoder: Encoder | None  # None where rows were saved
    saved: SavedPairs | None
    pictures: Floats
    place: dict[str, int]
    run: Run | None
    engine: Engine
    quiet: bool

    def texts(self, texts: Sequence[str], what: str) -> Floats:
        assert self.encoder is not None
        return text_rows(
            texts, self.spec, self.encoder, self.run, self.engine, what=what, quiet=self.quiet
        )

    def of(self, items: Sequence[Asked]) -> Floats:
        return self.pictures[[self.place[item.picture] for item in items]]


def encoded_rows(
    benchmark: Benchmark,
    asked: AskedItems,
    settings: EncoderSettings,
    run: Run | None,
    engine: Engine,
    *,
    quiet: bool,
) -> EncodedRows:
    """Rows of every picture of ``asked``; items without a saved row are dropped from it."""
    if settings.is_saved:
        return _saved(benchmark, asked, settings.encoder, run, engine, quiet)
    encoder = open_encoder(settings.encoder)
    benchmark_embeddings = upright_rows(
        benchmark, settings.encoder, encoder, run, engine, quiet=quiet
    )
    place = {key: number for number, key in enumerate(benchmark_embeddings.pictures)}
    return EncodedRows(
        settings.encoder,
        encoder.identity,
        encoder,
        None,
        benchmark_embeddings.rows,
        place,
        run,
        engine,
        quiet,
    )


def _saved(
    benchmark: Benchmark, asked: AskedItems, spec: str, run: Run | None, engine: Engine, quiet: bool
) -> EncodedRows:
    folder = Path(spec.removeprefix(SAVED))
    saved = read_saved_pairs(folder, benchmark, asked.items)
    asked.dropped += [
        Dropped(STAGE, item.id, "unusable embedding", UNUSABLE)
        if item.id in saved.unusable
        else Dropped(STAGE, item.id, "no embedding", f"{folder.name} has no row of it")
        for item in asked.items
        if item.id not in saved.pictures
    ]
    asked.items = [item for item in asked.items if item.id in saved.pictures]
    first: dict[str, Floats] = {}  # a picture shown by several items is one candidate
    for item in asked.items:
        first.setdefault(item.picture, saved.pictures[item.id])
    place = {key: number for number, key in enumerate(first)}
    rows = np.stack(list(first.values()))
    return EncodedRows(spec, saved.identity, None, saved, rows, place, run, engine, quiet)
