"""Pictures as they are and texts as they are, encoded once per run: what an encoder is evaluated on.

A search looks at a picture in many views; an evaluation looks at it once. What a search with the same
encoder left in the run folder is used as it lies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout import __version__
from heldout.benchmark import Benchmark
from heldout.engine import Engine, LocalEngine, progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.overlap.embeddings import folders
from heldout.overlap.embeddings.benchmark_rows import (
    BenchmarkEmbeddings,
    benchmark_pictures,
    pictures_of,
)
from heldout.overlap.embeddings.corpus_rows import opened
from heldout.overlap.encoders import Encoder
from heldout.overlap.encoders.encoder import TEXTS
from heldout.store import Run, ShardResult

_PICTURES = 64  # of one task
_TABLE = "rows"
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class _Task:
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
    """One row for each distinct picture that can be decoded. With a run, a killed call goes on."""
    pictures = pictures_of(benchmark)
    known = _searched(run, encoder.identity)
    if known is not None and set(pictures) <= set(known.pictures):
        places = {key: place for place, key in enumerate(known.pictures)}
        chosen = [places[key] for key in pictures]
        return BenchmarkEmbeddings(encoder.identity, known.rows[chosen], list(pictures))
    title = f"embedding {benchmark.name}"
    rows = _encoded(
        list(pictures.items()),
        functools.partial(_embed_pictures, spec),
        _PICTURES,
        lambda thing: str(thing[0]),
        run,
        f"upright/{folders.encoder_folder(encoder.identity)}",
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
        f"texts/{folders.encoder_folder(identity)}",
        identity,
        encoder.dimension,
        engine,
        f"embedding {what}",
        quiet,
    )


def _searched(run: Run | None, identity: str) -> BenchmarkEmbeddings | None:
    """What a search with this encoder left."""
    if run is None or not folders.of_benchmark(run, identity).exists():
        return None
    return benchmark_pictures(run, identity)


def _encoded(
    things: Sequence[Any],
    work: Callable[[_Task], ShardResult],
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
    found: dict[int, Floats] = {}
    with progress(title, len(things), disabled=quiet) as step:

        def to_do() -> Iterator[_Task]:
            for index, start in enumerate(range(0, len(things), size)):
                task = _Task(index, tuple(things[start : start + size]))
                if stage is None or stage.plan(index, "\n".join(map(key, task.things))):
                    yield task
                else:
                    step(len(task.things))

        for outcome in (engine or LocalEngine(1)).map(work, to_do()):
            if outcome.value is None:
                raise InputError(f"{title} by '{identity}' failed: {outcome.error}")
            if stage is None:
                found[outcome.task.index] = _matrix(outcome.value.tables[_TABLE])
            else:
                stage.save(outcome.task.index, outcome.value)
            step(len(outcome.task.things))
    parts = (
        [found[index] for index in sorted(found)]
        if stage is None
        else [_matrix(pq.read_table(path)) for path in stage.parts(_TABLE)]
    )
    rows = np.concatenate([np.zeros((0, dimension), np.float32), *parts])
    if len(rows) != len(things):
        raise InputError(f"{title}: {len(rows):,} rows of {len(things):,}; give the command again")
    return rows


def _embed_pictures(spec: str, task: _Task) -> ShardResult:
    encoder = opened(spec)
    refs: list[ImageRef] = [ref for _, ref in task.things]
    return _result(encoder.encode([ref.open() for ref in refs]))


def _embed_texts(spec: str, task: _Task) -> ShardResult:
    return _result(opened(spec).encode_texts(list(task.things)))


def _result(rows: Floats) -> ShardResult:
    flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
    table = pa.table({"row": pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])})
    return ShardResult({_TABLE: table}, {"rows": len(rows)})


def _matrix(table: pa.Table) -> Floats:
    column = table.column("row").combine_chunks()
    flat: Floats = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, column.type.list_size).astype(np.float32, copy=False)
