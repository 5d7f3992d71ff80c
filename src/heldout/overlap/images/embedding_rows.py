"""embed_benchmark: the benchmark's pictures in all their views, encoded once per run and encoder."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout import __version__
from heldout.benchmark import Benchmark, picture_key
from heldout.engine import Engine, LocalEngine, progress
from heldout.errors import InputError
from heldout.image import Digests, ImageRef
from heldout.overlap.images._small import SMALL_SIDE
from heldout.overlap.images.embed import SavedShard
from heldout.overlap.images.embeddings import (
    SHEET,
    encoder_asked_for,
    encoder_folder,
    of_benchmark,
    opened,
    read_sheet,
    runs_a_model,
)
from heldout.overlap.images.encoder import TEXTS, Encoder
from heldout.store import Run, ShardResult, Stage, file_name, write_table

UPRIGHT = "as is"
_PICTURES = 16  # of one task
_IDENTITY = b"heldout.encoder"


@dataclass(frozen=True)
class Queries:
    """One row per view of each picture."""

    identity: str
    rows: NDArray[np.float32]
    pictures: tuple[str, ...]  # per row, the key of its picture
    views: tuple[str, ...]  # per row, what the view is called
    small: frozenset[str] = frozenset()  # pictures of fewer than SMALL_SIDE pixels a side


@dataclass(frozen=True)
class BenchmarkEmbeddings:
    """The upright view of each distinct picture, in the benchmark's order."""

    identity: str
    rows: NDArray[np.float32]
    pictures: list[str]


@dataclass(frozen=True)
class _Task:
    index: int
    pictures: tuple[tuple[str, ImageRef], ...]


def pictures_of(benchmark: Benchmark) -> dict[str, ImageRef]:
    """One reference per distinct picture that can be compared and decoded."""
    images: dict[str, ImageRef] = {}
    for ref in benchmark.images:
        key = picture_key(benchmark, ref)
        if key and ":" not in key:
            images.setdefault(key, ref)
    return images


def embed_benchmark(
    benchmark: Benchmark,
    spec: str,
    encoder: Encoder,
    run: Run,
    engine: Engine,
    *,
    quiet: bool = False,
) -> Queries:
    """Every view of every picture; what an earlier call finished is not encoded again."""
    settings = {"heldout": __version__, "encoder": encoder.identity}
    stage = run.stage(f"queries/{encoder_folder(encoder.identity)}", settings)
    pictures = list(pictures_of(benchmark).items())
    title = f"embedding {benchmark.name}"
    with progress(title, len(pictures), "pictures", disabled=quiet) as step:

        def to_do() -> Iterator[_Task]:
            for index, start in enumerate(range(0, len(pictures), _PICTURES)):
                task = _Task(index, tuple(pictures[start : start + _PICTURES]))
                if stage.plan(index, "\n".join(key for key, _ in task.pictures)):
                    yield task
                else:
                    step(len(task.pictures))

        look = functools.partial(embed_views, spec)
        for outcome in engine.map(look, to_do(), on_gpu=runs_a_model(spec)):
            if outcome.value is None:
                raise InputError(
                    f"{benchmark.name} could not be embedded by '{encoder.identity}': {outcome.error}"
                )
            stage.save(outcome.task.index, outcome.value)
            step(len(outcome.task.pictures))
    stage.sweep()
    queries = replace(_gathered(stage, encoder), small=_small(benchmark))
    _write_upright(of_benchmark(run, encoder.identity), queries)
    return queries


def _small(benchmark: Benchmark) -> frozenset[str]:
    digests = benchmark.digests.values()
    return frozenset(
        digest.pixels
        for digest in digests
        if isinstance(digest, Digests) and min(digest.width, digest.height) < SMALL_SIDE
    )


def embed_views(spec: str, task: _Task) -> ShardResult:
    """The views of a few pictures as a table. Pure: the caller stores what is returned."""
    encoder = opened(spec)
    keys: list[str] = []
    names: list[str] = []
    rows = [np.zeros((0, encoder.dimension), np.float32)]
    for key, ref in task.pictures:
        seen, encoded = encoder.encode_views(ref.open())
        rows.append(encoded)
        keys += [key] * len(seen)
        names += seen
    return ShardResult({"queries": _table(keys, names, np.concatenate(rows))}, {"views": len(keys)})


