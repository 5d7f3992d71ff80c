"""embed_benchmark: the benchmark's pictures in all their views, encoded once per run and encoder."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout import __version__
from heldout.benchmark import Benchmark, picture_key
from heldout.engine import Engine, progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.overlap.embeddings import folders
from heldout.overlap.embeddings.corpus_rows import opened
from heldout.overlap.encoders import Encoder
from heldout.store import Run, ShardResult, Stage, write_table

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
    found: dict[str, ImageRef] = {}
    for ref in benchmark.images:
        key = picture_key(benchmark, ref)
        if key and ":" not in key:
            found.setdefault(key, ref)
    return found


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
    stage = run.stage(f"queries/{folders.encoder_folder(encoder.identity)}", settings)
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

        for outcome in engine.map(functools.partial(embed_views, spec), to_do()):
            if outcome.value is None:
                raise InputError(
                    f"{benchmark.name} could not be embedded by '{encoder.identity}': {outcome.error}"
                )
            stage.save(outcome.task.index, outcome.value)
            step(len(outcome.task.pictures))
    stage.sweep()
    queries = _gathered(stage, encoder)
    _write_upright(folders.of_benchmark(run, encoder.identity), queries)
    return queries


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
    found = {}
    for path in sorted((run.path / "queries").glob("*.parquet")):
        about = pq.read_schema(path).metadata or {}
        found[about.get(_IDENTITY, b"").decode()] = path
    chosen = folders.encoder_asked_for(run, identity, found, "embeddings of its benchmark")
    table = pq.read_table(found[chosen])
    return BenchmarkEmbeddings(chosen, _rows(table), table.column("picture").to_pylist())


def _gathered(stage: Stage, encoder: Encoder) -> Queries:
    tables = [pq.read_table(path) for path in stage.parts("queries")]
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