def benchmark_pictures(run: Run, identity: str | None = None) -> BenchmarkEmbeddings:
    """What a near search saved of its benchmark; ``identity`` where it used several encoders."""
    paths = {}
    for path in sorted((run.path / "queries").glob("*.parquet")):
        about = pq.read_schema(path).metadata or {}
        paths[about.get(_IDENTITY, b"").decode()] = path
    name = encoder_asked_for(run, identity, paths, "embeddings of its benchmark")
    table = pq.read_table(paths[name])
    return BenchmarkEmbeddings(name, _rows(table), table.column("picture").to_pylist())


def _gathered(stage: Stage, encoder: Encoder) -> Queries:
    tables = list(stage.parts("queries"))
    rows = [_rows(table) for table in tables]
    empty = np.zeros((0, encoder.dimension), np.float32)
    return Queries(
        encoder.identity,
        np.concatenate([empty, *rows]),
        tuple(itertools.chain.from_iterable(t.column("picture").to_pylist() for t in tables)),
        tuple(itertools.chain.from_iterable(t.column("view").to_pylist() for t in tables)),
    )


def _write_upright(path: Path, queries: Queries) -> None:
    upright = [n for n, view in enumerate(queries.views) if view == UPRIGHT]
    keys = [queries.pictures[n] for n in upright]
    table = _table(keys, [UPRIGHT] * len(keys), queries.rows[upright])
    write_table(path, table.replace_schema_metadata({_IDENTITY: queries.identity.encode()}))


def _table(pictures: list[str], names: list[str], rows: NDArray[np.float32]) -> Any:
    flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
    return pa.table(
        {
            "picture": pa.array(pictures, pa.string()),
            "view": pa.array(names, pa.string()),
            "row": pa.FixedSizeListArray.from_arrays(flat, rows.shape[1]),
        }
    )


def _rows(table: Any) -> NDArray[np.float32]:
    column = table.column("row").combine_chunks()
    width = column.type.list_size
    flat: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, width).astype(np.float32, copy=False)


# Pictures as they are and texts as they are, encoded once per run: what an encoder is evaluated on.
#
# A search looks at a picture in many views; an evaluation looks at it once. What a search with the same
# encoder left in the run folder is used as it lies.


_IMAGES_PER_TASK = 64  # of one task
_TABLE = "rows"
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class _EvaluationTask:
    index: int
    things: tuple[Any, ...]  # (key, reference) of pictures, or texts


def upright_rows(
    benchmark: Benchmark,
    spec: str,
    encoder: Encoder,
    run: Run | None = None,
    engine: Engine | None = None,
    *,
    quiet: bool = False,
) -> BenchmarkEmbeddings:
    """One row for each distinct picture that can be decoded. With a run, a killed call resumes."""
    pictures = pictures_of(benchmark)
    known = _searched(run, encoder.identity)
    if known is not None and set(pictures) <= set(known.pictures):
        places = {key: place for place, key in enumerate(known.pictures)}
        positions = [places[key] for key in pictures]
        return BenchmarkEmbeddings(encoder.identity, known.rows[positions], list(pictures))
    title = f"embedding {benchmark.name}"
    rows = _encoded(
        list(pictures.items()),
        functools.partial(_embed_pictures, spec),
        _IMAGES_PER_TASK,
        lambda thing: str(thing[0]),
        run,
        f"upright/{encoder_folder(encoder.identity)}",
        encoder.identity,
        encoder.dimension,
        engine,
        title,
        quiet,
    )
    return BenchmarkEmbeddings(encoder.identity, rows, list(pictures))


def text_rows(
    texts: Sequence[str],
    spec: str,
    encoder: Encoder,
    run: Run | None = None,
    engine: Engine | None = None,
    *,
    what: str = "texts",
    quiet: bool = False,
) -> Floats:
    """One row for each of ``texts``, which must be distinct. InputError without a text tower."""
    identity = encoder.text_identity
    return _encoded(
        list(texts),
        functools.partial(_embed_texts, spec),
        TEXTS,
        str,
        run,
        f"texts/{encoder_folder(identity)}",
        identity,
        encoder.dimension,
        engine,
        f"embedding {what}",
        quiet,
    )


def _searched(run: Run | None, identity: str) -> BenchmarkEmbeddings | None:
    """What a search with this encoder left."""
    if run is None or not of_benchmark(run, identity).exists():
        return None
    return benchmark_pictures(run, identity)


def _encoded(
    things: Sequence[Any],
    work: Callable[[_EvaluationTask], ShardResult],
    size: int,
    key: Callable[[Any], str],
    run: Run | None,
    folder: str,
    identity: str,
    dimension: int,
    engine: Engine | None,
    title: str,
    quiet: bool,
) -> Floats:
    stage = (
        None if run is None else run.stage(folder, {"heldout": __version__, "encoder": identity})
    )
    matrices: dict[int, Floats] = {}
    with progress(title, len(things), disabled=quiet) as step:

        def to_do() -> Iterator[_EvaluationTask]:
            for index, start in enumerate(range(0, len(things), size)):
                task = _EvaluationTask(index, tuple(things[start : start + size]))
                if stage is None or stage.plan(index, "\n".join(map(key, task.things))):
                    yield task
                else:
                    step(len(task.things))

        for outcome in (engine or LocalEngine(1)).map(work, to_do()):
            if outcome.value is None:
                raise InputError(f"{title} by '{identity}' failed: {outcome.error}")
            if stage is None:
                matrices[outcome.task.index] = _matrix(outcome.value.tables[_TABLE])
            else:
                stage.save(outcome.task.index, outcome.value)
            step(len(outcome.task.things))
    parts = (
        [matrices[index] for index in sorted(matrices)]
        if stage is None
        else [_matrix(table) for table in stage.parts(_TABLE)]
    )
    rows = np.concatenate([np.zeros((0, dimension), np.float32), *parts])
    if len(rows) != len(things):
        raise InputError(f"{title}: {len(rows):,} rows of {len(things):,}; give the command again")
    return rows


def _embed_pictures(spec: str, task: _EvaluationTask) -> ShardResult:
    encoder = opened(spec)
    refs: list[ImageRef] = [ref for _, ref in task.things]
    return _result(encoder.encode([ref.open() for ref in refs]))


def _embed_texts(spec: str, task: _EvaluationTask) -> ShardResult:
    return _result(opened(spec).encode_texts(list(task.things)))


def _result(rows: Floats) -> ShardResult:
    flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
    table = pa.table({"row": pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])})
    return ShardResult({_TABLE: table}, {"rows": len(rows)})


def _matrix(table: pa.Table) -> Floats:
    column = table.column("row").combine_chunks()
    flat: Floats = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, column.type.list_size).astype(np.float32, copy=False)


# whole_pictures: a corpus' saved rows, one per picture, without its panels and trimmed frames.


@dataclass(frozen=True)
class CorpusEmbeddings:
    """``rows`` hold the pictures in item order, shard by shard, still on disk (memory-mapped).

    ``groups`` has one label per picture: equal labels are equal pixels, so that copies inside the
    corpus can be taken out.
    """

    identity: str
    rows: list[NDArray[Any]]
    ids: list[str]
    groups: NDArray[np.int64]


def whole_pictures(run: Run, corpus: str, identity: str | None = None) -> CorpusEmbeddings:
    """What a near search of ``corpus`` saved in ``run``; ``identity`` where it used several encoders."""
    known = _sheets(run, corpus)
    name = encoder_asked_for(run, identity, known, f"embeddings of corpus '{corpus}'")
    rows: list[NDArray[Any]] = []
    ids: list[str] = []
    digests: list[str] = []
    for shard in known[name]:
        matrix, own, own_digests = _wholes(shard)
        rows.append(matrix)
        ids += own
        digests += own_digests
    return CorpusEmbeddings(name, rows, ids, _labels(digests))


def _sheets(run: Run, corpus: str) -> dict[str, list[SavedShard]]:
    folder = run.path / "embeddings" / file_name(corpus)
    return dict(read_sheet(path) for path in sorted(folder.glob(f"*/{SHEET}")))


def _wholes(shard: SavedShard) -> tuple[NDArray[Any], Sequence[str], list[str]]:
    """Rows, ids and digests of the whole pictures; a digest is "" if unknown."""
    matrix = shard.rows()
    about = shard.described(len(matrix))
    return matrix[: len(about.ids)], about.ids, about.digests  # they come first: a view, no copy


def _labels(digests: list[str]) -> NDArray[np.int64]:
    """One label per distinct digest, in order of appearance; a picture without one is its own."""
    label_of: dict[str, int] = {}
    labels = np.empty(len(digests), np.int64)
    for position, digest in enumerate(digests):
        labels[position] = label_of.setdefault(digest or f"row {position}", len(label_of))
    return labels
